package store

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// kinds are what the memory of programs is like.
var kinds = []struct {
	name string
	fill func(r *rand.Rand, into []byte)
}{
	{"noise", func(r *rand.Rand, into []byte) { copy(into, noise(r, len(into))) }},
	{"numbers", func(r *rand.Rand, into []byte) {
		for i := 0; i+8 <= len(into); i += 8 {
			binary.LittleEndian.PutUint64(into[i:], math.Float64bits(float64(r.IntN(1<<20))/1000))
		}
	}},
	{"mixed", func(r *rand.Rand, into []byte) { copy(into, memory(r, len(into)/4096)) }},
	{"zeros", func(_ *rand.Rand, into []byte) { clear(into) }},
}

// pagesFile writes a part of about size bytes, and answers the time that
// writing the same bytes and syncing them takes.
func pagesFile(b *testing.B, file string, size int, fill func(*rand.Rand, []byte)) (took, cpu time.Duration) {
	b.Helper()
	f, err := os.OpenFile(file, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	data := make([]byte, 1<<20)
	r := source(11)
	timed := func(do func() error) {
		before, began := processors(b), time.Now()
		if err := do(); err != nil {
			b.Fatal(err)
		}
		took, cpu = took+time.Since(began), cpu+processors(b)-before
	}
	for range size / len(data) {
		fill(r, data)
		timed(func() error { _, err := f.Write(data); return err })
	}
	timed(f.Sync)
	return took, cpu
}

// processors answers the time that this process has had on processors: on a
// machine that others use, too, it says more than the time that passed.
func processors(b *testing.B) time.Duration {
	b.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// highWater watches the memory that Go's heap has while f runs.
func highWater(f func()) float64 {
	runtime.GC()
	var most atomic.Uint64
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most.Store(max(most.Load(), m.HeapInuse))
			select {
			case <-over:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	f()
	close(over)
	<-ended
	return float64(most.Load()) / (1 << 20)
}

// BenchmarkImage puts an image, puts it again as it is, puts it with a tenth
// of its pages changed, and gets it. "x-write" is the time as a multiple of
// what writing the same bytes and syncing them took in the same run.
func BenchmarkImage(b *testing.B) {
	for _, size := range []int{100 << 20, 1 << 30, 4 << 30} {
		for _, kind := range kinds {
			if size > 1<<30 && kind.name != "mixed" {
				continue // how it grows is the same for all
			}
			b.Run(fmt.Sprintf("%s/%dMiB", kind.name, size>>20), func(b *testing.B) { benchImage(b, size, kind.fill) })
		}
	}
}

func benchImage(b *testing.B, size int, fill func(*rand.Rand, []byte)) {
	for range b.N {
		d := newStore(b, Limits{})
		directory := b.TempDir()
		file := filepath.Join(directory, "pages-1.img")
		plain, cpu := pagesFile(b, file, size, fill)
		m := &checkpoint.Manifest{Version: checkpoint.ManifestVersion, Job: 1, Node: "n", Root: "host", Parts: []checkpoint.Part{{Name: "pages-1.img", Size: int64(size)}}}
		b.ReportMetric(plain.Seconds(), "s-write")
		b.ReportMetric(cpu.Seconds(), "cpu-s-write")
		step := func(name string, f func() Receipt) Receipt {
			m.Number++
			var receipt Receipt
			var took time.Duration
			before := processors(b)
			heap := highWater(func() {
				began := time.Now()
				receipt = f()
				took = time.Since(began)
			})
			b.ReportMetric((processors(b) - before).Seconds(), "cpu-s-"+name)
			b.ReportMetric(took.Seconds(), "s-"+name)
			b.ReportMetric(took.Seconds()/plain.Seconds(), "x-write-"+name)
			b.ReportMetric(heap, "MiB-heap-"+name)
			if name != "get" {
				b.ReportMetric(100*float64(receipt.WrittenBytes)/float64(size), "%-written-"+name)
			}
			return receipt
		}
		put := func() Receipt {
			receipt, err := d.Put(b.Context(), m, directory)
			if err != nil {
				b.Fatal(err)
			}
			return receipt
		}
		step("put", put)
		again := step("again", put)
		changeTenth(b, file, size)
		step("tenth", put)
		step("get", func() Receipt {
			if err := d.Get(b.Context(), again.Digest, filepath.Join(b.TempDir(), "restored")); err != nil {
				b.Fatal(err)
			}
			return again
		})
		os.Remove(file)
	}
}

// changeTenth writes other bytes over a tenth of a file, in pieces of 1 MiB.
func changeTenth(b *testing.B, file string, size int) {
	b.Helper()
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	r := source(12)
	for at := 0; at < size; at += 10 << 20 {
		if _, err := f.WriteAt(noise(r, 1<<20), int64(at)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkManyImages shows what it costs that there are 5,000 images of other
// jobs: to list them, to count their space, and to put one more.
func BenchmarkManyImages(b *testing.B) {
	d := newStore(b, Limits{})
	s := sample{"pages-1.img": noise(source(1), 100<<10)}
	for job := range uint32(5000) {
		digest := checkpoint.Digest{byte(job), byte(job >> 8), 1}
		name, err := imageName(&checkpoint.Manifest{Job: job, Node: "node-1", Number: 1}, digest)
		if err == nil {
			err = d.disk.MakeDirectory(filepath.Join(imagesName, name))
		}
		for k := 0; err == nil && k < 4; k++ {
			err = os.WriteFile(filepath.Join(d.path, imagesName, name, packName()), []byte("x"), 0o600)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.Run("list", func(b *testing.B) {
		for range b.N {
			if _, err := d.List(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("usage", func(b *testing.B) {
		for range b.N {
			if _, err := d.Usage(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	number := uint32(0)
	b.Run("put 100 KiB", func(b *testing.B) {
		for range b.N {
			number++
			s.put(b, d, 10000, number)
		}
	})
}
