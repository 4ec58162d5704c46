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
	if err := xml.Unmarshal(text, new(struct{ XMLName xml.Name })); err != nil || strings.Count(string(text), "<path") != 4 {
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

// TestRefused: what is wrong is said, with what to do, and nothing is written.
func TestRefused(t *testing.T) {
	trace := file(t, "small.swf", small)
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
	} {
		out, err := typed(t, c.args...)
		if err == nil || !strings.Contains(err.Error(), c.want) || out != "" {
			t.Errorf("%q: %v, want %s; printed %q", c.args, err, c.want, out)
		}
	}
}
