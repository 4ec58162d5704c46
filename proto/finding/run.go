package finding

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"
)

// DefaultLimit is the time of a check that names none.
const DefaultLimit = 10 * time.Second

// grace is how much longer than its context a check may take to come back and
// say itself what it was waiting for.
const grace = time.Second

// Check is one check. Run gets a context that ends at its limit.
type Check struct {
	Name  string
	Limit time.Duration // 0 = DefaultLimit
	Run   func(context.Context) []Finding
}

// Run runs checks at the same time and returns their findings in the order of
// the checks. A check that does not come back in time is left behind.
func Run(ctx context.Context, checks []Check) []Finding {
	answers := make([]chan []Finding, len(checks))
	started := time.Now()
	for i, check := range checks {
		answers[i] = make(chan []Finding, 1)
		go func() { answers[i] <- run(ctx, check) }()
	}
	var findings []Finding
	for i, check := range checks {
		findings = append(findings, check.await(answers[i], time.Until(started.Add(check.limit()+grace)))...)
	}
	return findings
}

// await returns what comes in time, or that nothing has. What is there
// already counts, also when its time was over while another was awaited.
func (c *Check) await(answer <-chan []Finding, patience time.Duration) []Finding {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case found := <-answer:
		return found
	case <-late.C:
	}
	select {
	case found := <-answer:
		return found
	default:
		return []Finding{Bad(c.Name, fmt.Sprintf("the check did not come back within %v", c.limit()),
			"whatever it waits for holds up jobs, too",
			"see what the kernel waits for, a file server that is away perhaps: dmesg | tail; findmnt")}
	}
}

func (c *Check) limit() time.Duration {
	if c.Limit == 0 {
		return DefaultLimit
	}
	return c.Limit
}

func run(ctx context.Context, check Check) (found []Finding) {
	// One check that fails to understand a machine does not cost the others.
	defer func() {
		if cause := recover(); cause != nil {
			found = []Finding{Unseen(check.Name, fmt.Sprintf("the check itself failed, which is an error of this program: %v\n%s", cause, debug.Stack()))}
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, check.limit())
	defer cancel()
	return check.Run(ctx)
}
