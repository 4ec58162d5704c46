package simulate

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/sched/sim"
	"github.com/gleaner-hpc/gleaner/sched/sim/trace"
)

// small is a trace of a machine with four processors. The second job waits for all of
// them; the third fits beside the first and ends before it, by its limit; the fourth does
// not, but ran so short that it would have.
const small = `; a small trace
1 0 -1 100 2 -1 -1 2 100 -1 1 1 7 -1 -1 -1 -1 -1
2 10 -1 50 4 -1 -1 4 60 -1 1 1 7 -1 -1 -1 -1 -1
3 20 -1 30 1 -1 -1 1 40 -1 1 2 8 -1 -1 -1 -1 -1
4 30 -1 20 1 -1 -1 1 900 -1 1 2 8 -1 -1 -1 -1 -1
`

func typed(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	var stdout bytes.Buffer
	command := Command()
	app := option.App("gleaner", "test", command, option.Streams{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: io.Discard})
	err = option.Run(context.Background(), app, command, args)
	return stdout.String(), err
}

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSmallTrace: the figures that one finds by hand, under each policy and however the
// cluster is described.
func TestSmallTrace(t *testing.T) {
	trace := file(t, "small.swf", small)
	nodes := file(t, "nodes.toml", "[[node]]\nname = \"n[1-4]\"\ncpus = 1\n")
	gpus := file(t, "gpus.toml", "[[node]]\nname = \"n[1-2]\"\ncpus = 32\ngpus = 2\n")
	site := file(t, "cluster.toml", "[[partition]]\nname = \"main\"\ndefault = true\n[scheduler]\ntype = \"builtin\"\n")
	for _, c := range []struct{ policy, cluster, starts, last string }{
		{"fcfs", "-n4", "0 100 150 150", "mean_wait_s=85.0 "},
		{"easy", "-n4", "0 100 20 150", "mean_wait_s=52.5 "},
		{"easy-sjbf", "-n4", "0 100 20 150", "mean_wait_s=52.5 "},
		{"conservative", "-n4", "0 100 20 150", "mean_wait_s=52.5 "},
		{"easy", "--cluster=" + nodes, "0 100 20 150", "mean_wait_s=52.5 "},
		{"easy", "--cluster=" + gpus, "0 100 20 150", "mean_wait_s=52.5 "},
		{site, "-n4", "0 100 150 150", "mean_wait_s=85.0 "},
	} {
		table := filepath.Join(t.TempDir(), "out.csv")
		out, err := typed(t, "--trace", trace, c.cluster, "--policy", c.policy, "--csv", table)
		if err != nil {
			t.Fatalf("%s: %v", c.policy, err)
		}
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if last := lines[len(lines)-1]; !strings.HasPrefix(last, c.last) || !strings.Contains(last, " avebsld=") || !strings.Contains(last, " utilization=") {
			t.Errorf("%s %s: the last line is %q", c.policy, c.cluster, last)
		}
		text, err := os.ReadFile(table)
		if err != nil {
			t.Fatal(err)
		}
		var starts []string
		for _, row := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
			starts = append(starts, strings.Split(row, ",")[2])
		}
		if got := strings.Join(starts, " "); got != c.starts || !strings.HasPrefix(string(text), "job_id,submit,start,end,processors\n1,0,0,100,2\n") {
			t.Errorf("%s %s: starts %s, want %s\n%s", c.policy, c.cluster, got, c.starts, text)
		}
	}
}

// TestCompare: two policies side by side, as text, as JSON and as a picture, of a trace
// that is packed.
func TestCompare(t *testing.T) {
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	_, _ = writer.Write([]byte(small))
	_ = writer.Close()
	trace, picture := file(t, "small.swf.gz", packed.String()), filepath.Join(t.TempDir(), "out.svg")
	out, err := typed(t, "--trace", trace, "-n", "4", "--policy", "fcfs", "--compare", "easy", "--svg", picture)
	if err != nil || !strings.Contains(out, "Under easy 0 jobs wait longer and 1 shorter than under fcfs.") || !strings.Contains(out, "\n8 ") {
		t.Errorf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	if err := xml.Unmarshal(text, new(struct{ XMLName xml.Name })); err != nil || strings.Count(string(text), "<path") != 4 || !strings.Contains(string(text), "since the first submission") {
		t.Errorf("the picture: %v\n%.300s", err, text)
	}
	out, err = typed(t, "--trace", trace, "-n", "4", "--compare", "fcfs", "--json")
	var all struct {
		Results []struct {
			Policy    string  `json:"policy"`
			MeanWaitS float64 `json:"mean_wait_s"`
		} `json:"results"`
	}
	if wrong := json.Unmarshal([]byte(out), &all); err != nil || wrong != nil || len(all.Results) != 2 || all.Results[0].MeanWaitS != 52.5 || all.Results[1].Policy != "fcfs" {
		t.Errorf("%v, %v\n%s", err, wrong, out)
	}
}

// TestPart: a part of a trace, by when its jobs were submitted.
func TestPart(t *testing.T) {
	trace := file(t, "long.swf", small+"5 120 -1 10 1 -1 -1 1 10 -1 1 2 8 -1 -1 -1 -1 -1\n")
	for part, jobs := range map[string]string{"--until=1": "4", "--from=1": "1", "--from=0": "5"} {
		out, err := typed(t, "-t", trace, "-n", "4", part)
		if err != nil || strings.Fields(strings.Split(out, "\n")[1])[1] != jobs {
			t.Errorf("%s: %v, want %s jobs\n%s", part, err, jobs, out)
		}
	}
}

// labs are two owners, of the accounts of the small trace.
const labs = `[[node]]
name = "a[1-4]"
cpus = 1
owner = "7"
[[node]]
name = "b1"
cpus = 1
owner = "8"
`

// TestLending: ways to lend side by side, of the same jobs.
func TestLending(t *testing.T) {
	trace, cluster := file(t, "small.swf", small), file(t, "labs.toml", labs)
	departures := file(t, "departures.csv", "0,add,x\n60000,remove,x\n90000,add,x\n")
	out, err := typed(t, "-t", trace, "--cluster", cluster, "--lending", "isolated,kill,park,pack", "--lending-times", "park=1", "--departures", departures)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"LENDING ", "\nisolated ", "\nkill ", "\npark ", "\npack ", "\nOWNER ", "\nAGAINST_ISOLATED ", "\n7 ", "\n8 ", "\nmean_wait_s="} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	// Isolated, the job of account 7 that needs four processors waits for the first, and
	// the second of account 8 for the other: 90 + 0 and 0 + 20.
	if first := strings.Fields(strings.Split(out, "\n")[1]); first[0] != "isolated" || first[3] != "28" {
		t.Errorf("isolated: %q\n%s", first, out)
	}
	out, err = typed(t, "-t", trace, "--cluster", cluster, "--lending", "kill", "--json")
	if err != nil || !strings.Contains(out, `"lost_processor_hours"`) || !strings.Contains(out, `"account": "8"`) {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestBomb: a small file that unpacks to more than a trace may have is refused.
func TestBomb(t *testing.T) {
	got, err := io.ReadAll(&bounded{strings.NewReader(strings.Repeat("x", 100)), 60})
	if len(got) != 60 || err == nil || !strings.Contains(err.Error(), "cut the trace") {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if got, err := io.ReadAll(&bounded{strings.NewReader("xy"), 60}); len(got) != 2 || err != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// FuzzCluster: whatever describes a cluster, it is refused, or jobs can run on it.
func FuzzCluster(f *testing.F) {
	f.Add([]byte(labs))
	f.Add([]byte("[[node]]\nname = \"n[1-3]\"\ncpus = 64\ngpus = 8\nowner = \"a\"\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		cluster, err := parseCluster(text)
		if err != nil || len(cluster.Nodes) > 100 {
			return
		}
		jobs := []trace.Job{{ID: 1, RunS: 5, EstimateS: 5, Processors: 1}, {ID: 2, RunS: 5, EstimateS: 5, Processors: cluster.Processors}}
		result, err := sim.Run(jobs, cluster, sim.Policies[1], nil)
		if err != nil || result.Jobs[1].EndS != 10 {
			t.Fatalf("%v, %+v", err, result)
		}
	})
}

// TestRefused: what is wrong is said, with what to do, and nothing is written.
func TestRefused(t *testing.T) {
	trace, owned := file(t, "small.swf", small), file(t, "owned.toml", labs)
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "--trace FILE"},
		{[]string{"-t", trace}, "either --processors N or --cluster FILE"},
		{[]string{"-t", trace, "-n", "4", "--cluster", "x"}, "either --processors N or --cluster FILE"},
		{[]string{"-t", trace, "-n", "many"}, `"many" is no number`},
		{[]string{"-t", trace, "-n", "0"}, "between 1 and"},
		{[]string{"-t", trace, "-n", "3"}, "job 2 has 4 processors, and the cluster has 3"},
		{[]string{"-t", trace, "-n", "4", "-p", "eazy"}, "did you mean easy?"},
		{[]string{"-t", trace, "-n", "4", "-p", "./none.toml"}, "none.toml"},
		{[]string{"-t", trace, "-n", "4", "-p", file(t, "p.toml", "[[partition]]\nname=\"m\"\ndefault=true\n[scheduler]\nbf_windows=1\n")}, "bf_windows"},
		{[]string{"-t", trace, "--cluster", file(t, "c.toml", "[[node]]\nname=\"n1\"\ncpu=1\n")}, "cpu"},
		{[]string{"-t", trace, "--cluster", file(t, "c.toml", "")}, "no [[node]]"},
		{[]string{"-t", trace, "--cluster", file(t, "c.toml", "[[node]]\nname=\"n1\"\ncpus=1\n[[node]]\nname=\"n1\"\ncpus=1\n")}, "node n1 is there twice"},
		{[]string{"-t", trace, "--cluster", file(t, "c.toml", "[[node]]\nname=\"n1\"\ncpus=1\n[[node]]\nname=\"n2\"\ncpus=2\n")}, "different numbers of processors"},
		{[]string{"-t", file(t, "bad.swf", small+"5 40\n"), "-n", "4"}, "line 6: it has 2 fields and not 18"},
		{[]string{"-t", file(t, "bad.gz", "\x1f\x8bnot really"), "-n", "4"}, "gzip"},
		{[]string{"-t", "/nonexistent/trace", "-n", "4"}, "no such file"},
		{[]string{"-t", trace, "-n", "4", "--csv", "/nonexistent/out"}, "no such file"},
		{[]string{"-t", trace, "-n", "4", "more"}, "takes no arguments"},
		{[]string{"-t", trace, "-n", "4", "--from", "soon"}, "--from: "},
		{[]string{"-t", trace, "-n", "4", "--from", "2-0", "--until", "1-0"}, "--from is not before --until"},
		{[]string{"-t", trace, "-n", "4", "--from", "2-0"}, "no job is left of it"},
		{[]string{"-t", trace, "-n", "4", "--lending", "kill"}, "--lending is about nodes with owners"},
		{[]string{"-t", trace, "-n", "4", "--departures", "x"}, "--departures is about nodes with owners"},
		{[]string{"-t", trace, "--cluster", owned, "--lending", "lend"}, "none of isolated, kill, park and pack"},
		{[]string{"-t", trace, "--cluster", owned, "--compare", "fcfs"}, "--compare is not for nodes with owners"},
		{[]string{"-t", trace, "--cluster", owned, "--departures", trace}, "line 1: it has 1 fields and not 3"},
		{[]string{"-t", trace, "--cluster", file(t, "o.toml", "[[node]]\nname=\"n1\"\ncpus=4\nowner=\"nobody\"\n")}, "no job is left of it"},
		{[]string{"-t", trace, "--cluster", file(t, "o.toml", "[[node]]\nname=\"n1\"\ncpus=4\n[[reservation]]\nname=\"r\"\n")}, "reservation"},
		{[]string{"-t", file(t, "saved", "gleaner-snapshot\nbroken"), "-p", "easy"}, "damaged snapshot"},
	} {
		out, err := typed(t, c.args...)
		if err == nil || !strings.Contains(err.Error(), c.want) || out != "" {
			t.Errorf("%q: %v, want %s; printed %q", c.args, err, c.want, out)
		}
	}
}
