package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The aims of saved jobs are judged by the worst row, and by rounds in pairs.
func TestSavingAims(t *testing.T) {
	table := newTable(plans["quick"])
	table.rows = savingRows(plans["quick"])
	if measured := table.savingAims()[0].Measured; measured {
		t.Error("what was not measured is judged")
	}
	table.add(0, freezeTime(10), ours, 1, 2, 3)
	table.add(0, freezeTime(1000), ours, 2, 3, 250)
	table.add(0, saveRestore(judgedMiB), ours, 3000)
	table.add(0, saveRestore(judgedMiB), bareColumn, 2000)
	table.add(1, saveRestore(judgedMiB), ours, 9000) // a slow machine, for both
	table.add(1, saveRestore(judgedMiB), bareColumn, 6000)
	table.add(0, restoreRun(judgedMiB), ours, 2100)
	table.add(0, restoreRun(judgedMiB), bareColumn, 1000)
	table.add(0, moveTime(judgedMiB), ours, 7200) // of 6,000 at the median
	table.add(0, saveWritten(100), ours, 0.2)
	table.add(0, saveWritten(1000), ours, 7)
	for i, want := range []aim{
		{Figure: "250.0 ms"}, {Figure: "1.50 x", Reached: true}, {Figure: "1.50 x", Reached: true},
		{Figure: "2.10 x"}, {Figure: "1.20 x", Reached: true}, {Figure: "7.00 %"},
	} {
		if got := table.savingAims()[i]; got.Figure != want.Figure || got.Reached != want.Reached || !got.Measured {
			t.Errorf("%+v, want %s", got, want.Figure)
		}
	}
}

// The time that the job writes is read, and not one that is too old.
func TestUntilRuns(t *testing.T) {
	ticks := filepath.Join(t.TempDir(), "ticks")
	now := time.Now()
	data, over := make([]byte, tickBytes), now.Add(-time.Second)
	for i, value := range []int64{now.UnixMicro(), 1500, over.UnixMicro()} {
		for k := range 8 {
			data[8*i+k] = byte(value >> (8 * k))
		}
	}
	if err := os.WriteFile(ticks, data, 0o600); err != nil {
		t.Fatal(err)
	}
	last, err := untilRuns(t.Context(), ticks, now.Add(-time.Millisecond))
	if err != nil || last.longest != 1500*time.Microsecond || last.over.UnixMicro() != over.UnixMicro() {
		t.Errorf("the longest pause is %v, %v", last, err)
	}
}

// What is forgotten is on the disk and nowhere else.
func TestForgetFiles(t *testing.T) {
	directory := t.TempDir()
	var fs unix.Statfs_t
	if err := unix.Statfs(directory, &fs); err != nil || fs.Type == unix.TMPFS_MAGIC {
		t.Skipf("needs a file system on a disk: %v", err)
	}
	name := filepath.Join(directory, "pages-1.img")
	if err := os.WriteFile(name, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := forgetFiles(directory); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var state unix.Cachestat_t
	if err := unix.Cachestat(uint(file.Fd()), &unix.CachestatRange{}, &state, 0); err != nil {
		t.Skip("needs Linux 6.5: asks what is in the page cache")
	}
	if state.Cache != 0 {
		t.Errorf("%d pages are still in the cache", state.Cache)
	}
}
