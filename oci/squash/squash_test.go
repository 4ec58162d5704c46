package squash

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sylabs/sif/v2/pkg/sif"
	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/oci/manifest"
	"github.com/gleaner-hpc/gleaner/oci/ref"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// plain keeps everything as it is, so that a test finds it.
var plain = []string{"-noI", "-noD", "-noF", "-noX"}

// makeFile answers a file of squashfs with a few files.
func makeFile(t testing.TB, flags ...string) []byte {
	t.Helper()
	unix.Umask(0o022)
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	must(t, os.MkdirAll(filepath.Join(root, "bin/deeper"), 0o755))
	must(t, os.MkdirAll(filepath.Join(root, ".singularity.d"), 0o755))
	must(t, os.WriteFile(filepath.Join(root, ref.Runscript), []byte("#!/bin/sh\n"), 0o755))
	must(t, os.WriteFile(filepath.Join(root, "bin/program"), []byte("a program"), 0o755))
	must(t, os.WriteFile(filepath.Join(root, "bin/large"), bytes.Repeat([]byte("large "), 50_000), 0o644))
	must(t, os.Truncate(filepath.Join(root, "bin/large"), 400_000))
	must(t, os.Link(filepath.Join(root, "bin/program"), filepath.Join(root, "bin/second")))
	must(t, os.Symlink("../../../etc/passwd", filepath.Join(root, "link")))
	out := filepath.Join(dir, "made")
	command := exec.Command("mksquashfs", append([]string{root, out, "-noappend", "-all-root", "-all-time", "1", "-mkfs-time", "1", "-processors", "1", "-quiet", "-no-progress"}, flags...)...)
	if text, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v (make setup installs mksquashfs): %s", err, text)
	}
	content, err := os.ReadFile(out)
	must(t, err)
	return content
}

// convert answers the tar of a file, and what was found.
func convert(t testing.TB, content []byte) ([]byte, *File, Content, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image")
	must(t, os.WriteFile(path, content, 0o600))
	f, err := Open(path)
	if err != nil {
		return nil, nil, Content{}, err
	}
	defer f.Close()
	var out room
	found, err := f.Tar(context.Background(), &out)
	return out.Bytes(), f, found, err
}

// room has room for no more than a test needs: a sparse file may be as large as it likes.
type room struct{ bytes.Buffer }

// Write implements io.Writer.
func (r *room) Write(p []byte) (int, error) {
	if r.Len()+len(p) > 16<<20 {
		return 0, errors.New("there is no more room")
	}
	return r.Buffer.Write(p)
}

// TestSameTar: the tar is the same however the file system is compressed, and in a .sif.
// Its digest pins jobs that wait: who changes it changes what they are pinned to.
func TestSameTar(t *testing.T) {
	want, _, found, err := convert(t, makeFile(t, plain...))
	must(t, err)
	if !found.Runscript {
		t.Error("the runscript was not found")
	}
	if got, pinned := manifest.SHA256(want).Hex, "c2a759a835f5d4ebf61e45477bd852942b5935e8f923d1703bc75931ff14e594"; got != pinned {
		t.Errorf("the tar is %s and was %s", got, pinned)
	}
	for _, compression := range []string{"gzip", "xz", "zstd"} {
		got, _, _, err := convert(t, makeFile(t, "-comp", compression))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v, %d bytes, want %d", compression, err, len(got), len(want))
		}
	}
	got, f, _, err := convert(t, sifOf(t, sif.FsSquash, makeFile(t)))
	if err != nil || !bytes.Equal(got, want) || f.Architecture != "arm64" {
		t.Errorf(".sif: %v, %d bytes, want %d", err, len(got), len(want))
	}
}

func sifOf(t testing.TB, kind sif.FSType, content []byte) []byte {
	t.Helper()
	d, err := sif.NewDescriptorInput(sif.DataPartition, bytes.NewReader(content), sif.OptPartitionMetadata(kind, sif.PartPrimSys, "arm64"))
	must(t, err)
	var out sif.Buffer
	_, err = sif.CreateContainer(&out, sif.OptCreateDeterministic(), sif.OptCreateWithDescriptors(d))
	must(t, err)
	return out.Bytes()
}

// TestContent: what is in the file is in the tar.
func TestContent(t *testing.T) {
	made, _, _, err := convert(t, makeFile(t))
	must(t, err)
	sizes, links := map[string]int64{}, map[string]string{}
	for r := tar.NewReader(bytes.NewReader(made)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		content, err := io.ReadAll(r)
		must(t, err)
		sizes[h.Name], links[h.Name] = int64(len(content)), h.Linkname
	}
	if len(sizes) != 8 || sizes["bin/large"] != 400_000 || sizes["bin/program"] != 9 || links["bin/second"] != "bin/program" || links["link"] != "../../../etc/passwd" {
		t.Errorf("%v %v", sizes, links)
	}
}

// TestHostile: what no file may have is refused by its name.
func TestHostile(t *testing.T) {
	good := makeFile(t, plain...)
	replaced := func(old, new string) []byte {
		if len(old) != len(new) || !bytes.Contains(good, []byte(old)) {
			t.Fatalf("%q cannot become %q", old, new)
		}
		return bytes.ReplaceAll(good, []byte(old), []byte(new))
	}
	patched := func(at int, value ...byte) []byte {
		content := bytes.Clone(good)
		copy(content[at:], value)
		return content
	}
	absurd := bytes.Clone(good)
	size := binary.LittleEndian.AppendUint32(nil, 400_000)
	for at := bytes.Index(absurd, size); at >= 0; at = bytes.Index(absurd, size) {
		copy(absurd[at:], []byte{0xff, 0xff, 0xff, 0xff})
	}
	unlike := sifOf(t, sif.FsSquash, good)
	lies := bytes.Clone(unlike)
	for at := bytes.Index(lies, binary.LittleEndian.AppendUint64(nil, uint64(len(good)))); at >= 0; at = bytes.Index(lies, binary.LittleEndian.AppendUint64(nil, uint64(len(good)))) {
		lies[at+5] = 1
	}
	for _, c := range []struct {
		name    string
		content []byte
		want    string
	}{
		{"empty", nil, "neither a .sif nor squashfs"},
		{"other", []byte(strings.Repeat("#!/bin/sh\n", 100)), "neither a .sif nor squashfs"},
		{"truncated", good[:len(good)/2], "copy the file again"},
		{"name that leads out", replaced("program", "../../x"), `named "../../x"`},
		{"name with a null", replaced("program", "progra\x00"), `named "progra\x00"`},
		{"name twice", replaced("second", "deeper"), "twice, or out of order"},
		{"absurd size", absurd, "the container image is broken"},
		{"lzo", patched(compressionAt, 3), "compressed with lzo"},
		{"unknown compression", patched(compressionAt, 77), "compressed with number 77"},
		{"other version", patched(versionAt, 3), "version 3.0"},
		{"wrong compression", patched(compressionAt, 6, 0, 0, 0), ""},
		{"absurd table", patched(16, 0xff, 0xff, 0xff, 0xff), "the container image is broken"},
		{"absurd root", patched(32, 0xff, 0xff, 0xff, 0xff, 0xff), "the container image is broken"},
		{"encrypted .sif", sifOf(t, sif.FsEncryptedSquashfs, good), "encrypted"},
		{".sif of ext3", sifOf(t, sif.FsExt3, good), "and not squashfs"},
		{"truncated .sif", unlike[:len(unlike)/2], "beyond its end"},
		{"lying .sif", lies, "beyond its end"},
		{"empty .sif", unlike[:100], "the container image is broken"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, _, err := convert(t, c.content)
			if c.want == "" {
				return // it may be read, or not
			}
			if !errors.Is(err, manifest.ErrBroken) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// TestLoop: a directory that is in itself is refused.
func TestLoop(t *testing.T) {
	good := makeFile(t, plain...)
	// The inode of bin/deeper becomes that of bin: both entries name it.
	content := bytes.Clone(good)
	bin, deeper := entryOf(t, content, "bin"), entryOf(t, content, "deeper")
	copy(content[deeper:deeper+2], content[bin:bin+2])
	_, _, _, err := convert(t, content)
	if !errors.Is(err, manifest.ErrBroken) || !strings.Contains(err.Error(), "twice, or in itself") {
		t.Error(err)
	}
}

// entryOf is where the entry of a directory begins: offset, inode, type, length, name.
func entryOf(t testing.TB, content []byte, name string) int {
	t.Helper()
	length := binary.LittleEndian.AppendUint16([]byte{1, 0}, uint16(len(name)-1))
	at := bytes.Index(content, append(length, name...))
	if at < 4 {
		t.Fatalf("no entry %q", name)
	}
	return at - 4
}

// FuzzTar: whatever the file has, there is a tar or an error.
func FuzzTar(f *testing.F) {
	good := makeFile(f, plain...)
	f.Add(good)
	f.Add(makeFile(f))
	f.Add(sifOf(f, sif.FsSquash, good))
	f.Fuzz(func(t *testing.T, content []byte) {
		made, _, _, err := convert(t, content)
		if err != nil {
			return
		}
		for r := tar.NewReader(bytes.NewReader(made)); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			must(t, err)
			if strings.HasPrefix(h.Name, "/") || strings.Contains("/"+h.Name+"/", "/../") {
				t.Errorf("a path that leads out, %q", h.Name)
			}
		}
	})
}
