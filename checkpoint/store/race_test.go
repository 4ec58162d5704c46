package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// TestNoDeletionHarmsAPut lets several writers of one job put images on top of
// each other's while others delete everything that they see. What a Put
// answered is deleted or whole, never in between.
func TestNoDeletionHarmsAPut(t *testing.T) {
	here := newStore(t, Limits{})
	there := openStore(t, here.path, Limits{})
	pages := noise(source(1), 400<<10)
	ctx, stop := context.WithCancel(t.Context())
	var deleters, writers sync.WaitGroup
	for _, d := range []*Directory{here, there} {
		deleters.Go(func() {
			for ctx.Err() == nil {
				if _, err := Keep(ctx, d, func(a About) bool { return a.Number >= 1000 }); err != nil && ctx.Err() == nil {
					t.Error("delete:", err)
				}
				if _, err := d.Tidy(ctx); err != nil && ctx.Err() == nil {
					t.Error("tidy:", err)
				}
			}
		})
	}
	for w, d := range []*Directory{here, there, here} {
		var all []sample
		var manifests []*checkpoint.Manifest
		var from []string
		for n := range 12 {
			changed := append([]byte(nil), pages...)
			copy(changed[n*20<<10:], fmt.Sprintf("writer %d, image %d", w, n))
			s := sample{"pages-1.img": changed}
			number := uint32(100*w + n)
			if n == 11 {
				number += 1000 // is kept
			}
			m, directory := s.write(t, 1, number)
			all, manifests, from = append(all, s), append(manifests, m), append(from, directory)
		}
		above := t.TempDir()
		writers.Go(func() {
			for n := range all {
				receipt, err := d.Put(t.Context(), manifests[n], from[n])
				if err != nil {
					t.Error("put:", err)
					return
				}
				directory := filepath.Join(above, fmt.Sprint(n))
				err = d.Get(t.Context(), receipt.Digest, directory)
				switch {
				case err == nil:
					got, err := os.ReadFile(filepath.Join(directory, "pages-1.img"))
					if err != nil || string(got) != string(all[n]["pages-1.img"]) {
						t.Error("other bytes were got:", err)
					}
				case n == 11 || !errors.Is(err, ErrNoImage) && !errors.Is(err, fs.ErrNotExist) && !goneMeanwhile(err):
					t.Error("get:", err)
				}
			}
		})
	}
	writers.Wait()
	stop()
	deleters.Wait()
	if _, err := Keep(t.Context(), here, func(a About) bool { return a.Number >= 1000 }); err != nil {
		t.Fatal(err)
	}
	list, err := there.List(t.Context())
	if err != nil || len(list) != 3 {
		t.Fatalf("there are %d images, %v", len(list), err)
	}
	mustBeEmpty(t, filepath.Join(here.path, makingName))
}

// goneMeanwhile says whether an image was deleted while it was opened.
func goneMeanwhile(err error) bool {
	var damage *Damage
	return errors.As(err, &damage) && strings.Contains(damage.What, "gone")
}

// writerWord makes this test program put an image, slowly, and be killed.
const writerWord = "STORE_TEST_WRITER"

func TestMain(m *testing.M) {
	if path := os.Getenv(writerWord); path != "" {
		slowWriter(path)
	}
	os.Exit(m.Run())
}

// slowWriter begins a Put and says so; it never ends by itself.
func slowWriter(path string) {
	d, err := OpenDirectory(context.Background(), path, Limits{})
	if err == nil {
		err = d.disk.MakeDirectory(filepath.Join(makingName, d.writer.next()))
	}
	fmt.Println(err)
	time.Sleep(time.Hour)
	os.Exit(1)
}

func TestADeadWritersRestIsRemovedAndALiveOnesIsNot(t *testing.T) {
	d := newStore(t, Limits{})
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), writerWord+"="+d.path)
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 100)
	n, err := out.Read(line)
	if err != nil || string(line[:n]) != "<nil>\n" {
		t.Errorf("the writer says %q, %v", line[:n], err)
	}
	if removed, err := d.Tidy(t.Context()); err != nil || removed != 0 {
		t.Errorf("%d of a live writer were removed, %v", removed, err)
	}
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait() // killed
	if removed, err := d.Tidy(t.Context()); err != nil || removed != 1 {
		t.Errorf("%d of a dead writer were removed, %v", removed, err)
	}
	mustBeEmpty(t, filepath.Join(d.path, makingName))
}

// A writer on another node cannot be looked at: it shows that it is alive.
func TestAWriterElsewhereIsGivenTime(t *testing.T) {
	disk := newModelDisk()
	d := onModel(t, disk)
	elsewhere := path.Join(makingName, "0123456789abcdef-77-1234-ABCDEF")
	odd := path.Join(makingName, "what is this")
	for _, name := range []string{elsewhere, odd} {
		if err := disk.MakeDirectory(name); err != nil {
			t.Fatal(err)
		}
	}
	if f, err := disk.Create(path.Join(elsewhere, "a"+packSuffix)); err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	tidy := func(after time.Duration, want int) {
		t.Helper()
		disk.now = disk.now.Add(after)
		if removed, err := d.Tidy(t.Context()); err != nil || removed != want {
			t.Errorf("%d were removed, not %d, %v", removed, want, err)
		}
	}
	tidy(deadAfter, 0)
	if err := disk.Touch(elsewhere); err != nil {
		t.Fatal(err)
	}
	tidy(time.Minute, 1)
	tidy(deadAfter-2*time.Minute, 0)
	tidy(2*time.Minute, 1)
	if names, err := disk.Names(makingName); err != nil || len(names) != 0 {
		t.Errorf("%v was left, %v", names, err)
	}
}
