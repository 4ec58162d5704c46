package doctor

import (
	"context"
	"fmt"

	"github.com/gleaner-hpc/gleaner/proto/finding"
)

// checkWayOut tries whether jobs with a network of their own reach the outside through this
// node, as the daemon does at its start.
func (d *doctor) checkWayOut(context.Context) []finding.Finding {
	const name = "way out"
	if !d.root {
		return needsRoot(name)
	}
	if d.config.Network.Closed {
		return []finding.Finding{finding.Good(name, "gnoded.toml says [network] way_out = \"none\": jobs with a network of their own reach nothing outside")}
	}
	ranges, err := d.config.Network.TryWayOut()
	if err != nil {
		return []finding.Finding{finding.Doubtful(name, err.Error(),
			"jobs with a network of their own, and so guests on lent nodes, reach nothing outside of it",
			"mend what it names and restart gnoded, or set way_out = \"none\" under [network] in gnoded.toml if that is wanted")}
	}
	return []finding.Finding{finding.Good(name, fmt.Sprintf("packets of jobs pass through this node; their addresses are of %s and %s", ranges.V4, ranges.V6))}
}
