package ctld

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gleaner-hpc/gleaner/ctld/replica"
)

// withRemedy adds to the error of a damaged file what it means for the cluster,
// and what to type. The certificates are kept: the controller rejoins under its
// name.
func withRemedy(err error, config *Config, name string) error {
	if !errors.Is(err, replica.ErrDamaged) {
		return err
	}
	dir := strings.TrimRight(config.DataDir, "/")
	away := fmt.Sprintf("mv %[1]s %[1]s.damaged && install -d -m 700 %[1]s && ", dir)
	if config.PeerListen == "" {
		return fmt.Errorf("%w. This is the only controller: put back a copy of the whole data directory; without one start over and restore a backup: "+
			"%sif [ -e %[3]s.damaged/pki ]; then mv %[3]s.damaged/pki %[3]s/; fi; start gctld as before; gcontrol snapshot restore FILE", err, away, dir)
	}
	return fmt.Errorf("%w. Where other controllers run, the cluster continues without this one, and it can rejoin: "+
		"%smv %[3]s.damaged/pki %[3]s/; start gctld as before with --join --name %[4]s added; on another controller gcontrol peer add %[4]s %[5]s. "+
		"Where none is left see gctld recover --help", err, away, dir, name, config.peerAddress())
}
