package simulate

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clusterfile"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/replay"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/similar"
	"github.com/gleaner-hpc/gleaner/sched/sim"
)

// readPolicy finds a policy by its name, or reads a cluster.toml, which it returns too.
func readPolicy(ctx context.Context, word string) (sim.Policy, *pb.Policy, error) {
	for _, policy := range sim.Policies {
		if policy.Name == word {
			return policy, nil, nil
		}
	}
	if !strings.ContainsAny(word, "./") {
		hint := ""
		if meant := similar.Nearest(word, policyNames()); meant != "" {
			hint = "; did you mean " + meant + "?"
		}
		return sim.Policy{}, nil, fmt.Errorf("%q is no policy: there are %s, and files such as ./cluster.toml%s", word, strings.Join(policyNames(), ", "), hint)
	}
	text, err := console.ReadFile(ctx, word, clusterfile.MaxBytes)
	if err != nil {
		return sim.Policy{}, nil, err
	}
	read, err := clusterfile.ParseWith(text, console.ReadBeside(ctx, word, clusterfile.MaxBytes))
	if err != nil {
		return sim.Policy{}, nil, fmt.Errorf("%s: %w", word, err)
	}
	return replay.Policy(filepath.Base(word), read), read, nil
}
