package staging

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

const (
	// mostAwaited is how long a file of the submitting host is waited for.
	mostAwaited = 24 * time.Hour
	lookAgain   = 200 * time.Millisecond
)

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
	c.say("%s%s of %s: type there: gcp %s %s:%s", step.AwaitsHere, file, host, file, c.inv.Getenv("SLURM_JOB_ID"), from)
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
