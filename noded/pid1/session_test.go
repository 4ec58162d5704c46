package pid1

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/proto/prototest"
	"github.com/gleaner-hpc/gleaner/proto/step"
)

// client is one of a session, and what it has heard.
type client struct {
	t    *testing.T
	at   *step.Attachment
	said *step.Attached
	out  string
	has  uint64
	// takes has it say at once that it has what it heard, as users' clients do.
	takes bool
}

func (j *job) attach(ask step.Message) (*client, error) {
	j.t.Helper()
	conn, err := net.Dial("unix", filepath.Join(j.dir, StepSocket))
	if err != nil {
		j.t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(prototest.Patience))
	c := &client{t: j.t, at: step.NewAttachment(conn)}
	j.t.Cleanup(func() { c.at.Close() })
	if c.said, err = c.at.Begin(ask); err == nil {
		c.has = c.said.Output
	}
	return c, err
}

func (j *job) mustAttach(ask step.Message) *client {
	j.t.Helper()
	c, err := j.attach(ask)
	if err != nil {
		j.t.Fatal(err)
	}
	return c
}

func openOf(name string, window *step.Window, argv ...string) *step.Open {
	return &step.Open{
		Name: name, Client: "c-" + name, Window: window, Argv: argv, Umask: 0o22, Cwd: "/",
		Env: step.Strings{"PATH=/usr/bin:/bin", "TERM=dumb", "HOME=/nowhere", "PS1=$ "},
	}
}

func (c *client) say(text string) {
	c.t.Helper()
	if err := c.at.Send(&step.Input{All: true, Data: []byte(text)}); err != nil {
		c.t.Fatal(err)
	}
}

// until reads until the output holds what is wanted, or the session ends.
// tail is the end of what was heard, for messages.
func (c *client) tail() string {
	const shown = 400
	if len(c.out) <= shown {
		return fmt.Sprintf("%q", c.out)
	}
	return fmt.Sprintf("%d bytes that end in %q", len(c.out), c.out[len(c.out)-shown:])
}

func (c *client) until(want string) *step.Exited {
	c.t.Helper()
	for want == "" || !strings.Contains(c.out, want) {
		m, err := c.at.Next()
		if err != nil {
			c.t.Fatalf("heard %s, and %v, before %q", c.tail(), err, want)
		}
		switch m := m.(type) {
		case *step.Output:
			c.out += string(m.Data)
			c.has += uint64(len(m.Data))
			if c.takes {
				_ = c.at.Send(&step.Taken{Output: c.has}) // an end is heard by reading
			}
		case *step.Exited:
			if want == "" {
				return m
			}
			c.t.Fatalf("heard %s, and the end, before %q", c.tail(), want)
		case *step.Failed:
			c.t.Fatalf("heard %s, and %s", c.tail(), m.Text)
		}
	}
	return nil
}

func (c *client) ended() {
	c.t.Helper()
	if err := c.at.Send(&step.Taken{Output: c.has, Ended: true}); err != nil {
		c.t.Fatal(err)
	}
}

var small = &step.Window{Rows: 33, Columns: 99}

// A terminal: its size, who controls it, job control, and that a change of its
// size is told.
func TestSessionTerminal(t *testing.T) {
	j := start(t, shell("while :; do sleep 1; done"))
	c := j.mustAttach(openOf("a", small, "bash", "--norc", "--noprofile", "-i"))
	if !c.said.Terminal || c.said.Step != 0 {
		t.Fatalf("attached: %+v", c.said)
	}
	c.until("$ ")
	c.say("tty; stty size; set -m; echo step $SLURM_STEP_ID; ps -o tty= -p $$; trap 'echo resized' WINCH\n")
	c.until("/dev/pts/")
	c.until("33 99")
	c.until("step 0")
	if err := c.at.Send(&step.Resize{Window: step.Window{Rows: 50, Columns: 120}}); err != nil {
		t.Fatal(err)
	}
	c.say("\n")
	c.until("resized")
	c.say("stty size\n")
	c.until("50 120")
	c.say("sleep 1004 & jobs; sleep 1005\n")
	c.until("Running")
	time.Sleep(100 * time.Millisecond)
	c.say("\x03") // ends what is in the foreground, and nothing else
	c.say("echo st\"\"ill; exit 7\n")
	c.until("still")
	if exited := c.until(""); exited.Code != 7 {
		t.Errorf("exited %+v", exited)
	}
	for deadline := time.Now().Add(prototest.Patience); len(j.commands()) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it left %q behind", j.commands())
		}
	}
	c.ended()
	for deadline := time.Now().Add(prototest.Patience); ; time.Sleep(10 * time.Millisecond) {
		if _, err := j.attach(&step.Attach{Step: 0, Client: "x"}); err != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a session of which the end was heard is not forgotten")
		}
	}
}

// The end of the client's input ends a terminal's for every program that reads
// there, also for one that changes the terminal before it reads; whoever attaches
// afterwards has input again.
func TestSessionInputEnds(t *testing.T) {
	j := start(t, shell("while :; do sleep 1; done"))
	for name, argv := range map[string][]string{
		"shell":   {"bash", "--norc", "--noprofile", "-i"},
		"late":    {"bash", "-c", "sleep 0.3; stty -icanon; sleep 0.3; stty icanon; cat"},
		"several": {"sh", "-c", "cat; cat; cat"},
	} {
		c := j.mustAttach(openOf(name, small, argv...))
		if err := c.at.Send(&step.InputEnd{All: true}); err != nil {
			t.Fatal(err)
		}
		if exited := c.until(""); exited.Code != 0 || exited.Signal != 0 {
			t.Errorf("%s: exited %+v", name, exited)
		}
		c.ended()
	}
	c := j.mustAttach(openOf("again", small, "bash", "-c", "stty -echo; trap '' HUP; until read line; do :; done; echo got $line"))
	if err := c.at.Send(&step.InputEnd{All: true}); err != nil {
		t.Fatal(err)
	}
	other := j.mustAttach(&step.Attach{Step: c.said.Step, Client: "other"})
	other.say("this\n")
	other.until("got this")
}

// Pipes: nothing is lost or doubled, however often the client goes and comes
// back, and whatever of it arrived.
func TestSessionComesBack(t *testing.T) {
	j := start(t, shell("while :; do sleep 1; done"))
	open := openOf("b", nil, "sh", "-c", `seq 100000; cat; echo end >&2; exit 3`)
	c := j.mustAttach(open)
	var out strings.Builder
	has := uint64(0)
	for round := 0; ; round++ {
		// Asked for again with the same name it is the same session.
		if round > 0 {
			ask := step.Message(&step.Attach{Step: c.said.Step, Name: "b", Client: "c-b", Output: &has})
			if round == 1 && has == 0 {
				ask = open
			}
			c = j.mustAttach(ask)
		}
		if c.said.Output != has {
			t.Fatalf("continues at %d, not at %d", c.said.Output, has)
		}
		for range 3 {
			if strings.HasSuffix(out.String(), "\n100000\n") {
				break
			}
			m, err := c.at.Next()
			if err != nil {
				t.Fatal(err)
			}
			if o, ok := m.(*step.Output); ok {
				out.Write(o.Data)
				has += uint64(len(o.Data))
			}
		}
		if round%2 == 0 {
			_ = c.at.Send(&step.Taken{Output: has})
		}
		c.at.Close()
		if strings.HasSuffix(out.String(), "\n100000\n") {
			break
		}
	}
	c = j.mustAttach(&step.Attach{Step: c.said.Step, Client: "c-b", Output: &has})
	c.say("one\n")
	c.at.Close()
	// What had not come when the connection ended is sent again.
	if c = j.mustAttach(&step.Attach{Client: "c-b", Output: &has}); c.said.Input < 4 {
		c.say("one\n"[c.said.Input:])
	}
	c.until("one\n")
	c.say("two\n")
	if err := c.at.Send(&step.InputEnd{All: true}); err != nil {
		t.Fatal(err)
	}
	// In what order two streams come is not said.
	if exited := c.until(""); exited.Code != 3 || strings.Replace(c.out, "end\n", "", 1) != "one\ntwo\n" || !strings.Contains(c.out, "end\n") {
		t.Errorf("%+v and %q", exited, c.out)
	}
	var want strings.Builder
	for n := range 100000 {
		fmt.Fprintln(&want, n+1)
	}
	if out.String() != want.String() {
		t.Errorf("%d bytes came, not the %d that were written", out.Len(), want.Len())
	}
}

// Nobody is attached: a terminal keeps the last of what was written, and another
// client, which is the one from then on, hears it.
func TestSessionDetached(t *testing.T) {
	j := start(t, shell("while :; do sleep 1; done"))
	written := filepath.Join(t.TempDir(), "written")
	c := j.mustAttach(openOf("c", small, "sh", "-c", "echo begin; read x; seq 200000; echo last; : >$0; read x; exit $x", written))
	c.until("begin\r\n")
	_ = c.at.Send(&step.Taken{Output: c.has})
	c.say("\n")
	c.at.Close()
	list := func() (sessions []step.SessionInfo) {
		conn, err := net.Dial("unix", filepath.Join(j.dir, StepSocket))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if sessions, err = step.NewAttachment(conn).List(); err != nil {
			t.Fatal(err)
		}
		return sessions
	}
	for deadline := time.Now().Add(prototest.Patience); list()[0].Attached; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a client that left is still attached")
		}
	}
	// It writes into nothing meanwhile.
	for deadline := time.Now().Add(prototest.Patience); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(written); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal("a session without a client does not write on")
		}
	}
	first := j.mustAttach(&step.Attach{Step: 0, Client: "first"})
	// On a busy machine part of what was written is still in the terminal, which holds
	// up to 64 KiB: it comes when there is room for it.
	first.takes = true
	first.until("last\r\n")
	if first.said.Output <= c.has || len(first.out) > step.SessionWindow+128<<10 || !strings.Contains(first.out, "\n199999\r\n200000\r\n") {
		t.Errorf("%d bytes from %d on", len(first.out), first.said.Output)
	}
	second := j.mustAttach(&step.Attach{Step: 0, Client: "second"})
	for {
		m, err := first.at.Next()
		if err != nil {
			t.Fatalf("who was attached before is not told of another: %v", err)
		}
		if failed, ok := m.(*step.Failed); ok {
			if !strings.Contains(failed.Text, "another client") {
				t.Error(failed.Text)
			}
			break
		}
	}
	second.say("5\n")
	if exited := second.until(""); exited.Code != 5 {
		t.Errorf("%+v", exited)
	}
}

func TestSessionRefused(t *testing.T) {
	j := start(t, shell("while :; do sleep 1; done"))
	failed := (*step.FailedError)(nil)
	if _, err := j.attach(openOf("d", small, "nonexistent")); !errors.As(err, &failed) || failed.Code != 2 {
		t.Errorf("a program that is not there: %v", err)
	}
	if _, err := j.attach(&step.Attach{Step: 9, Client: "x"}); err == nil || !strings.Contains(err.Error(), "step 9 is no session") {
		t.Errorf("a session that is not there: %v", err)
	}
	c := j.mustAttach(openOf("e", nil, "sh"))
	if _, err := j.attach(&step.Attach{Step: c.said.Step, Name: "other", Client: "x"}); err == nil {
		t.Error("attached to a session of another name")
	}
	for i := 0; i < step.MaxSessions-1; i++ {
		j.mustAttach(openOf(fmt.Sprint("f", i), nil, "cat"))
	}
	if _, err := j.attach(openOf("g", nil, "cat")); err == nil || !strings.Contains(err.Error(), "sessions already") {
		t.Errorf("one more session than there may be: %v", err)
	}
	other := start(t, &Config{})
	if _, err := other.attach(openOf("h", nil, "cat")); err == nil || !strings.Contains(err.Error(), "does not run the batch script") {
		t.Errorf("on a node without the batch script: %v", err)
	}
}
