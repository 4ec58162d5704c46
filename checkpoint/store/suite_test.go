package store

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// Every way to an image has to pass the same tests.
var ways = []struct {
	name string
	open func(t *testing.T, d *Directory) Reader
}{
	{"directory", func(_ *testing.T, d *Directory) Reader { return d }},
	{"shared directory", func(t *testing.T, d *Directory) Reader { return openStore(t, d.path, Limits{}) }},
	{"other node", func(t *testing.T, d *Directory) Reader { return remoteOf(t, d, func(c net.Conn) net.Conn { return c }) }},
	{"other node, streams break", func(t *testing.T, d *Directory) Reader {
		r := source(77)
		return remoteOf(t, d, func(c net.Conn) net.Conn {
			return &breaking{Conn: c, left: 100<<10 + r.Int64N(900<<10)}
		})
	}},
}

// remoteOf serves a directory's images, each stream as wrap makes it.
func remoteOf(t *testing.T, d *Directory, wrap func(net.Conn) net.Conn) *Remote {
	serving := make(chan struct{}, 1000)
	var begun atomic.Int64
	var wanted atomic.Pointer[checkpoint.Digest]
	remote := NewRemote(func(context.Context) (io.ReadWriteCloser, error) {
		here, there := net.Pipe()
		begun.Add(1)
		go func() {
			defer func() { serving <- struct{}{} }()
			hello := &hearing{Conn: there, image: &wanted}
			image, err := hello.listen()
			if err != nil {
				there.Close()
				return
			}
			_ = Serve(t.Context(), hello, d, image) // how it ends is seen at the other end
		}()
		return wrap(here), nil
	})
	remote.pause = time.Millisecond
	t.Cleanup(func() {
		for range begun.Load() {
			<-serving
		}
	})
	return remote
}

// hearing reads ahead which image is asked for: a test's server has them all.
type hearing struct {
	net.Conn
	image *atomic.Pointer[checkpoint.Digest]
	ahead []byte
}

func (h *hearing) listen() (checkpoint.Digest, error) {
	h.ahead = make([]byte, len(wireMagic)+32)
	if _, err := io.ReadFull(h.Conn, h.ahead); err != nil {
		return checkpoint.Digest{}, err
	}
	return checkpoint.Digest(h.ahead[len(wireMagic):]), nil
}

func (h *hearing) Read(into []byte) (int, error) {
	if len(h.ahead) > 0 {
		n := copy(into, h.ahead)
		h.ahead = h.ahead[n:]
		return n, nil
	}
	return h.Conn.Read(into)
}

// breaking is a stream that ends after some bytes.
type breaking struct {
	net.Conn
	left int64
}

func (b *breaking) Read(into []byte) (int, error) {
	if b.left <= 0 {
		b.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.Conn.Read(into[:min(int64(len(into)), b.left)])
	b.left -= int64(n)
	return n, err
}

// everyWay runs a test with each way to the images of one store.
func everyWay(t *testing.T, test func(t *testing.T, d *Directory, r Reader)) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			d := newStore(t, Limits{})
			test(t, d, way.open(t, d))
		})
	}
}

func TestWhatIsPutIsGot(t *testing.T) {
	everyWay(t, func(t *testing.T, d *Directory, r Reader) {
		for seed := uint64(1); seed <= 4; seed++ {
			s := program(seed, int(500*seed))
			receipt := s.put(t, d, 1, uint32(seed))
			s.get(t, r, receipt.Digest)
			m, err := r.Manifest(t.Context(), receipt.Digest)
			if err != nil || len(m.Parts) != len(s) || m.Number != uint32(seed) || m.Bytes() != receipt.Bytes {
				t.Errorf("the manifest is %+v, %v", m, err)
			}
		}
	})
}

func TestZerosAreHoles(t *testing.T) {
	everyWay(t, func(t *testing.T, d *Directory, r Reader) {
		data := make([]byte, 40<<20)
		copy(data[20<<20:], noise(source(1), 8192))
		receipt := sample{"pages-1.img": data, "zeros": data[:19<<20]}.put(t, d, 1, 1)
		if receipt.WrittenBytes > 100<<10 {
			t.Errorf("%d bytes were written for two pages", receipt.WrittenBytes)
		}
		directory := filepath.Join(t.TempDir(), "restored")
		if err := r.Get(t.Context(), receipt.Digest, directory); err != nil {
			t.Fatal(err)
		}
		sample{"pages-1.img": data, "zeros": data[:19<<20]}.check(t, directory)
		if taken := blocks(t, filepath.Join(directory, "pages-1.img")); taken > 256<<10 {
			t.Errorf("the file takes %d bytes", taken)
		}
	})
}

func TestGetWantsAnEmptyDirectory(t *testing.T) {
	everyWay(t, func(t *testing.T, d *Directory, r Reader) {
		s := program(1, 100)
		receipt := s.put(t, d, 1, 1)
		directory := t.TempDir()
		if err := r.Get(t.Context(), receipt.Digest, directory); err != nil {
			t.Fatal("into one that is empty:", err)
		}
		s.check(t, directory)
		if err := r.Get(t.Context(), receipt.Digest, directory); err == nil || !strings.Contains(err.Error(), "not empty") {
			t.Fatal("into one that is not:", err)
		}
		s.check(t, directory)
	})
}

func TestNoSuchImage(t *testing.T) {
	everyWay(t, func(t *testing.T, d *Directory, r Reader) {
		program(1, 10).put(t, d, 1, 1)
		directory := filepath.Join(t.TempDir(), "restored")
		if err := r.Get(t.Context(), checkpoint.Digest{1}, directory); !errors.Is(err, ErrNoImage) {
			t.Error(err)
		}
		if _, err := r.Manifest(t.Context(), checkpoint.Digest{1}); !errors.Is(err, ErrNoImage) {
			t.Error(err)
		}
		mustBeEmpty(t, filepath.Dir(directory))
	})
}

func TestACancelledGetLeavesNothing(t *testing.T) {
	everyWay(t, func(t *testing.T, d *Directory, r Reader) {
		s := program(1, 4000)
		receipt := s.put(t, d, 1, 1)
		above := t.TempDir()
		for after := time.Millisecond; ; after = after * 3 / 2 {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			err := r.Get(ctx, receipt.Digest, filepath.Join(above, "restored"))
			cancel()
			if err == nil {
				s.check(t, filepath.Join(above, "restored"))
				return
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			mustBeEmpty(t, above)
		}
	})
}

// harm does something to a file of an image.
var harms = []struct {
	name string
	file string // of the image, as a pattern
	do   func(file string) error
}{
	{"a pack is gone", "*.pack", os.Remove},
	{"a pack is cut off", "*.pack", func(file string) error { return cut(file, 100) }},
	{"a pack is cut to nothing", "*.pack", func(file string) error { return os.Truncate(file, 0) }},
	{"a pack has other bytes", "*.pack", func(file string) error { return flip(file, 5000) }},
	{"a pack's index has other bytes", "*.pack", func(file string) error { return flip(file, -100) }},
	{"a pack's footer has other bytes", "*.pack", func(file string) error { return flip(file, -3) }},
	{"a pack is longer", "*.pack", func(file string) error { return cut(file, -8) }},
	{"the manifest is gone", manifestName, os.Remove},
	{"the manifest is cut off", manifestName, func(file string) error { return cut(file, 5) }},
	{"the manifest has other bytes", manifestName, func(file string) error { return flip(file, 30) }},
	{"the manifest is empty", manifestName, func(file string) error { return os.Truncate(file, 0) }},
}

func cut(file string, bytes int64) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	return os.Truncate(file, info.Size()-bytes)
}

// flip changes one bit; a negative place counts from the end.
func flip(file string, at int64) error {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if at < 0 {
		info, err := f.Stat()
		if err != nil {
			return err
		}
		at += info.Size()
	}
	one := make([]byte, 1)
	if _, err := f.ReadAt(one, at); err != nil {
		return err
	}
	one[0] ^= 4
	_, err = f.WriteAt(one, at)
	return err
}

func TestDamageIsFoundAndNamed(t *testing.T) {
	everyWay(t, func(t *testing.T, d *Directory, r Reader) {
		s := sample{"criu/pages-1.img": noise(source(5), 3<<20), "upper.tar": noise(source(6), 300<<10)}
		for number, harm := range harms {
			receipt := s.put(t, d, uint32(100+number), 1)
			name, err := d.find(t.Context(), receipt.Digest)
			if err != nil {
				t.Fatal(err)
			}
			files, err := filepath.Glob(filepath.Join(d.path, name, harm.file))
			if err != nil || len(files) == 0 {
				t.Fatal(files, err)
			}
			if err := harm.do(files[0]); err != nil {
				t.Fatal(err)
			}
			above := t.TempDir()
			err = r.Get(t.Context(), receipt.Digest, filepath.Join(above, "restored"))
			var damage *Damage
			if !errors.As(err, &damage) || damage.Image != receipt.Digest {
				t.Errorf("%s: %v", harm.name, err)
				continue
			}
			if _, local := r.(*Directory); local && harm.name != "a pack is gone" && damage.File != files[0] {
				t.Errorf("%s: the file named is %q, not %s: %v", harm.name, damage.File, files[0], err)
			}
			if harm.name == "a pack has other bytes" && (damage.Part != "criu/pages-1.img" || damage.Chunk != 0) {
				t.Errorf("%s: part %q, chunk %d is named: %v", harm.name, damage.Part, damage.Chunk, err)
			}
			mustBeEmpty(t, above)
			// The job's next image does not build on it.
			if _, local := r.(*Directory); local {
				s.get(t, r, s.put(t, d, uint32(100+number), 2).Digest)
			}
		}
	})
}

// smallDisk mounts a file system of that many bytes.
func smallDisk(t *testing.T, bytes string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: to mount a small file system")
	}
	directory := t.TempDir()
	if err := unix.Mount("tmpfs", directory, "tmpfs", 0, "mode=0700,size="+bytes); err != nil {
		t.Skip("needs to mount a small file system: ", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(directory, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return directory
}

func TestAFullTargetIsSaid(t *testing.T) {
	everyWay(t, func(t *testing.T, d *Directory, r Reader) {
		s := sample{"pages-1.img": noise(source(2), 4<<20)}
		receipt := s.put(t, d, 1, 1)
		directory := filepath.Join(smallDisk(t, "2m"), "restored")
		if err := r.Get(t.Context(), receipt.Digest, directory); !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "4.0 MiB") {
			t.Error(err)
		}
		mustBeEmpty(t, filepath.Dir(directory))
	})
}

func TestADiskThatFillsUpKeepsNothing(t *testing.T) {
	disk := smallDisk(t, "3m")
	d := openStore(t, filepath.Join(disk, "store"), Limits{})
	m, directory := sample{"pages-1.img": noise(source(2), 4<<20)}.write(t, 1, 1)
	if _, err := d.Put(t.Context(), m, directory); !errors.Is(err, ErrFull) {
		t.Fatal(err)
	}
	mustBeEmpty(t, filepath.Join(d.path, makingName))
	small := sample{"pages-1.img": noise(source(3), 2<<20)}
	small.get(t, d, small.put(t, d, 1, 1).Digest)
}

func TestAStreamThatNeverGetsOnIsGivenUp(t *testing.T) {
	d := newStore(t, Limits{})
	receipt := program(1, 400).put(t, d, 1, 1)
	r := remoteOf(t, d, func(c net.Conn) net.Conn { return &breaking{Conn: c, left: 10} })
	above := t.TempDir()
	if err := r.Get(t.Context(), receipt.Digest, filepath.Join(above, "restored")); !errors.Is(err, ErrBroken) {
		t.Error(err)
	}
	mustBeEmpty(t, above)
	r = NewRemote(func(context.Context) (io.ReadWriteCloser, error) { return nil, fs.ErrPermission })
	r.pause = time.Millisecond
	if err := r.Get(t.Context(), receipt.Digest, filepath.Join(above, "restored")); !errors.Is(err, ErrBroken) || !errors.Is(err, fs.ErrPermission) {
		t.Error(err)
	}
	// One that is silent counts as broken, too.
	r = NewRemote(func(context.Context) (io.ReadWriteCloser, error) {
		here, there := net.Pipe()
		go io.Copy(io.Discard, there) // it listens, and says nothing
		return here, nil
	})
	r.pause, r.quiet, r.attempts = time.Millisecond, 10*time.Millisecond, 2
	if err := r.Get(t.Context(), receipt.Digest, filepath.Join(above, "restored")); !errors.Is(err, ErrBroken) {
		t.Error(err)
	}
}

func TestOnlyTheImageMeantIsServed(t *testing.T) {
	d := newStore(t, Limits{})
	mine, other := program(1, 10).put(t, d, 1, 1), program(2, 10).put(t, d, 2, 1)
	served := make(chan error, 1)
	r := NewRemote(func(context.Context) (io.ReadWriteCloser, error) {
		here, there := net.Pipe()
		go func() { served <- Serve(t.Context(), there, d, mine.Digest) }()
		return here, nil
	})
	if _, err := r.Manifest(t.Context(), other.Digest); !errors.Is(err, ErrNoImage) {
		t.Error(err)
	}
	if err := <-served; !errors.Is(err, ErrNoImage) {
		t.Error("the server says:", err)
	}
	if _, err := r.Manifest(t.Context(), mine.Digest); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error("the server says:", err)
	}
}
