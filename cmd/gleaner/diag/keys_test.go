package diag

import (
	"testing"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestSlurmKeys: the statistics have all that Slurm's have.
func TestSlurmKeys(t *testing.T) {
	d := &diagnosis{DiagnoseResponse: &pb.DiagnoseResponse{}, types: []requestCount{{name: "Ping", count: 1}}, users: []requestCount{{name: "ada", count: 1}}}
	clienttest.Keys(t, "testdata/statistics.keys", d.statistics(show.JSONCurrent))
}
