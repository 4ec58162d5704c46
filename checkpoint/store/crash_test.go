package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// onModel opens a store on a disk in memory.
func onModel(t *testing.T, disk *modelDisk) *Directory {
	t.Helper()
	d := newDirectory("/model", disk, Limits{})
	if err := d.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

// images are what was put, by number: two images of one job.
type images struct {
	t         *testing.T
	samples   [3]sample
	manifests [3]*checkpoint.Manifest
	from      [3]string
}

func newImages(t *testing.T) *images {
	i := &images{t: t}
	pages := noise(source(1), 500<<10)
	changed := append([]byte(nil), pages...)
	copy(changed[200<<10:], noise(source(2), 8192))
	i.samples = [3]sample{{}, {"pages-1.img": pages, "small": []byte("1")}, {"pages-1.img": changed, "small": []byte("2")}}
	for n := range i.samples {
		i.manifests[n], i.from[n] = i.samples[n].write(t, 1, uint32(n))
	}
	return i
}

func (i *images) put(d *Directory, n int) (Receipt, error) {
	return d.Put(i.t.Context(), i.manifests[n], i.from[n])
}

// check looks that every image that is listed is whole, that nothing else
// takes space, and that those of must are there.
func (i *images) check(what string, disk *modelDisk, must ...int) {
	i.t.Helper()
	d := onModel(i.t, disk)
	list, err := d.List(i.t.Context())
	if err != nil {
		i.t.Fatal(what, err)
	}
	there := map[int]bool{}
	for k, image := range list {
		directory := filepath.Join(i.t.TempDir(), fmt.Sprint(k))
		if err := d.Get(i.t.Context(), image.Digest, directory); err != nil {
			i.t.Fatalf("%s: image %d is listed: %v", what, image.Number, err)
		}
		i.samples[image.Number].check(i.t, directory)
		there[int(image.Number)] = true
	}
	for _, n := range must {
		if !there[n] {
			i.t.Fatalf("%s: image %d is gone", what, n)
		}
	}
	if left, err := disk.Names(makingName); err != nil || len(left) > 0 {
		i.t.Fatalf("%s: %v was left, %v", what, left, err)
	}
	for n := range i.samples[1:] {
		if _, err := i.put(d, n+1); err != nil {
			i.t.Fatalf("%s: put image %d afterwards: %v", what, n+1, err)
		}
	}
}

// TestACrashLeavesAWholeImageOrNone stops the machine at each operation of a
// Put on top of another image, and at each of a Delete.
func TestACrashLeavesAWholeImageOrNone(t *testing.T) {
	i := newImages(t)
	for _, action := range []struct {
		name    string
		do      func(d *Directory, first checkpoint.Digest) error
		then    []int // sure to be there if it was done
		instead []int // or if it was not
	}{
		{"put", func(d *Directory, _ checkpoint.Digest) error { _, err := i.put(d, 2); return err }, []int{1, 2}, []int{1}},
		{"delete", func(d *Directory, first checkpoint.Digest) error { return d.Delete(t.Context(), first) }, nil, nil},
	} {
		for stop := 1; ; stop++ {
			disk := newModelDisk()
			d := onModel(t, disk)
			first, err := i.put(d, 1)
			if err != nil {
				t.Fatal(err)
			}
			disk.stopAt = disk.count + stop
			err = action.do(d, first.Digest)
			if err != nil && !errors.Is(err, errStopped) {
				t.Fatal(err)
			}
			must := action.then
			if err != nil {
				must = action.instead
			}
			for seed := range uint64(4) {
				what := fmt.Sprintf("%s stopped at operation %d, power lost with seed %d", action.name, stop, seed)
				i.check(what, disk.losePower(rand.New(rand.NewPCG(seed, uint64(stop)))), must...)
			}
			i.check(fmt.Sprintf("%s stopped at operation %d", action.name, stop), disk.restart(), must...)
			if err == nil {
				if stop < 8 {
					t.Errorf("%s took only %d operations", action.name, stop)
				}
				break
			}
		}
	}
}

// TestAnErrorLeavesAWholeImageOrNone lets each operation of a Put fail once.
func TestAnErrorLeavesAWholeImageOrNone(t *testing.T) {
	i := newImages(t)
	for _, failure := range []error{unix.EIO, unix.ENOSPC, unix.EDQUOT} {
		for fail := 1; ; fail++ {
			disk := newModelDisk()
			d := onModel(t, disk)
			if _, err := i.put(d, 1); err != nil {
				t.Fatal(err)
			}
			before := disk.count
			disk.failAt, disk.failure = before+fail, failure
			_, err := i.put(d, 2)
			if err != nil && !errors.Is(err, failure) {
				t.Fatal(err)
			}
			if failure != unix.EIO && err != nil && !errors.Is(err, ErrFull) {
				t.Fatalf("operation %d had no room: %v", fail, err)
			}
			disk.failAt = 0
			must := []int{1}
			if err == nil {
				must = []int{1, 2}
			}
			list, listed := d.List(t.Context())
			left, err2 := disk.Names(makingName)
			if errors.Join(listed, err2) != nil || len(list) != len(must) || len(left) > 0 {
				t.Fatalf("operation %d failed with %v: there are %d images, and %v was left", fail, failure, len(list), left)
			}
			i.check(fmt.Sprintf("operation %d failed with %v", fail, failure), disk, must...)
			if disk.count < before+fail || fail > 500 {
				t.Fatal("the operations were not counted")
			}
			if err == nil && fail > 40 {
				break
			}
		}
	}
}

// TestASilentDirectoryHoldsNobodyUp lets each operation of a Put hang.
func TestASilentDirectoryHoldsNobodyUp(t *testing.T) {
	i := newImages(t)
	for held := 1; held <= 25; held += 4 {
		disk := newModelDisk()
		d := onModel(t, disk)
		d.patience = 20 * time.Millisecond
		if _, err := i.put(d, 1); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		disk.holdAt, disk.hold = disk.count+held, make(chan struct{})
		disk.reached = func() { cancel(context.DeadlineExceeded) }
		_, err := d.Put(ctx, i.manifests[2], i.from[2])
		if !errors.Is(err, ErrSilent) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "/model") {
			t.Fatalf("operation %d hung: %v", held, err)
		}
		close(disk.hold)
		for d.waiting.Load() > 0 {
			time.Sleep(time.Millisecond)
		}
		i.check(fmt.Sprintf("operation %d hung", held), disk, 1)
	}
}

// Without hard links everything is written again, and nothing else is lost.
func TestAFileSystemWithoutHardLinksWillDo(t *testing.T) {
	i := newImages(t)
	disk := newModelDisk()
	disk.noLinks = true
	d := onModel(t, disk)
	for n := 1; n <= 2; n++ {
		receipt, err := i.put(d, n)
		if err != nil || receipt.WrittenBytes < 500<<10 {
			t.Fatalf("image %d: %+v, %v", n, receipt, err)
		}
	}
	i.check("without hard links", disk, 1, 2)
}

func TestAVanishedDirectoryIsNamed(t *testing.T) {
	d := newStore(t, Limits{})
	s := program(1, 50)
	receipt := s.put(t, d, 1, 1)
	if err := os.RemoveAll(d.path); err != nil {
		t.Fatal(err)
	}
	m, directory := s.write(t, 1, 2)
	_, put := d.Put(t.Context(), m, directory)
	_, list := d.List(t.Context())
	for _, err := range []error{put, list, d.Get(t.Context(), receipt.Digest, filepath.Join(t.TempDir(), "x")), d.Delete(t.Context(), receipt.Digest)} {
		if err == nil || !strings.Contains(err.Error(), d.path) {
			t.Errorf("a store that is gone: %v", err)
		}
	}
}

func TestADirectoryThatWasReplacedIsNoticed(t *testing.T) {
	d := newStore(t, Limits{})
	check := func(what string, want bool) {
		t.Helper()
		if got, err := d.Replaced(t.Context()); err != nil || got != want {
			t.Errorf("%s: %v, %v", what, got, err)
		}
	}
	check("as it was", false)
	if err := os.Rename(d.path, d.path+".away"); err != nil {
		t.Fatal(err)
	}
	check("gone", true)
	if err := os.Mkdir(d.path, 0o700); err != nil {
		t.Fatal(err)
	}
	check("another", true)
	if err := os.Remove(d.path); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(d.path+".away", d.path); err != nil {
		t.Fatal(err)
	}
	check("back", false)
}
