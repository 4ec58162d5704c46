package acctmgr

import (
	"strings"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clienttest"
)

// TestAccountPrompts: on a terminal gacctmgr asks, and only a yes is one; it
// does not wait forever.
func TestAccountPrompts(t *testing.T) {
	stage.Prompts(t, "gacctmgr add account maths fairshare=5", "Would you like to commit changes?", "Changes Discarded")
	decide := decideTime
	decideTime = 200 * time.Millisecond
	t.Cleanup(func() { decideTime = decide })
	stub := clienttest.StubCluster()
	clienttest.ServeStub(t, stub)
	if got := stage.AtTerminal(t, "gacctmgr add account maths", ""); got.Status != 1 || !strings.Contains(got.Stderr, "Changes Discarded") {
		t.Errorf("silence: %+v", got)
	}
	if _, done := stub.Changed(); done != 0 {
		t.Error("silence is taken for a yes")
	}
}
