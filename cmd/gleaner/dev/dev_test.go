package dev

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestOptionsRefused: what could not become a cluster is refused before
// anything is made.
func TestOptionsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: without it everything is refused for that reason")
	}
	parent := t.TempDir()
	for name, test := range map[string]struct {
		change func(*clusterOptions)
		want   string
	}{
		"two controllers":    {func(o *clusterOptions) { o.Controllers = 2 }, "--controllers=2: 1, 3 or 5"},
		"no node":            {func(o *clusterOptions) { o.Nodes = 0 }, "--nodes=0: between 1 and 64"},
		"too many nodes":     {func(o *clusterOptions) { o.Nodes = 100000 }, "--nodes=100000: between 1 and 64"},
		"too many GPUs":      {func(o *clusterOptions) { o.GPUsPerNode = 17 }, "--gpus-per-node=17: between 0 and 16"},
		"no CPU":             {func(o *clusterOptions) { o.CPUsPerNode = 0 }, "--cpus-per-node=0: between 1 and 1024"},
		"a level of its own": {func(o *clusterOptions) { o.LogLevel = "loud" }, "--log-level=loud: use debug, info, warn or error"},
		"no directory":       {func(o *clusterOptions) { o.Directory = "" }, "--dir is empty"},
		"a line break":       {func(o *clusterOptions) { o.Directory += "/a\nb" }, "holds a control character or is not UTF-8"},
		"not UTF-8":          {func(o *clusterOptions) { o.Directory += "/\xff" }, "holds a control character or is not UTF-8"},
		"a long directory":   {func(o *clusterOptions) { o.Directory = "/" + strings.Repeat("x", 200) }, "is too long by 141 bytes"},
		"no daemons":         {func(o *clusterOptions) { o.Binaries = parent }, "build it first"},
		"a file":             {func(o *clusterOptions) { o.Directory = "/etc/passwd/x" }, "choose another --dir"},
	} {
		options := clusterOptions{Controllers: 1, Directory: "/" + filepath.Base(parent), Nodes: 1, CPUsPerNode: 1, Binaries: fakeBinaries(t)}
		test.change(&options)
		var out bytes.Buffer
		if err := runCluster(t.Context(), options, &out); err == nil || !strings.Contains(err.Error(), test.want) || out.Len() > 0 {
			t.Errorf("%s: %v, printed %q; want %q", name, err, &out, test.want)
		}
		if _, err := os.Stat(options.Directory); err == nil && options.Directory != "" {
			t.Errorf("%s: %s was made", name, options.Directory)
		}
	}
}

// fakeBinaries is a directory in which the daemons are, as far as names go.
func fakeBinaries(t *testing.T) string {
	directory := t.TempDir()
	for _, name := range []string{"gctld", "gnoded", "ginit"} {
		if err := os.WriteFile(filepath.Join(directory, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return directory
}

// TestQuoted: a shell reads back what was quoted.
func TestQuoted(t *testing.T) {
	for word, want := range map[string]string{
		"/var/tmp/gleaner": "/var/tmp/gleaner", "unix:///a,b": "unix:///a,b", "": "''",
		"/a b": "'/a b'", "/a'b": `'/a'\''b'`, "/$x`y`": "'/$x`y`'", "/größe": "'/größe'", "~x": "'~x'",
	} {
		if got := quoted(word); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
		out, err := exec.Command("/bin/sh", "-c", "printf %s "+quoted(word)).Output()
		if err != nil || string(out) != word {
			t.Errorf("%q: the shell reads %q, %v", word, out, err)
		}
	}
}
