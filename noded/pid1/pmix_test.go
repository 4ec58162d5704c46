package pid1

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/proto/step"
)

// pmixPlay is a server, and the program's ends of it.
type pmixPlay struct {
	t      *testing.T
	server *pmixServer
	said   chan step.Message
	hears  *bufio.Reader
	out    *os.File
}

var pmixJob = &step.PMIxJob{Space: "slurm.pmix.1.0", Job: "1", Nodes: []step.PMIxNode{{Name: "n1", Ranks: []uint32{0, 2}}, {Name: "n2", Ranks: []uint32{1}}}}

func newPMIxPlay(t *testing.T) *pmixPlay {
	var files [4]*os.File
	for i := 0; i < len(files); i += 2 {
		var err error
		if files[i], files[i+1], err = os.Pipe(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { files[i].Close(); files[i+1].Close() })
	}
	said := make(chan step.Message, 8)
	server := newPMIx(pmixJob, files[1], files[2], func(m step.Message) { said <- m })
	return &pmixPlay{t, server, said, bufio.NewReader(files[0]), files[3]}
}

func (p *pmixPlay) says(line string) { _, _ = p.out.WriteString(line + "\n") }

func (p *pmixPlay) begins() {
	p.t.Helper()
	p.says(`{"environment":[["UkFOSz0w"],["UkFOSz0y"]]}`) // RANK=0, RANK=2
	if err := p.server.begin(pmixJob); err != nil {
		p.t.Fatal(err)
	}
	var job step.PMIxJob
	if line, _ := p.hears.ReadBytes('\n'); json.Unmarshal(line, &job) != nil || fmt.Sprint(job) != fmt.Sprint(*pmixJob) {
		p.t.Errorf("it was told %s", line)
	}
	p.server.serve()
}

// ends is the sentence by which the step ends.
func (p *pmixPlay) ends() (code int, text string) {
	fence := (<-p.said).(*step.Fence)
	if !fence.Aborted {
		p.t.Errorf("%+v is no end", fence)
	}
	return fence.Code, fence.Text
}

func TestPMIx(t *testing.T) {
	p := newPMIxPlay(t)
	p.begins()
	if got := fmt.Sprint(p.server.environment(2), p.server.environment(1)); got != "[RANK=2] []" {
		t.Errorf("environment: %s", got)
	}
	p.says(`{"fence":"YWI="}`)
	if fence := (<-p.said).(*step.Fence); string(fence.Data) != "ab" || fence.Aborted {
		t.Errorf("%+v", fence)
	}
	p.server.fenced([]byte("abcd"))
	if line, _ := p.hears.ReadString('\n'); line != `{"data":"YWJjZA=="}`+"\n" {
		t.Errorf("after the fence: %q", line)
	}
	p.says(`{"fence":""}`) // one at which nothing is put
	if fence := (<-p.said).(*step.Fence); len(fence.Data) != 0 || fence.Aborted {
		t.Errorf("%+v", fence)
	}
	p.says(`{"abort":{"rank":2,"code":7,"text":"N/A"}}`)
	if code, text := p.ends(); code != 7 || text != "task 2 called PMIx_Abort(7)" {
		t.Errorf("%d: %s", code, text)
	}
	p.server.close()
	var none *pmixServer
	none.serve()
	none.ended(0, true)
	none.fenced(nil)
	none.close()
}

// A task that fails while it is connected ends the step; one that was not, or has taken its
// leave, does not.
func TestPMIxEnded(t *testing.T) {
	p := newPMIxPlay(t)
	p.begins()
	p.server.ended(0, true)
	p.says(`{"begun":0}`)
	p.says(`{"begun":2}`)
	p.says(`{"begun":1}`) // of another node
	p.says(`{"finalized":0}`)
	p.says(`{"fence":""}`)
	<-p.said // so that the lines before it are read
	p.server.ended(0, true)
	p.server.ended(1, true)
	p.server.ended(2, false)
	p.server.ended(2, true)
	if code, text := p.ends(); code != 1 || text != "task 2 ended without MPI_Finalize" {
		t.Errorf("%d: %s", code, text)
	}
}

// A program that fails, or says what it may not, ends the step or its start.
func TestPMIxFails(t *testing.T) {
	for line, want := range map[string]string{
		`{"failed":"PMIx: INIT"}`:         "PMIx: INIT",
		`{"environment":[["UkFOSz0w"]]}`:  "gpmix says nothing of its tasks",
		`{"environment":7}`:               "gpmix: json: ",
		`{}`:                              "gpmix says nothing of its tasks",
		"":                                "gpmix: unexpected end of JSON input",
		strings.Repeat("x", 9<<10) + `{}`: "gpmix: invalid character",
	} {
		p := newPMIxPlay(t)
		p.says(line)
		if err := p.server.begin(pmixJob); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.40s: %v", line, err)
		}
	}
	for line, want := range map[string]string{
		`{"failed":"the tasks put too much"}`:      "the tasks put too much",
		`{"abort":{"rank":9,"code":0,"text":"x"}}`: "task 9 called PMIx_Abort(0): x",
		`nonsense`: "gpmix: invalid character",
	} {
		p := newPMIxPlay(t)
		p.begins()
		p.says(line)
		if code, text := p.ends(); code != 1 || !strings.HasPrefix(text, want) {
			t.Errorf("%s: %d, %s", line, code, text)
		}
	}
	p := newPMIxPlay(t)
	p.begins()
	p.out.Close()
	if code, text := p.ends(); code != 1 || text != "gpmix has ended" {
		t.Errorf("%d: %s", code, text)
	}
}
