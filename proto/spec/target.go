package spec

import (
	"fmt"
	"strconv"
	"strings"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// JobTarget names a job, a whole array, or some tasks of an array.
type JobTarget struct {
	Job      uint32
	HasTasks bool             // Tasks says which; otherwise the whole job is meant
	Tasks    []*pb.ArrayRange // normal ranges
}

// String writes the target as ParseJobTargets reads it.
func (t JobTarget) String() string {
	id := strconv.FormatUint(uint64(t.Job), 10)
	switch {
	case !t.HasTasks:
		return id
	case len(t.Tasks) == 1 && t.Tasks[0].GetFirst() == t.Tasks[0].GetLast():
		return id + "_" + FormatArray(t.Tasks, 0)
	default:
		return id + "_[" + FormatArray(t.Tasks, 0) + "]"
	}
}

// ParseJobTargets reads job numbers as scancel, squeue and scontrol take them:
// "12,13_4,15_[1-5,9]". The error for a word that is none is Slurm's.
func ParseJobTargets(s string) ([]JobTarget, error) {
	words, err := splitOutsideBrackets(s)
	if err != nil || len(words) == 0 {
		return nil, Sentence("Invalid job id: " + shorten(s))
	}
	if len(words) > MaxJobTargets {
		return nil, fmt.Errorf("%d job ids are too many: at most %d at once", len(words), MaxJobTargets)
	}
	targets := make([]JobTarget, 0, len(words))
	for _, word := range words {
		target, err := parseJobTarget(word)
		if err != nil {
			return nil, err
		}
		targets = append(targets, target)
	}
	return targets, nil
}

func parseJobTarget(word string) (JobTarget, error) {
	invalid := Sentence("Invalid job id: " + shorten(word))
	jobText, taskText, hasTasks := strings.Cut(word, "_")
	job, err := strconv.ParseUint(jobText, 10, 32)
	if err != nil || job == 0 || !allDigits(jobText) {
		return JobTarget{}, invalid
	}
	target := JobTarget{Job: uint32(job), HasTasks: hasTasks}
	if !hasTasks {
		return target, nil
	}
	inside, bracketed := strings.CutPrefix(taskText, "[")
	if !bracketed {
		if !allDigits(taskText) {
			return JobTarget{}, invalid
		}
		inside = taskText
	} else if inside, bracketed = strings.CutSuffix(inside, "]"); !bracketed {
		return JobTarget{}, invalid
	}
	if target.Tasks, err = parseRanges(inside); err != nil {
		return JobTarget{}, fmt.Errorf("%w: %w", invalid, err)
	}
	return target, nil
}

// FormatJobID writes a job's number, 12, or a task's, 12_3, or a component's
// of a heterogeneous job, 12+1.
func FormatJobID(id *pb.JobId) string {
	text := strconv.FormatUint(uint64(id.GetJob()), 10)
	if id != nil && id.ArrayTask != nil {
		text += "_" + strconv.FormatUint(uint64(id.GetArrayTask()), 10)
	}
	if id != nil && id.HetComponent != nil {
		text += "+" + strconv.FormatUint(uint64(id.GetHetComponent()), 10)
	}
	return text
}
