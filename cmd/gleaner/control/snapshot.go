package control

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/snapshotfile"
)

// snapshotError is what gcontrol snapshot was doing when it failed.
const snapshotError = "gleaner_snapshot error"

// controlSnapshot is "snapshot save|inspect|restore FILE".
func controlSnapshot(c *controlRun, words []string) error {
	if len(words) == 0 {
		return c.inv.Fail("type gcontrol snapshot save, inspect or restore, and a FILE")
	}
	actions := map[string]func(path string) error{"save": c.saveSnapshot, "inspect": c.inspectSnapshot, "restore": c.restoreSnapshot}
	action, known := actions[strings.ToLower(words[0])]
	switch {
	case !known:
		return c.inv.Fail("gcontrol snapshot does not know %q: type save, inspect or restore", words[0])
	case len(words) == 1:
		return c.inv.Fail("no file given: type gcontrol snapshot %s FILE", strings.ToLower(words[0]))
	case len(words) > 2:
		return c.tooMany("snapshot")
	case c.json != show.JSONNone && strings.ToLower(words[0]) != "inspect":
		return c.inv.Fail("snapshot %s has no JSON; leave --json out", strings.ToLower(words[0]))
	}
	return action(words[1])
}

// inspectSnapshot reads a file to its end, without a controller.
func (c *controlRun) inspectSnapshot(path string) error {
	file, err := openSnapshot(path)
	if err != nil {
		return c.inv.Fail("%w", err)
	}
	defer file.Close()
	found, err := snapshotfile.Read(interruptedReader{c.inv.Context, file}, nil)
	if err != nil {
		return c.snapshotUnfit(path, err)
	}
	if c.json != show.JSONNone {
		return show.WriteJSON(c.inv, c.json, "snapshots", []snapshotRecord{snapshotRecordOf(found)})
	}
	header, r := found.Header(), &show.Record{}
	r.Line(show.Item("Snapshot", path), show.Item("ClusterName", header.GetClusterName()), show.Item("Time", c.view.Stamp(header.GetTimeMs(), "Unknown")))
	r.Line(show.Item("JobsWaiting", show.Digits(header.GetJobsWaiting())), show.Item("JobsRunning", show.Digits(header.GetJobsRunning())),
		show.Item("JobsFinished", show.Digits(header.GetJobsFinished())), show.Item("NextJobId", show.Digits(header.GetNextJobId())), show.Item("Nodes", show.Digits(header.GetNodes())))
	r.Line(show.Item("Controllers", strings.Join(header.GetPeers(), ",")), show.Item("Index", show.Digits(header.GetIndex())), show.Item("Term", show.Digits(header.GetTerm())),
		show.Item("Level", show.Digits(header.GetLevel())), show.Item("Version", header.GetVersion()))
	r.Line(show.Item("StateBytes", show.Digits(uint64(found.Bytes()))), "Checksum=OK")
	out := bufio.NewWriter(c.inv.Stdout)
	r.Write(out, c.oneLine)
	return out.Flush()
}

// snapshotRecord is a snapshot as JSON.
type snapshotRecord struct {
	ClusterName  string   `json:"cluster_name"`
	TimeMS       int64    `json:"time_ms"`
	Index        uint64   `json:"index"`
	Term         uint64   `json:"term"`
	Controllers  []string `json:"controllers"`
	Level        uint32   `json:"level"`
	Version      string   `json:"version"`
	NextJobID    uint32   `json:"next_job_id"`
	JobsWaiting  uint32   `json:"jobs_waiting"`
	JobsRunning  uint32   `json:"jobs_running"`
	JobsFinished uint32   `json:"jobs_finished"`
	Nodes        uint32   `json:"nodes"`
	StateBytes   int64    `json:"state_bytes"`
}

func snapshotRecordOf(found *snapshotfile.Checker) snapshotRecord {
	h := found.Header()
	return snapshotRecord{
		ClusterName: h.GetClusterName(), TimeMS: h.GetTimeMs(), Index: h.GetIndex(), Term: h.GetTerm(),
		Controllers: h.GetPeers(), Level: h.GetLevel(), Version: h.GetVersion(), NextJobID: h.GetNextJobId(),
		JobsWaiting: h.GetJobsWaiting(), JobsRunning: h.GetJobsRunning(), JobsFinished: h.GetJobsFinished(),
		Nodes: h.GetNodes(), StateBytes: found.Bytes(),
	}
}

// snapshotUnfit says why a file is no snapshot to continue with.
func (c *controlRun) snapshotUnfit(path string, err error) error {
	if errors.Is(err, snapshotfile.ErrDamaged) {
		return c.inv.Fail("%s: %w: take another backup", path, err)
	}
	return c.inv.Fail("%s: %w", path, err)
}

// openSnapshot opens a file, and nothing else that a path may name.
func openSnapshot(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s is no regular file", path), err, file.Close())
	}
	return file, nil
}

// contents is what a snapshot holds, in a line.
func (c *controlRun) contents(h *pb.SnapshotHeader) string {
	return fmt.Sprintf("cluster %s as of %s: jobs waiting %d, running %d, over %d; nodes %d",
		format.Printable(h.GetClusterName()), c.view.Stamp(h.GetTimeMs(), "Unknown"), h.GetJobsWaiting(), h.GetJobsRunning(), h.GetJobsFinished(), h.GetNodes())
}

// progress shows on a terminal how far something has come.
type progress struct {
	out    *os.File // nil: not shown
	verb   string
	total  int64 // 0 = not known
	shown  time.Time
	begun  bool
	moving time.Duration // between two looks
}

func (c *controlRun) progress(verb string, total int64) *progress {
	p := &progress{verb: verb, total: total, moving: 200 * time.Millisecond}
	if file, ok := c.inv.Stderr.(*os.File); ok && term.IsTerminal(int(file.Fd())) && !c.inv.Given("quiet") {
		p.out = file
	}
	return p
}

func (p *progress) at(bytes int64) {
	if p.out == nil || time.Since(p.shown) < p.moving {
		return
	}
	p.shown, p.begun = time.Now(), true
	text := fmt.Sprintf("%s %.1f MiB", p.verb, float64(bytes)/(1<<20))
	if p.total > 0 {
		text += fmt.Sprintf(" (%d%%)", 100*bytes/p.total)
	}
	fmt.Fprintf(p.out, "\r%s\033[K", text)
}

// end takes the line away.
func (p *progress) end() {
	if p.begun {
		fmt.Fprint(p.out, "\r\033[K")
	}
}
