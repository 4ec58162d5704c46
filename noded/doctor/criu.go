package doctor

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	"github.com/gleaner-hpc/gleaner/checkpoint"
	"github.com/gleaner-hpc/gleaner/proto/finding"
)

const (
	meansCRIU = "jobs run, but their processes cannot be saved and moved: who is reclaimed has to start again"
	fixCRIU   = "contrib/setup/debian.sh criu, or install CRIU 4.2 or later so that `criu check` is content"
	fixTar    = "install GNU tar"
)

// checkCRIU looks for a CRIU that works, as the daemon does.
func (d *doctor) checkCRIU(ctx context.Context) []finding.Finding {
	return d.tryCRIU(ctx, checkpoint.Programs(d.config.Checkpoint.CRIU))
}

func (d *doctor) tryCRIU(ctx context.Context, programs []string) []finding.Finding {
	const name = "checkpoints"
	if !d.root {
		return needsRoot(name)
	}
	engine, rejected := checkpoint.Find(ctx, programs)
	var others strings.Builder
	for _, r := range rejected {
		fmt.Fprintf(&others, "; not %s %s: %s", r.Path, r.Version, r.Reason)
	}
	if engine == nil {
		found := strings.TrimPrefix(others.String(), "; not ")
		switch {
		case found == "" && d.config.Checkpoint.CRIU != "":
			found = fmt.Sprintf("gnoded.toml says [checkpoint] criu = %q, and there is no such program", d.config.Checkpoint.CRIU)
		case found == "":
			found = "CRIU is not installed"
		}
		return []finding.Finding{finding.Doubtful(name, found, meansCRIU, fixCRIU)}
	}
	if _, err := exec.LookPath("tar"); err != nil {
		return []finding.Finding{finding.Doubtful(name, fmt.Sprintf("%s works, but packs files with tar: %v", engine.Path, err), meansCRIU, fixTar)}
	}
	return []finding.Finding{finding.Good(name, fmt.Sprintf("%s %s, and its own check is content%s", engine.Path, engine.Version, others.String()))}
}
