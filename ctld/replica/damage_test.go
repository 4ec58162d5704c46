package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/gleaner-hpc/gleaner/proto/prototest"
)

var quiet = slog.New(slog.DiscardHandler)

// seedFor is a new seed each time, printed, or the one in GLEANER_SEED.
func seedFor(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("GLEANER_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("GLEANER_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

func keepSome(o *Options) { o.KeepCommands = 40; o.Existing = true }

// buildDirectory writes a directory with two snapshots and a log of several
// levels behind them, with an entry that needs pages of its own.
func buildDirectory(t testing.TB) (dir string, commands []string) {
	t.Helper()
	dir = t.TempDir()
	peer, machine := openPeer(t, dir, func(o *Options) { o.KeepCommands = 40 })
	for round := range 7 {
		var group sync.WaitGroup
		for i := range 100 {
			group.Go(func() {
				command := fmt.Sprintf("command %d %s", round*100+i, strings.Repeat("x", i))
				if round == 6 && i == 50 {
					command = "large " + strings.Repeat("y", 10_000)
				}
				if _, err := peer.Propose(context.Background(), []byte(command)); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if round == 0 || round == 2 {
			if err := peer.Snapshot(); err != nil {
				t.Fatal(err)
			}
		}
	}
	commands = machine.all()
	if err := peer.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, commands
}

// onDisk is all that raft would start from.
type onDisk struct {
	Snapshot string
	Entries  []raft.Log
	Seal     seal
}

// readDirectory reads it without changing anything.
func readDirectory(dir string) (found onDisk, err error) {
	path, err := checkFiles(Options{Dir: dir, Existing: true, Logger: quiet})
	if err != nil {
		return found, err
	}
	snapshots, err := openSnapshots(dir, quiet)
	if err != nil {
		return found, err
	}
	store, _, err := openStore(path, true)
	if err != nil {
		return found, err
	}
	defer store.Close()
	logs := &logFile{path: path, store: store}
	if logs.seal, err = readSeal(store); err != nil {
		return found, err
	}
	list, err := snapshots.List()
	if err != nil || len(list) == 0 {
		return found, fmt.Errorf("no snapshot: %w", err)
	}
	_, file, err := snapshots.Open(list[0].ID)
	if err != nil {
		return found, err
	}
	defer file.Close()
	text, err := io.ReadAll(file)
	if err != nil {
		return found, err
	}
	found.Snapshot, found.Seal = string(text), logs.current()
	for index := found.Seal.First; index <= found.Seal.Last; index++ {
		var entry raft.Log
		if err := logs.GetLog(index, &entry); err != nil {
			return found, err
		}
		found.Entries = append(found.Entries, entry)
	}
	return found, nil
}

// flip turns one bit of a file round.
func flip(t testing.TB, path string, offset int64, bit uint) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var one [1]byte
	if _, err := file.ReadAt(one[:], offset); err != nil {
		t.Fatal(err)
	}
	one[0] ^= 1 << bit
	if _, err := file.WriteAt(one[:], offset); err != nil {
		t.Fatal(err)
	}
}

// places are the bytes of a file to damage: all of a small one; of the log
// file, the head of every page in use, where bbolt's own words are, the meta
// pages, and many more at random.
func places(t testing.TB, random *rand.Rand, path string) []int64 {
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	var list []int64
	many, all := prototest.Soak(40, 1000), prototest.Soak(false, true)
	if filepath.Base(path) != logName {
		for i := range info.Size() {
			if i < 500 && filepath.Base(path) == "meta.json" && all {
				list = append(list, i)
			}
		}
		for range many / 8 {
			list = append(list, random.Int64N(info.Size()))
		}
		return list
	}
	used := usedBytes(t, path)
	for page := int64(0); page < used && all; page += 4096 {
		for i := range int64(80) {
			if i < 24 || page < 8192 {
				list = append(list, page+i)
			}
		}
	}
	for range many {
		list = append(list, random.Int64N(used))
	}
	return list
}

func usedBytes(t testing.TB, path string) int64 {
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	meta, err := readMetas(file, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	return int64(meta.pages * meta.pageSize)
}

// TestEveryFlippedBitShows flips one bit after another. Each time either all
// that is on disk reads as it was written, because the bit lay where nothing
// is, or the file is named.
func TestEveryFlippedBitShows(t *testing.T) {
	random := seedFor(t)
	dir, commands := buildDirectory(t)
	want, err := readDirectory(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := []string{filepath.Join(dir, logName)}
	found, _ := filepath.Glob(filepath.Join(dir, "snapshots", "*", "*"))
	if files = append(files, found...); len(files) != 5 {
		t.Fatalf("files: %v", files)
	}
	for _, path := range files {
		named, same := 0, 0
		for _, offset := range places(t, random, path) {
			bit := random.UintN(8)
			flip(t, path, offset, bit)
			got, err := readDirectory(dir)
			switch {
			case err == nil && reflect.DeepEqual(got, want):
				same++
				if same%250 == 1 {
					goesOn(t, dir, commands)
				}
			case err == nil:
				t.Errorf("%s byte %d bit %d: it reads otherwise, and nobody is told", filepath.Base(path), offset, bit)
			case !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), filepath.Dir(path)):
				t.Errorf("%s byte %d bit %d: %v", filepath.Base(path), offset, bit, err)
			default:
				named++
			}
			flip(t, path, offset, bit)
		}
		t.Logf("%s: %d flips named, %d in unused space", strings.TrimPrefix(path, dir), named, same)
	}
	if got, err := readDirectory(dir); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("after all was put back: %v", err)
	}
}

// goesOn starts a peer on a copy: a bit in unused space does no harm later
// either.
func goesOn(t *testing.T, dir string, commands []string) {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	peer, machine := openPeer(t, copied, keepSome)
	for i := range 20 {
		propose(t, peer, fmt.Sprintf("later %d", i))
	}
	if err := peer.Snapshot(); err != nil {
		t.Fatal(err)
	}
	propose(t, peer, "last")
	if got := machine.all(); len(got) != len(commands)+21 || !reflect.DeepEqual(got[:len(commands)], commands) {
		t.Fatalf("%d commands, want %d", len(got), len(commands)+21)
	}
	if err := peer.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := readDirectory(copied); err != nil {
		t.Fatalf("after it continued: %v", err)
	}
	if err := os.RemoveAll(copied); err != nil {
		t.Fatal(err)
	}
}

// TestWholeFilesDamaged: a file cut off, emptied, missing, or something else
// under its name.
func TestWholeFilesDamaged(t *testing.T) {
	dir, _ := buildDirectory(t)
	replace := func(path string, change func() error) error {
		if err := os.Rename(path, path+".kept"); err != nil {
			return err
		}
		return change()
	}
	keepFirst := func(path string, bytes int64) func() error {
		return func() error {
			text, err := os.ReadFile(path + ".kept")
			if err != nil {
				return err
			}
			return os.WriteFile(path, text[:bytes], 0o600)
		}
	}
	newest := newestSnapshot(t, dir)
	db, meta, state := filepath.Join(dir, logName), filepath.Join(newest, "meta.json"), filepath.Join(newest, "state.bin")
	for name, c := range map[string]struct {
		path   string
		change func() error
	}{
		"log missing":       {db, func() error { return nil }},
		"log empty":         {db, keepFirst(db, 0)},
		"log of 100 bytes":  {db, keepFirst(db, 100)},
		"log of one page":   {db, keepFirst(db, 4096)},
		"log of four pages": {db, keepFirst(db, 4*4096)},
		"log cut":           {db, keepFirst(db, usedBytes(t, db)-1)},
		"log a directory":   {db, func() error { return os.Mkdir(db, 0o700) }},
		"log another file":  {db, func() error { return os.WriteFile(db, []byte(strings.Repeat("hello ", 4000)), 0o600) }},
		"meta missing":      {meta, func() error { return nil }},
		"meta empty":        {meta, keepFirst(meta, 0)},
		"meta cut":          {meta, keepFirst(meta, 200)},
		"state missing":     {state, func() error { return nil }},
		"state empty":       {state, keepFirst(state, 0)},
		"state cut":         {state, keepFirst(state, 1000)},
	} {
		if err := replace(c.path, c.change); err != nil {
			t.Fatal(err)
		}
		peer, _, err := tryOpen(dir, keepSome)
		if peer != nil {
			_ = peer.Close()
		}
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), filepath.Dir(c.path)) {
			t.Errorf("%s: %v", name, err)
		}
		_ = os.RemoveAll(c.path)
		if err := os.Rename(c.path+".kept", c.path); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := readDirectory(dir); err != nil {
		t.Fatalf("after all was put back: %v", err)
	}
}

func newestSnapshot(t testing.TB, dir string) string {
	found, _ := filepath.Glob(filepath.Join(dir, "snapshots", "*-3*-*"))
	if len(found) != 1 {
		t.Fatalf("snapshots: %v", found)
	}
	return found[0]
}

// TestAllSnapshotsMissing: what the log resumes from is gone.
func TestAllSnapshotsMissing(t *testing.T) {
	dir, _ := buildDirectory(t)
	if err := os.RemoveAll(filepath.Join(dir, "snapshots")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := tryOpen(dir, keepSome); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "a snapshot is missing") {
		t.Fatalf("message: %v", err)
	}
}

// TestInterruptedFirstStart: what a first start left that was killed between
// two of its writes is no damage.
func TestInterruptedFirstStart(t *testing.T) {
	for name, prepare := range map[string]func(dir string) error{
		"draft of the log": func(dir string) error { return os.WriteFile(filepath.Join(dir, logName+".new"), []byte("half"), 0o600) },
		"log without a term": func(dir string) error {
			return createLogFile(filepath.Join(dir, logName))
		},
		"term without a member": func(dir string) error {
			if err := createLogFile(filepath.Join(dir, logName)); err != nil {
				return err
			}
			logs, err := openLogFile(filepath.Join(dir, logName), quiet)
			if err != nil {
				return err
			}
			return errors.Join(logs.SetUint64([]byte("CurrentTerm"), 1), logs.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := prepare(dir); err != nil {
				t.Fatal(err)
			}
			peer, _ := openPeer(t, dir)
			propose(t, peer, "works")
		})
	}
}

// TestSnapshotLeavesNothing: unfinished snapshots go, finished ones stay.
func TestSnapshotLeavesNothing(t *testing.T) {
	dir, _ := buildDirectory(t)
	folder := filepath.Join(dir, "snapshots")
	if err := os.Mkdir(filepath.Join(folder, "9-9-9.tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := readDirectory(dir); err != nil {
		t.Fatal(err)
	}
	entries, _ := os.ReadDir(folder)
	if len(entries) != 2 {
		t.Fatalf("snapshots: %v", entries)
	}
}

// TestLostTransaction: without either meta page bbolt continues with what the
// other says, which is the last transaction or the one before.
func TestLostTransaction(t *testing.T) {
	dir, _ := buildDirectory(t)
	path := filepath.Join(dir, logName)
	for round := range 2 {
		for _, offset := range []int64{16, 4096 + 16 + 48} {
			flip(t, path, offset, 0)
			if _, err := readDirectory(dir); !errors.Is(err, ErrDamaged) {
				t.Errorf("round %d, byte %d: %v", round, offset, err)
			}
			flip(t, path, offset, 0)
		}
		logs, err := openLogFile(path, quiet)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(logs.SetUint64([]byte("CurrentTerm"), uint64(100+round)), logs.Close()); err != nil {
			t.Fatal(err)
		}
	}
}
