package pid1

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/proto/step"
)

// pmiTasks are a server with so many tasks, and their ends.
func pmiTasks(t testing.TB, count int) (*pmiServer, chan step.Message, []*os.File) {
	said := make(chan step.Message, 64)
	server := newPMI(&step.Launch{PMI: &step.PMI{Size: 8, Mapping: "(vector,(0,4,2))", Name: "1.0"}}, func(m step.Message) { said <- m })
	var ends []*os.File
	for rank := range uint32(count) {
		end, err := server.add(rank)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { end.Close() })
		ends = append(ends, end)
	}
	server.serve()
	t.Cleanup(server.close)
	return server, said, ends
}

func TestPMI(t *testing.T) {
	server, said, ends := pmiTasks(t, 2)
	readers := []*bufio.Reader{bufio.NewReader(ends[0]), bufio.NewReader(ends[1])}
	ask := func(task int, line, want string) {
		t.Helper()
		_, _ = ends[task].WriteString(line + "\n")
		if got, _ := readers[task].ReadString('\n'); got != want+"\n" {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	ask(0, "cmd=init pmi_version=1 pmi_subversion=1", "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0")
	ask(1, "cmd=init pmi_version=3 pmi_subversion=0", "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=-1")
	ask(0, "cmd=get_maxes", "cmd=maxes kvsname_max=64 keylen_max=64 vallen_max=1024")
	ask(0, "cmd=get_my_kvsname", "cmd=my_kvsname kvsname=1.0")
	ask(0, "cmd=get_universe_size", "cmd=universe_size size=8")
	ask(0, "cmd=get kvsname=1.0 key=PMI_process_mapping", "cmd=get_result rc=0 msg=success value=(vector,(0,4,2))")
	ask(0, "cmd=put kvsname=1.0 key=a value=b c=d", "cmd=put_result rc=0 msg=success")
	ask(1, "cmd=get kvsname=1.0 key=far", "cmd=get_result rc=-1 msg=key_far_not_found value=unknown")
	ask(1, "cmd=put kvsname=1.0 key=\xff value=x", "cmd=put_result rc=-1 msg=not_text")
	ask(1, "cmd=put key=x value="+strings.Repeat("v", step.MaxPMIValue+1), "cmd=put_result rc=-1 msg=too_long")
	ask(1, "cmd=spawn", "cmd=spawn_result rc=-1 msg=not_supported")
	_, _ = ends[0].WriteString("cmd=barrier_in\ncmd=barrier_in\n") // twice is once
	select {
	case m := <-said:
		t.Fatalf("%+v before all were at the fence", m)
	case <-time.After(50 * time.Millisecond):
	}
	_, _ = ends[1].WriteString("cmd=barrier_in\n")
	if fence := (<-said).(*step.Fence); fmt.Sprint(fence.Pairs) != "map[a:b c=d]" || fence.Aborted {
		t.Errorf("%+v", fence)
	}
	server.fenced(step.Pairs{"far": "away"})
	for task := range ends {
		if got, _ := readers[task].ReadString('\n'); got != "cmd=barrier_out\n" {
			t.Errorf("after the fence: %q", got)
		}
	}
	ask(1, "cmd=get kvsname=1.0 key=far", "cmd=get_result rc=0 msg=success value=away")
	ask(1, "cmd=get kvsname=1.0 key=a", "cmd=get_result rc=0 msg=success value=b c=d")
	ask(0, "cmd=finalize", "cmd=finalize_ack")
	server.ended(0, true)
	server.ended(1, true)
	if fence := (<-said).(*step.Fence); !fence.Aborted || fence.Text != "task 1 ended without MPI_Finalize" {
		t.Errorf("%+v", fence)
	}
	_, _ = ends[0].WriteString("cmd=abort exitcode=7\n")
	select {
	case m := <-said:
		t.Errorf("%+v after the step was ended", m)
	case <-time.After(50 * time.Millisecond):
	}
}

// FuzzPMI: whatever a task says, it is answered by whole lines or not at all, and what it
// puts stays within the bound.
func FuzzPMI(f *testing.F) {
	f.Add("cmd=init pmi_version=1 pmi_subversion=1\ncmd=put key=a value=b\ncmd=barrier_in\ncmd=abort exitcode=x\n")
	f.Add("cmd=put key= value=\n=\n\x00cmd\n")
	f.Fuzz(func(t *testing.T, text string) {
		s := newPMI(&step.Launch{PMI: &step.PMI{Size: 1, Name: "k"}}, func(step.Message) {})
		task := &pmiTask{}
		s.tasks = append(s.tasks, task)
		for line := range strings.SplitSeq(text, "\n") {
			if answer := s.answer(task, parsePMI(line)); strings.Contains(answer, "\n") || len(answer) > maxPMILine {
				t.Fatalf("%q: %q", line, answer)
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.fresh.Bytes() > step.MaxPMIBytes {
			t.Fatalf("%d bytes", s.fresh.Bytes())
		}
	})
}
