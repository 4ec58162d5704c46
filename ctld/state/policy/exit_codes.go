package policy

import (
	"fmt"

	"github.com/gleaner-hpc/gleaner/ctld/state/ranges"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// checkExitCodes refuses numbers that are no exit statuses, and puts the others
// into normal form.
func checkExitCodes(key string, codes []ranges.Range) ([]ranges.Range, error) {
	if len(codes) == 0 {
		return nil, nil
	}
	normal, err := spec.CheckExitCodes(ranges.Messages(codes))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return ranges.FromMessages(normal), nil
}

func formatExitCodes(codes []ranges.Range) string { return spec.FormatArray(ranges.Messages(codes), 0) }

// RequeueExits are the exit statuses of both lists, as slurm.conf(5) has them.
func (p *Policy) RequeueExits() (again, held string) {
	return formatExitCodes(p.RequeueExit), formatExitCodes(p.RequeueExitHold)
}
