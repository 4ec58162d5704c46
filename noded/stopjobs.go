package noded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/noded/registry"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/shim/prepare"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

const (
	// maxStops bounds the allocations that StopJobs ends at once.
	maxStops = 64
	// stopPatience is how long a supervisor may take to hear that it must end
	// its job, before it is killed.
	stopPatience = 5 * time.Second
)

// StopJobs ends every allocation of a job on this node at once, without grace, and
// removes what they leave: processes, control groups and directories, also
// those of allocations that can no longer be read. It is
// for a node whose daemon has been stopped, and fails with ErrLocked while one
// runs. The results are lost: controllers learn of them as of a node's
// failure. It tries until ctx ends, and the error says all that is left.
func StopJobs(ctx context.Context, config Config, log *slog.Logger) error {
	if os.Geteuid() != 0 {
		return ErrNotRoot
	}
	if _, err := os.Stat(config.StateDir); errors.Is(err, os.ErrNotExist) {
		return removeGroups(ctx, config.CgroupParent)
	}
	unlock, err := lockState(config.StateDir)
	if errors.Is(err, ErrLocked) {
		return fmt.Errorf("a gnoded is running, and would report the ends of these jobs: stop it first: %w", err)
	}
	if err != nil {
		return err
	}
	defer unlock()
	if config.StateDir, err = filepath.EvalSymlinks(config.StateDir); err != nil {
		return fmt.Errorf("find state_dir: %w", err)
	}
	return stopAll(ctx, &shims{config: config}, config, log)
}

func stopAll(ctx context.Context, s supervisors, config Config, log *slog.Logger) error {
	found, err := s.List() // a damaged allocation is stopped as any other
	if err != nil && len(found) == 0 {
		return err
	}
	failures := make([]error, len(found), len(found)+3)
	var group errgroup.Group
	group.SetLimit(maxStops)
	for i, alloc := range found {
		group.Go(func() error {
			key := registry.KeyOf(alloc.Order().GetAlloc())
			if err := stopAlloc(ctx, alloc); err != nil {
				failures[i] = fmt.Errorf("allocation %v: %w", key, err)
			} else {
				log.Info("removed an allocation of a job", "job", key.Job, "epoch", key.Epoch)
			}
			return nil
		})
	}
	_ = group.Wait()
	for _, left := range s.Sweep(func(name string) bool { return allocName.MatchString(name) }) {
		failures = append(failures, left)
	}
	failures = append(failures, removeGroups(ctx, config.CgroupParent))
	// Only an empty directory can go this way.
	jobs := filepath.Join(config.StateDir, "jobs")
	if err := os.Remove(jobs); err != nil && !errors.Is(err, os.ErrNotExist) && errors.Join(failures...) == nil {
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// stopAlloc ends one allocation and deletes what is on disk.
func stopAlloc(ctx context.Context, s supervisor) error {
	pause := newPause(10*time.Millisecond, time.Second)
	var last error
	for ctx.Err() == nil {
		if last = stopOnce(ctx, s); last == nil || errors.Is(last, bundle.ErrForeign) {
			return last // what is no allocation's directory is not ours to remove, and stays
		}
		sleep(ctx, pause.NextBackOff())
	}
	return errors.Join(last, ctx.Err())
}

var errStillEnding = errors.New("its supervisor is still ending it")

func stopOnce(ctx context.Context, s supervisor) error {
	if _, err := s.Result(); err == nil {
		return s.Forget()
	}
	if !s.Alive() {
		if _, err := s.Recover(ctx); err != nil {
			return err
		}
		return s.Forget()
	}
	client, err := s.Client()
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, stopPatience)
	defer cancel()
	if _, err := client.End(limited, &pb.EndAlloc{Alloc: s.Order().GetAlloc()}); err != nil {
		// It is stopped, or hangs. Its job ends with it.
		return errors.Join(err, s.Kill())
	}
	return errStillEnding
}

// allocName is the name of an allocation's group: JOB.EPOCH.
var allocName = regexp.MustCompile(`^[0-9]{1,10}\.[0-9]{1,10}$`)

// removeGroups kills what is in the groups of allocations and of what fetches container
// images, and removes those and their parents as far as they are ours and empty.
func removeGroups(ctx context.Context, parent string) error {
	names, err := cgroup.List(parent)
	if err != nil {
		return err
	}
	var failures []error
	for _, name := range names {
		if !allocName.MatchString(name) && name != prepare.ImagesGroup {
			failures = append(failures, fmt.Errorf("cgroup %s/%s is not of a job: remove it by hand", parent, name))
			continue
		}
		g := cgroup.New(path.Join(parent, name), cgroup.Limits{})
		failures = append(failures, errors.Join(g.Kill(ctx), g.Remove()))
	}
	for ours := parent; strings.HasPrefix(ours, "/gleaner") || ours == parent; ours = path.Dir(ours) {
		removed, err := cgroup.New(ours, cgroup.Limits{}).RemoveEmpty()
		if err != nil {
			failures = append(failures, err)
		}
		if !removed {
			break
		}
	}
	return errors.Join(failures...)
}
