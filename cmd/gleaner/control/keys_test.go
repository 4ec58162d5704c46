package control

import (
	"testing"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
)

// TestSlurmKeys: pings and licenses have all that Slurm's have.
func TestSlurmKeys(t *testing.T) {
	clienttest.Keys(t, "testdata/ping.keys", pinged{})
	clienttest.Keys(t, "testdata/license.keys", licenseRecord{})
}
