package slurmconf

import (
	"testing"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clusterfile"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/noded"
)

// TestAccepted: the controllers take the policy, and gnoded its configuration.
func TestAccepted(t *testing.T) {
	result := converted(t, site)
	site, err := clusterfile.Parse([]byte(result.Cluster))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := policy.Normalize(policy.FromMessage(site)); err != nil {
		t.Errorf("%v\n%s", err, result.Cluster)
	}
	for _, node := range result.Nodes {
		config, err := noded.ParseConfig([]byte(node.Text))
		if err != nil || config.MemoryBytes == 0 {
			t.Errorf("%s%v\n%s", node.Hosts, err, node.Text)
		}
	}
}
