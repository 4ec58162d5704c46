package noded

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/noded/owner"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// TestLedgerFirst: supervisors hear at once what the owner says. Controllers hear of it when it
// is on the disk, also in a registration: after a restart no number is given out twice that
// they know.
func TestLedgerFirst(t *testing.T) {
	c, s, shims, n := setUp(t)
	s.start(startOrder(12, 1))
	guest := shims.get(12, 1)
	guest.ready()
	s.ready()
	dir := filepath.Join(t.TempDir(), "state")
	n.agent.mu.Lock()
	n.agent.owned.file = filepath.Join(dir, ledgerFile) // in a folder that is not there
	n.agent.mu.Unlock()
	n.agent.changeOwned(func(o *owner.Owner, now owner.Time) bool {
		return o.Reclaim(owner.Request{By: "bob", Within: time.Minute}, now) == nil
	})
	eventually(t, "the supervisor knows", func() bool { return guest.count("hold true within true kill false") == 1 })
	n.agent.mu.Lock()
	n.agent.session.end(errInventoryChanged)
	n.agent.mu.Unlock()
	next := c.next()
	if told := next.register.GetHolds(); told != nil {
		t.Errorf("the disk does not have it, and controllers are told %v", told)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	n.agent.keepLedgerAgain()
	told := expect(next, "NodeHolds", (*pb.NodeMessage).GetNodeHolds)
	kept, err := readLedger(n.agent.owned.file)
	if err != nil || len(told.Holds) != 1 || kept.GetNumber() != told.Number {
		t.Errorf("told %v, and on the disk is %v, %v", told, kept, err)
	}
}
