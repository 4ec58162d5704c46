package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

const (
	// mostAwaited is how long the submitting host is waited for.
	mostAwaited = 24 * time.Hour
	lookAgain   = 200 * time.Millisecond
)

// awaitFetch waits until gsubmit, or gcp, has fetched a result to where the job was submitted.
func (c *copier) awaitFetch(ctx context.Context, one spec.Staging) error {
	if _, err := os.Stat(one.Source); err != nil {
		return err
	}
	if c.says == "" {
		return errors.New("results are fetched only from a job")
	}
	host, file, _ := one.Here()
	c.say("%s%s: type on %s: gcp -r %s:%s %s", step.AwaitsFetch, one.Source, host, c.getenv("SLURM_JOB_ID"), one.Source, file)
	fetched := filepath.Join(filepath.Dir(c.says), step.FetchedFile(one.Source))
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for late := time.After(mostAwaited); ; {
		_, err := os.Stat(fetched)
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.New("it was interrupted before it was fetched")
		case <-late:
			return fmt.Errorf("nobody has fetched it in %v", mostAwaited)
		case <-tick.C:
		}
	}
}

// awaitHere waits for a file that gsubmit copies here from where it runs, or gcp.
func (c *copier) awaitHere(ctx context.Context, one spec.Staging) error {
	target := one.HereTarget()
	if err := makeParent(target); err != nil {
		return err
	}
	from := target + spec.HereSuffix
	if err := os.Remove(from); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	host, file, _ := one.Here()
	c.say("%s%s of %s: type there: gcp %s %s:%s", step.AwaitsHere, file, host, file, c.getenv("SLURM_JOB_ID"), from)
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for late := time.After(mostAwaited); ; {
		err := os.Rename(from, target)
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.New("it was interrupted")
		case <-late:
			return fmt.Errorf("nobody has copied it here in %v", mostAwaited)
		case <-tick.C:
		}
	}
}
