package doctor

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/proto/finding"
)

// leastCRIU is the oldest major version that is known to work on the kernels
// of today: 3.17, for one, does not start on 6.18.
const leastCRIU = 4

const (
	meansCRIU = "jobs run, but their processes cannot be saved and moved: who is reclaimed has to start again"
	fixCRIU   = "install CRIU 4.2 or later; where Debian's own is older, from its source: apt-get build-dep criu, make, make install; then criu check"
)

func (d *doctor) checkCRIU(ctx context.Context) []finding.Finding {
	const name = "checkpoints"
	program, err := exec.LookPath("criu")
	if err != nil {
		return []finding.Finding{finding.Doubtful(name, "criu is not installed", meansCRIU, fixCRIU)}
	}
	out, err := exec.CommandContext(ctx, program, "--version").CombinedOutput()
	version := parseCRIU(string(out))
	if err != nil || version == "" {
		return []finding.Finding{finding.Doubtful(name, fmt.Sprintf("%s --version does not answer as it should: %v", program, err), meansCRIU, fixCRIU)}
	}
	major, _, _ := strings.Cut(version, ".")
	if number, err := strconv.Atoi(major); err != nil || number < leastCRIU {
		return []finding.Finding{finding.Doubtful(name, fmt.Sprintf("%s is version %s", program, version), meansCRIU, fixCRIU)}
	}
	if !d.root {
		return needsRoot(name)
	}
	out, err = exec.CommandContext(ctx, program, "check").CombinedOutput()
	if err != nil {
		if ctx.Err() != nil {
			err = errors.New("it does not come to an end")
		}
		return []finding.Finding{finding.Doubtful(name, fmt.Sprintf("criu check: %v: %s", err, lastLine(string(out))), meansCRIU, fixCRIU)}
	}
	return []finding.Finding{finding.Good(name, fmt.Sprintf("%s %s, and its own check is content", program, version))}
}

// parseCRIU finds the number in "Version: 4.2\nGitID: v4.2".
func parseCRIU(text string) string {
	for line := range strings.Lines(text) {
		if version, ok := strings.CutPrefix(line, "Version: "); ok {
			return strings.TrimSpace(version)
		}
	}
	return ""
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
