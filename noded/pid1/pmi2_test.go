package pid1

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/proto/step"
)

// pmi2End is a task's end that speaks PMI-2.
type pmi2End struct {
	t      *testing.T
	file   *os.File
	reader *bufio.Reader
}

func newPMI2End(t *testing.T, file *os.File) *pmi2End {
	e := &pmi2End{t, file, bufio.NewReader(file)}
	_, _ = file.WriteString("cmd=init pmi_version=2 pmi_subversion=0\n")
	if line, _ := e.reader.ReadString('\n'); line != "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n" {
		t.Fatalf("init: %q", line)
	}
	return e
}

func (e *pmi2End) say(text string) { fmt.Fprintf(e.file, "%-6d%s", len(text), text) }

func (e *pmi2End) hears(want string) {
	e.t.Helper()
	head := make([]byte, pmi2Length)
	_, _ = io.ReadFull(e.reader, head)
	length, _ := strconv.Atoi(strings.TrimRight(string(head), " "))
	text := make([]byte, length)
	_, _ = io.ReadFull(e.reader, text)
	if string(text) != want {
		e.t.Errorf("%q, want %q", text, want)
	}
}

func (e *pmi2End) asks(text, want string) {
	e.t.Helper()
	e.say(text)
	e.hears(want)
}

func TestPMI2(t *testing.T) {
	server, said, ends := pmiTasks(t, 2)
	a, b := newPMI2End(t, ends[0]), newPMI2End(t, ends[1])
	a.asks("cmd=fullinit;pmijobid=1.0;pmirank=0;threaded=FALSE;",
		"cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=0;size=8;appnum=0;debugged=FALSE;pmiverbose=FALSE;")
	a.asks("cmd=job-getid;", "cmd=job-getid-response;rc=0;jobid=1.0;")
	a.asks("cmd=info-getjobattr;key=PMI_process_mapping;", "cmd=info-getjobattr-response;rc=0;found=TRUE;value=(vector,(0,4,2));")
	a.asks("cmd=info-getjobattr;key=universeSize;", "cmd=info-getjobattr-response;rc=0;found=TRUE;value=8;")
	a.asks("cmd=info-getjobattr;key=other;", "cmd=info-getjobattr-response;rc=0;found=FALSE;")
	a.asks("cmd=kvs-put;thrid=0x7f;key=a;value=b;;c=d;", "cmd=kvs-put-response;thrid=0x7f;rc=0;")
	a.asks("cmd=kvs-put;key="+strings.Repeat("k", step.MaxPMIKey+1)+";value=v;", "cmd=kvs-put-response;rc=3;errmsg=too_long;")
	b.asks("cmd=kvs-get;jobid=1.0;srcid=-1;key=far;", "cmd=kvs-get-response;rc=0;found=FALSE;")
	b.asks("cmd=kvs-get;jobid=2.0;srcid=-1;key=a;", "cmd=kvs-get-response;rc=0;found=FALSE;")
	b.asks("cmd=name-publish;name=n;port=p;", "cmd=name-publish-response;rc=-1;errmsg=names are not kept: pass ports by a file;")
	b.asks("cmd=spawn;ncmds=1;subcmd=x;argv0=a;subcmd=y;", "cmd=spawn-response;rc=-1;errmsg=tasks are not started from a program: start them all by grun;")
	b.asks("cmd=other;", "cmd=other-response;rc=-1;errmsg=not supported;")

	// A task of PMI-2 waits for an attribute of its node, and is answered by the put.
	b.asks("cmd=info-getnodeattr;key=shm;wait=FALSE;", "cmd=info-getnodeattr-response;rc=0;found=FALSE;")
	b.say("cmd=info-getnodeattr;thrid=7;key=shm;wait=TRUE;")
	b.asks("cmd=job-getid;", "cmd=job-getid-response;rc=0;jobid=1.0;")
	a.asks("cmd=info-putnodeattr;key=shm;value=/dev/x;", "cmd=info-putnodeattr-response;rc=0;")
	b.hears("cmd=info-getnodeattr-response;thrid=7;rc=0;found=TRUE;value=/dev/x;")

	a.say("cmd=kvs-fence;")
	a.asks("cmd=kvs-fence;", "cmd=kvs-fence-response;rc=-1;errmsg=the task is at a fence already;")
	b.say("cmd=kvs-fence;thrid=9;")
	if fence := (<-said).(*step.Fence); fmt.Sprint(fence.Pairs) != "map[a:b;c=d]" {
		t.Errorf("%+v", fence)
	}
	server.fenced(step.Pairs{"far": "away"})
	a.hears("cmd=kvs-fence-response;rc=0;")
	b.hears("cmd=kvs-fence-response;thrid=9;rc=0;")
	b.asks("cmd=kvs-get;jobid=1.0;srcid=-1;key=far;", "cmd=kvs-get-response;rc=0;found=TRUE;value=away;")
	b.asks("cmd=kvs-get;key=a;", "cmd=kvs-get-response;rc=0;found=TRUE;value=b;;c=d;")

	// Another program of the task begins by a line again.
	a.asks("cmd=finalize;", "cmd=finalize-response;rc=0;")
	b.say("cmd=abort;isworld=FALSE;msg=alone;")
	a = newPMI2End(t, ends[0])
	a.say("cmd=abort;isworld=TRUE;msg=no;;way;")
	if fence := (<-said).(*step.Fence); !fence.Aborted || fence.Code != 1 || fence.Text != "task 0 called PMI2_Abort: no;way" {
		t.Errorf("%+v", fence)
	}
}

// What is no message ends the task's connection: it fails, and does not wait.
func TestPMI2Malformed(t *testing.T) {
	for _, text := range []string{"-1    x", "99999x", "abcdef", "5     cmd=x", "4     cmd;", "999999" + strings.Repeat("x", 9)} {
		_, _, ends := pmiTasks(t, 1)
		e := newPMI2End(t, ends[0])
		_, _ = e.file.WriteString(text)
		if _, err := e.reader.ReadByte(); err == nil {
			t.Errorf("%q was answered", text)
		}
	}
}

// FuzzPMI2: whatever a task says is answered by whole messages or not at all.
func FuzzPMI2(f *testing.F) {
	for _, text := range []string{
		"cmd=fullinit;pmirank=0;", "cmd=kvs-put;key=a;value=b;;;", "cmd=kvs-get;key=a;", "cmd=kvs-fence;thrid=1;",
		"cmd=info-getnodeattr;key=a;wait=FALSE;", "cmd=abort;isworld=TRUE;msg=\xff;", "cmd=;=;;;",
	} {
		f.Add(fmt.Sprintf("%-6d%s", len(text), text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		s := newPMI(&step.Launch{PMI: &step.PMI{Size: 1, Name: "k"}}, func(step.Message) {})
		task := &pmiTask{}
		s.tasks = append(s.tasks, task)
		for reader := bufio.NewReader(strings.NewReader(text)); ; {
			said, err := readPMI2(reader)
			if err != nil {
				break
			}
			answer := s.answerMessage(task, said)
			if answer == "" {
				continue
			}
			again, err := readPMI2(bufio.NewReader(strings.NewReader(answer)))
			if err != nil || again["rc"] == "" || len(answer) > maxPMI2Message {
				t.Fatalf("%q: %q", said, answer)
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.fresh.Bytes() > step.MaxPMIBytes || s.attributes.Bytes() > maxPMI2Attributes {
			t.Fatalf("%d bytes and %d", s.fresh.Bytes(), s.attributes.Bytes())
		}
	})
}
