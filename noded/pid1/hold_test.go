package pid1

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/proto/step"
)

// hold asks in the background to hold a session.
func (j *job) hold(name string, clientS uint32) func() (*step.Exited, error) {
	j.t.Helper()
	conn, err := net.Dial("unix", filepath.Join(j.dir, StepSocket))
	if err != nil {
		j.t.Fatal(err)
	}
	c := step.NewClient(conn)
	j.t.Cleanup(func() { c.Close() })
	type answer struct {
		ended *step.Exited
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		ended, err := c.Hold(name, clientS)
		answers <- answer{ended, err}
	}()
	return func() (*step.Exited, error) { a := <-answers; return a.ended, a.err }
}

// Who holds the job for a session hears how that ended once its client has, also if
// it asks only then; and is told when there is no client.
func TestHold(t *testing.T) {
	j := start(t, shell("while :; do sleep 1; done"))
	before := j.hold("a", 60)
	c := j.mustAttach(openOf("a", nil, "sh", "-c", "exit 7"))
	if exited := c.until(""); exited.Code != 7 {
		t.Errorf("exited %+v", exited)
	}
	c.ended()
	for _, wait := range []func() (*step.Exited, error){before, j.hold("a", 60)} {
		if ended, err := wait(); err != nil || ended.Code != 7 {
			t.Errorf("held until %+v, %v", ended, err)
		}
	}
	if _, err := j.hold("nobody", 1)(); err == nil || !strings.Contains(err.Error(), "has been away for 1s") {
		t.Errorf("a session that never begins: %v", err)
	}
}
