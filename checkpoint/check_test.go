package checkpoint

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// whole is a manifest in which nothing is wrong.
func whole() *Manifest {
	return &Manifest{
		Version: ManifestVersion, Job: 7, Epoch: 2, Number: 3, Node: "node-1", SavedMS: 1700000000123, UID: 1000, Root: "host",
		Machine: Machine{Arch: "amd64", Kernel: "6.1", CRIU: "4.2.1", Processor: "p", Cgroup: "v2"},
		Files:   []File{{Path: "/usr/lib/libc.so.6", Size: 10, SHA256: Digest{1}}, {Path: "/tmp/gone", Size: 1, SHA256: Digest{2}, Carried: "files/0"}},
		Mounts:  []string{"/dev/nvidia0", "/dev/nvidiactl", "/home/alice"},
		Devices: []Device{{Path: "/dev/nvidia0"}, {Path: "/dev/nvidiactl", Companion: true}},
		Shared:  []SharedFile{{Path: "/home/alice/log", Size: 5}},
		Parts: []Part{
			{Name: "criu/pages-1.img", Size: 300, Chunks: []Chunk{{Size: 100, Sum: Digest{3}}, {Size: 200}}},
			{Name: "files/0", Size: 1, Chunks: []Chunk{{Size: 1, Sum: Digest{2}}}},
			{Name: "files/empty"},
		},
	}
}

func TestAManifestIsReadAsItWasWritten(t *testing.T) {
	m := whole()
	data, digest, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	read, err := DecodeManifest(data, digest)
	if err != nil {
		t.Fatal(err)
	}
	if again, other, err := read.Encode(); err != nil || other != digest || string(again) != string(data) {
		t.Errorf("written again it is %s, %v", again, err)
	}
	if read.Bytes() != 301 || !read.Parts[0].Chunks[1].Hole() || read.Parts[0].Chunks[0].Hole() {
		t.Errorf("it was read as %+v", read)
	}
}

func TestAManifestThatCannotBeIsRefused(t *testing.T) {
	part := func(name string) func(*Manifest) {
		return func(m *Manifest) { m.Parts = []Part{{Name: name}}; m.Files = nil }
	}
	chunks := func(c ...Chunk) func(*Manifest) { return func(m *Manifest) { m.Parts[0].Chunks = c } }
	for name, spoil := range map[string]func(*Manifest){
		"other version":           func(m *Manifest) { m.Version++ },
		"no node":                 func(m *Manifest) { m.Node = "" },
		"a path for a node":       func(m *Manifest) { m.Node = "../x" },
		"control characters":      func(m *Manifest) { m.Node = "a\nb" },
		"empty name":              part(""),
		"absolute name":           part("/etc/passwd"),
		"name that leads out":     part("../x"),
		"name that leads out too": part("a/../../x"),
		"the directory itself":    part("."),
		"two slashes":             part("a//b"),
		"slash at the end":        part("a/"),
		"NUL":                     part("a\x00b"),
		"escape sequence":         part("a\x1b[2Jb"),
		"not UTF-8":               part("a\xffb"),
		"too long an element":     part(strings.Repeat("a", 256)),
		"too long a name":         part(strings.Repeat("a/", 2100) + "a"),
		"twice":                   func(m *Manifest) { m.Parts = append(m.Parts, m.Parts[2]) },
		"not in order":            func(m *Manifest) { slices.Reverse(m.Parts) },
		"below another part":      func(m *Manifest) { m.Parts = append(m.Parts, Part{Name: "files/empty/b"}) },
		"negative size":           func(m *Manifest) { m.Parts[2].Size = -1 },
		"sizes beyond all bounds": func(m *Manifest) { m.Parts[0].Size = 1 << 62; m.Parts[0].Chunks = nil },
		"sum beyond all bounds": func(m *Manifest) {
			m.Parts = nil
			m.Files = nil
			for i := range 3 {
				m.Parts = append(m.Parts, Part{Name: fmt.Sprint(i), Size: 1 << 49})
			}
		},
		"too few chunks":     chunks(Chunk{Size: 299, Sum: Digest{1}}),
		"too many chunks":    chunks(Chunk{Size: 300, Sum: Digest{1}}, Chunk{Size: 1, Sum: Digest{1}}),
		"a chunk of nothing": chunks(Chunk{Size: 300, Sum: Digest{1}}, Chunk{Sum: Digest{1}}),
		"negative chunk":     chunks(Chunk{Size: -1, Sum: Digest{1}}, Chunk{Size: 301, Sum: Digest{1}}),
		"huge chunk": func(m *Manifest) {
			m.Parts[0] = Part{Name: "criu/pages-1.img", Size: MaxChunkBytes + 1, Chunks: []Chunk{{Size: MaxChunkBytes + 1, Sum: Digest{1}}}}
		},
		"relative file":         func(m *Manifest) { m.Files[0].Path = "usr/lib" },
		"file with dots":        func(m *Manifest) { m.Files[0].Path = "/usr/../lib" },
		"file not UTF-8":        func(m *Manifest) { m.Files[0].Path = "/usr/\xff" },
		"carried by no part":    func(m *Manifest) { m.Files[1].Carried = "files/1" },
		"relative mount":        func(m *Manifest) { m.Mounts[0] = "home" },
		"relative device":       func(m *Manifest) { m.Devices[0].Path = "dev/nvidia0" },
		"a device elsewhere":    func(m *Manifest) { m.Mounts[0], m.Devices[0].Path = "/home/nvidia0", "/home/nvidia0" },
		"two devices of a path": func(m *Manifest) { m.Devices[1].Path = m.Devices[0].Path },
		"no mount of a device":  func(m *Manifest) { m.Mounts = m.Mounts[1:] },
		"shared with dots":      func(m *Manifest) { m.Shared[0].Path = "/home/../etc" },
		"shared not UTF-8":      func(m *Manifest) { m.Shared[0].Path = "/home/\xff" },
		"shared below 0":        func(m *Manifest) { m.Shared[0].Size = -1 },
		"mode of a device":      func(m *Manifest) { m.Files[0].Mode = 0o60600 },
		"root not UTF-8":        func(m *Manifest) { m.Root = "\xc3" },
	} {
		m := whole()
		spoil(m)
		if _, _, err := m.Encode(); !errors.Is(err, ErrManifest) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAManifestWrittenByOthersIsRefused(t *testing.T) {
	data, digest, err := whole().Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DecodeManifest(data, Digest{1}); !errors.Is(err, ErrManifest) {
		t.Error("another digest:", err)
	}
	if _, err := DecodeManifest(data[:len(data)-1], digest); !errors.Is(err, ErrManifest) {
		t.Error("cut off:", err)
	}
	for name, change := range map[string]func(string) string{
		"unknown field":     func(s string) string { return strings.Replace(s, `"job":7`, `"job":7,"only_if":"x"`, 1) },
		"the same twice":    func(s string) string { return strings.Replace(s, `"job":7`, `"job":8,"job":7`, 1) },
		"other letters":     func(s string) string { return strings.Replace(s, `"job":7`, `"JOB":7`, 1) },
		"spaces":            func(s string) string { return strings.Replace(s, `"job":7`, `"job": 7`, 1) },
		"something follows": func(s string) string { return s + "{}" },
		"no JSON":           func(string) string { return "x" },
		"nothing":           func(string) string { return "" },
		"null":              func(string) string { return "null" },
		"escaped nonsense":  func(s string) string { return strings.Replace(s, `"host"`, `"\ufffd"`, 1) },
	} {
		changed := []byte(change(string(data)))
		if _, err := DecodeManifest(changed, sha256.Sum256(changed)); !errors.Is(err, ErrManifest) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzDecodeManifest: whatever bytes there are, what is read of them is
// written as the same bytes, and keeps the bounds by which files are made.
func FuzzDecodeManifest(f *testing.F) {
	data, _, err := whole().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"version":1,"job":0,"epoch":0,"number":0,"node":"n","saved_ms":0,"uid":0,"machine":{"arch":"","kernel":"","criu":"","processor":"","cgroup":""},"root":"","files":null,"mounts":null,"parts":[{"name":"a","size":1}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := DecodeManifest(data, sha256.Sum256(data))
		if err != nil {
			if !errors.Is(err, ErrManifest) {
				t.Fatal(err)
			}
			return
		}
		if again, _, err := m.Encode(); err != nil || string(again) != string(data) {
			t.Fatalf("it is written as %q, %v", again, err)
		}
		for _, p := range m.Parts {
			if strings.HasPrefix(p.Name, "/") || slices.Contains(strings.Split(p.Name, "/"), "..") || p.Size < 0 {
				t.Fatalf("part %q of %d bytes was read", p.Name, p.Size)
			}
		}
	})
}
