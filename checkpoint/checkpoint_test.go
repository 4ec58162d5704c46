package checkpoint

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The first program that works is found, those before it are told with what is
// wrong, and none is tried twice while it stays the same.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	count := filepath.Join(dir, "count")
	program := func(name, script string) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte("#!/bin/sh\necho >>"+count+"\n"+script+"\n"), 0o755))
		return path
	}
	old := program("old", "echo Version: 3.17.1")
	good := program("good", `[ "$1" = --version ] && echo Version: 4.2.1`+"\nexit 0")
	link := filepath.Join(dir, "link")
	must(t, os.Symlink(old, link))
	for range 3 {
		engine, rejected := Find(t.Context(), []string{filepath.Join(dir, "none"), old, link, dir, good})
		if engine == nil || *engine != (Engine{good, "4.2.1"}) {
			t.Fatalf("found %v", engine)
		}
		if len(rejected) != 2 || rejected[0].Version != "3.17.1" || !strings.Contains(rejected[1].Reason, "no regular file") {
			t.Errorf("rejected %v", rejected)
		}
	}
	if runs, _ := os.ReadFile(count); len(runs) != 3 {
		t.Errorf("programs were run %d times, want 3", len(runs))
	}
	must(t, os.WriteFile(good, []byte("#!/bin/sh\necho nothing\n"), 0o755))
	if engine, _ := Find(t.Context(), []string{good}); engine != nil {
		t.Errorf("after it was replaced: %v", engine)
	}
}

// The cause is neither the first nor the last line that CRIU calls an error.
func TestCauses(t *testing.T) {
	const log = `(00.000001) Version: 4.2.1
(00.059999) Error (criu/util.c:1402): rlimit: Can't setup RLIMIT_NOFILE for self: Operation not permitted
(00.060000) Error (criu/tun.c:85): tun: Unable to create tun: Operation not permitted
(00.070000)     12: Error (criu/files-reg.c:2143): File usr/lib/x.so has bad size 10 (expect 20)
(00.080000) Error (criu/cr-restore.c:1550): 12 exited, status=1
(00.090000) Error (criu/cr-restore.c:2331): Restoring FAILED.
`
	want := []string{"File usr/lib/x.so has bad size 10 (expect 20)", "12 exited, status=1", "Restoring FAILED."}
	if got := causes(bufio.NewScanner(strings.NewReader(log))); !slices.Equal(got, want) {
		t.Errorf("causes %q", got)
	}
}

// TestPassingCauses: a dump that failed for one of them is worth another one.
func TestPassingCauses(t *testing.T) {
	for line, passes := range map[string]bool{
		"(00.1) Error (criu/sk-unix.c:1): unix: Found a closed in-flight socket to 0x1":           true,
		"(00.1) Error (criu/sk-unix.c:1): unix: Non-empty write queue on an in-flight socket 0x1": true,
		"(00.1) Error (compel/src/lib/infect.c:1): Unexpected 7 task interruption, aborting":      true,
		"(00.1) Error (criu/sk-unix.c:1): unix: External socket is used":                          false,
	} {
		log := filepath.Join(t.TempDir(), dumpLog)
		if err := os.WriteFile(log, []byte(line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var said *Failure
		if err := failure("dump", log, errors.New("it gave up")); errors.Is(err, ErrBetween) != passes || !errors.As(err, &said) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestFits(t *testing.T) {
	machine := Machine{Arch: "amd64", Kernel: "6.1.0-18-amd64", CRIU: "4.2.1", Processor: "GenuineIntel: avx avx2 sse4_2", Cgroup: "v1"}
	file := File{Path: "/usr/lib/x.so", Size: 7, SHA256: Digest{1}}
	image := &Manifest{Version: 1, Machine: machine, Files: []File{file, {Path: "/bin/y", Carried: "carried/0"}}}
	there := func(string) (File, error) { return file, nil }
	for name, c := range map[string]struct {
		change func(*Machine)
		look   func(string) (File, error)
		want   string // "" = it fits
	}{
		"the same":               {func(*Machine) {}, there, ""},
		"all newer":              {func(m *Machine) { m.Kernel, m.CRIU, m.Processor = "7.0-rc1", "5.0", m.Processor+" avx512f" }, there, ""},
		"an older kernel":        {func(m *Machine) { m.Kernel = "5.19.1" }, there, "kernel"},
		"an older CRIU":          {func(m *Machine) { m.CRIU = "4.1" }, there, "CRIU"},
		"a lesser processor":     {func(m *Machine) { m.Processor = "GenuineIntel: avx sse4_2" }, there, "processor"},
		"another vendor":         {func(m *Machine) { m.Processor = strings.Replace(m.Processor, "GenuineIntel", "AuthenticAMD", 1) }, there, "processor"},
		"other control groups":   {func(m *Machine) { m.Cgroup = "v2" }, there, "control groups"},
		"no such file":           {func(*Machine) {}, func(string) (File, error) { return File{}, fs.ErrNotExist }, "file /usr/lib/x.so"},
		"a file of other bytes":  {func(*Machine) {}, func(string) (File, error) { return File{Size: 7, SHA256: Digest{2}}, nil }, "file /usr/lib/x.so"},
		"a file that is no file": {func(*Machine) {}, func(string) (File, error) { return File{}, errors.New("no file") }, "file /usr/lib/x.so"},
	} {
		here := machine
		c.change(&here)
		found := image.Fits(Here{Machine: here, Look: c.look})
		if c.want == "" && len(found) > 0 || c.want != "" && (len(found) != 1 || found[0].Property != c.want) {
			t.Errorf("%s: %v", name, found)
		}
	}
}

// A hash is remembered as long as the file stays the same.
func TestHashes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(path, []byte("one"), 0o644))
	var h Hashes
	first, err := h.Look(path)
	must(t, err)
	if again, err := h.Look(path); err != nil || again != first || first.Size != 3 {
		t.Errorf("again it is %v (%v), before %v", again, err, first)
	}
	// The same size, and the time put back: the kernel still tells when.
	var stat unix.Stat_t
	must(t, unix.Stat(path, &stat))
	must(t, os.WriteFile(path, []byte("two"), 0o644))
	must(t, unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{stat.Atim, stat.Mtim}, 0))
	if changed, err := h.Look(path); err != nil || changed.SHA256 == first.SHA256 {
		t.Errorf("a changed file is %v (%v)", changed, err)
	}
	if _, err := h.Look(filepath.Dir(path)); err == nil {
		t.Error("a directory has a hash")
	}
}

func TestVerify(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "criu"), 0o755))
	for name, data := range map[string]string{"a.tar": "aa", "criu/pages": "pp", "criu/empty": ""} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644))
	}
	parts, err := ListParts(dir)
	must(t, err)
	m := &Manifest{Version: ManifestVersion, Node: "n1", Parts: parts}
	must(t, m.Check())
	must(t, m.Verify(dir, nil))
	for what, spoil := range map[string]func() error{
		"is none of its parts": func() error { return os.WriteFile(filepath.Join(dir, "more"), nil, 0o644) },
		"has 1 bytes":          func() error { return os.Truncate(filepath.Join(dir, "a.tar"), 1) },
		"is missing":           func() error { return os.Remove(filepath.Join(dir, "a.tar")) },
		"no regular file":      func() error { return unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600) },
	} {
		must(t, spoil())
		if err := m.Verify(dir, map[string]bool{"another": true}); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
		os.Remove(filepath.Join(dir, "more"))
		os.Remove(filepath.Join(dir, "fifo"))
		must(t, os.WriteFile(filepath.Join(dir, "a.tar"), []byte("aa"), 0o644))
		must(t, m.Verify(dir, nil))
	}
	must(t, os.Remove(filepath.Join(dir, "a.tar")))
	must(t, m.Verify(dir, map[string]bool{"a.tar": true}))
}

func TestParseAddress(t *testing.T) {
	for text, want := range map[string]string{
		"0100007F:1F90": "127.0.0.1:8080", "0000000000000000FFFF00000100007F:0050": "127.0.0.1:80",
		"B80D01200000000067452301EFCDAB89:0016": "[2001:db8::123:4567:89ab:cdef]:22", "x": "invalid AddrPort", "": "invalid AddrPort",
	} {
		if got := parseAddress(text).String(); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}

// A process or a thread that is not in the image is told.
func TestCompare(t *testing.T) {
	if err := (tasks{1: 2, 7: 1}).missingIn(tasks{1: 2, 7: 1, 9: 0}); err != nil {
		t.Error(err)
	}
	for want, dumped := range map[string]tasks{"process 7 is missing": {1: 2}, "process 1 has 1 threads and not 2": {1: 1, 7: 1}} {
		if err := (tasks{1: 2, 7: 1}).missingIn(dumped); !errors.Is(err, ErrIncomplete) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}
