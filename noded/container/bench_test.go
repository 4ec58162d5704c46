package container

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// BenchmarkSave saves and restores a program that holds memory of which no two
// pages are the same, in turn with CRIU alone and with writing as many bytes.
// Times are medians: "freeze" until every process was frozen; "dump" CRIU alone;
// "save" until the job might run on; "restore" until it ran. What a store adds is not in it. "x/bare" is save by
// dump and write together.
func BenchmarkSave(b *testing.B) {
	for _, megabytes := range []int{100, 1000} {
		b.Run(fmt.Sprintf("%dMB", megabytes), func(b *testing.B) { benchmarkSave(b, megabytes) })
	}
}

func benchmarkSave(b *testing.B, megabytes int) {
	if _, err := exec.LookPath("python3"); err != nil {
		b.Skip("needs python3: holds memory")
	}
	bed := newBed(b)
	s := bed.start()
	s.must(order{Do: "start", Script: fmt.Sprintf("#!/usr/bin/env python3\nimport os, time\nm = [os.urandom(1 << 20) for i in range(%d)]\nprint('ready', flush=True)\ntime.sleep(10000)\n", megabytes)})
	eventually(b, "it is ready", func() bool { return strings.Contains(bed.read(), "ready") })
	took := map[string][]time.Duration{}
	add := func(name string, d time.Duration) { took[name] = append(took[name], d) }
	round := 0
	for b.Loop() {
		round++
		image := bed.image(fmt.Sprint("image", round))
		bare := bed.image(fmt.Sprint("bare", round))
		must(b, os.Mkdir(bare, 0o700))
		add("freeze", s.must(order{Do: "freeze"}).Took["freeze"])
		dump := s.must(order{Do: "dump", Image: bare}).Took["dump"]
		write := writeBytes(b, bed.image("written"), megabytes)
		r := s.must(order{Do: "save", Image: image})
		bed.writeManifest(image, r.Manifest)
		add("dump", dump)
		add("write", write)
		add("save", r.Took["save"])
		b.ReportMetric(float64(r.Took["save"])/float64(dump+write), "x/bare")
		s.must(order{Do: "thaw"})
		other := bed.start()
		add("restore", other.must(order{Do: "restore", Image: image}).Took["restore"])
		other.must(order{Do: "end"})
		for _, path := range []string{image, bare, filepath.Join(bed.dir, "parts", other.id)} {
			must(b, exec.Command("rm", "-rf", "--one-file-system", path).Run())
		}
	}
	s.must(order{Do: "end"})
	for name, all := range took {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "ms/"+name)
	}
	b.ReportMetric(0, "ns/op")
}

// writeBytes writes as many bytes to the same disk, and answers how long that
// takes.
func writeBytes(b *testing.B, path string, megabytes int) time.Duration {
	chunk := make([]byte, 1<<20)
	begin := time.Now()
	file, err := os.Create(path)
	must(b, err)
	defer os.Remove(path)
	defer file.Close()
	for range megabytes {
		_, err := file.Write(chunk)
		must(b, err)
	}
	return time.Since(begin)
}
