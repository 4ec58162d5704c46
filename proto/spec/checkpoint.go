package spec

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Ways in which a job is saved: --checkpoint.
const (
	CheckpointAuto   = "auto"   // by the system, if that can; else by itself
	CheckpointSystem = "system" // its processes, by the system
	CheckpointApp    = "app"    // by itself: see SavedExit
	CheckpointNone   = "none"   // never
)

var checkpointModes = []string{CheckpointAuto, CheckpointSystem, CheckpointApp, CheckpointNone}

// What becomes of connections that lead out of a network of the job's own:
// --checkpoint-connections.
const (
	ConnectionsRefuse = "refuse" // the job cannot be saved while it has one
	ConnectionsClose  = "close"  // they are reset when it resumes from an image
)

var checkpointConnections = []string{ConnectionsRefuse, ConnectionsClose}

// SavedExit is the exit status by which the batch script of a job under
// --checkpoint=app says that its work is saved and that it wants to run again.
const SavedExit = 85

// intervalAuto is the interval that the controllers choose.
const intervalAuto = "auto"

// ParseCheckpointInterval reads --checkpoint-interval: a time as for --time, or
// auto. UNLIMITED is 0: only when asked.
func ParseCheckpointInterval(text string) (seconds uint32, auto bool, err error) {
	if strings.EqualFold(text, intervalAuto) {
		return 0, true, nil
	}
	seconds, err = ParseTime(text)
	switch {
	case err != nil:
		return 0, false, fmt.Errorf("%w; or auto", err)
	case seconds == Unlimited:
		return 0, false, nil
	}
	return seconds, false, nil
}

// CheckCheckpoint refuses a policy that makes no sense.
func CheckCheckpoint(policy *pb.CheckpointPolicy) error {
	mode := policy.GetMode()
	switch {
	case mode != "" && !slices.Contains(checkpointModes, mode):
		return fmt.Errorf("--checkpoint=%s is not known: use %s", shorten(mode), strings.Join(checkpointModes, ", "))
	case policy.GetConnections() != "" && !slices.Contains(checkpointConnections, policy.GetConnections()):
		return fmt.Errorf("--checkpoint-connections=%s is not known: use %s", shorten(policy.GetConnections()), strings.Join(checkpointConnections, ", "))
	case policy.GetConnections() == ConnectionsClose && mode == CheckpointNone:
		return errors.New("--checkpoint=none and --checkpoint-connections=close exclude each other")
	case policy.GetIntervalAuto() && policy.GetIntervalS() != 0:
		return errors.New("--checkpoint-interval is both a time and auto: give one")
	case policy.GetIntervalS() == Unlimited:
		return errors.New("--checkpoint-interval is without end: leave it out")
	}
	if interval := policy.GetIntervalAuto() || policy.GetIntervalS() != 0; interval {
		switch mode {
		case CheckpointNone:
			return errors.New("--checkpoint=none and --checkpoint-interval exclude each other")
		case CheckpointApp:
			return errors.New("--checkpoint=app and --checkpoint-interval exclude each other: an application that saves itself chooses when")
		}
	}
	return checkCheckpointDirectory(policy)
}

func checkCheckpointDirectory(policy *pb.CheckpointPolicy) error {
	directory := policy.GetDirectory()
	if directory == "" {
		return nil
	}
	switch policy.GetMode() {
	case CheckpointSystem, CheckpointNone:
		return fmt.Errorf("--checkpoint-dir is for applications that save themselves, and --checkpoint=%s is not: use --checkpoint=app", policy.GetMode())
	}
	if len(directory) > MaxPathBytes || strings.ContainsFunc(directory, unicode.IsControl) {
		return fmt.Errorf("--checkpoint-dir is longer than %d bytes, or holds a line break or another control character", MaxPathBytes)
	}
	if _, err := ExpandFileName(directory, FileNames{}); err != nil {
		return fmt.Errorf("--checkpoint-dir: %w", err)
	}
	return nil
}

// CheckpointDirectory is where a job that saves itself does so: what
// --checkpoint-dir says, with patterns of file names replaced by the job's
// names, or .gleaner/JOB below its work directory. It is "" for other jobs.
func CheckpointDirectory(job *pb.JobSpec, names FileNames) (string, error) {
	policy := job.GetCheckpoint()
	path := policy.GetDirectory()
	switch {
	case path == "" && policy.GetMode() != CheckpointApp:
		return "", nil
	case path == "":
		path = fmt.Sprintf(".gleaner/%d", names.JobID)
	default:
		var err error
		if path, err = ExpandFileName(path, names); err != nil {
			return "", err
		}
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(job.GetWorkDirectory(), path)
	}
	return filepath.Clean(path), nil
}
