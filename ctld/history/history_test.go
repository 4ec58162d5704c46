package history

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// cluster is a real state, without a log.
type cluster struct {
	t     *testing.T
	mu    sync.Mutex
	state *state.State
	next  uint64
}

func newCluster(t *testing.T) *cluster { return &cluster{t: t, state: state.New()} }

func (c *cluster) View() *state.View { c.mu.Lock(); defer c.mu.Unlock(); return c.state.View() }

func (c *cluster) AppliedIndex() uint64 { c.mu.Lock(); defer c.mu.Unlock(); return c.next }

func (c *cluster) apply(command state.Command) state.Result {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	entry, err := state.Encode(command, state.RequestID{}, int64(1_000_000+c.next))
	if err != nil {
		c.t.Fatal(err)
	}
	result, err := c.state.Apply(c.next, entry)
	if err != nil || result.Refused != nil {
		c.t.Fatal(err, result.Refused)
	}
	return result
}

// end ends a number of jobs.
func (c *cluster) end(count int) {
	c.t.Helper()
	var targets []state.Target
	for i := range count {
		name := fmt.Sprintf("odd\n\x1b'%d", i)
		spec := state.Spec{Hold: true, MinNodes: 1, Account: fmt.Sprint("a", i%3)}
		id := c.apply(state.SubmitJob{Spec: spec, Own: state.Own{Name: name, WorkDirectory: "/"}, Owner: state.Owner{UID: uint32(1000 + i%2), User: fmt.Sprint("u", i%2)}, Script: []byte("#!/bin/sh\n")}).JobID
		targets = append(targets, state.Target{Job: id})
	}
	c.apply(state.CancelJobs{Targets: targets, UID: 0, Privileged: true})
}

// others are the databases of other controllers.
type others struct {
	keepers []*Keeper
	silent  bool
}

func (o *others) CopyHistory(ctx context.Context, after state.Position) ([]Row, state.Position, bool) {
	for _, keeper := range o.keepers {
		if rows, through, err := keeper.Copy(ctx, after); err == nil && through > after {
			return rows, through, !o.silent
		}
	}
	return nil, 0, !o.silent
}

func newKeeper(t *testing.T, c *cluster, from *others) *Keeper {
	return newKeeperOf(t, c, from, "")
}

// newKeeperOf is one whose database is on a server, if a URL says so.
func newKeeperOf(t *testing.T, c *cluster, from *others, url string) *Keeper {
	if from == nil {
		from = &others{}
	}
	k := New(c, from, Options{Path: filepath.Join(t.TempDir(), "history.db"), URL: url, Logger: slog.New(slog.DiscardHandler)})
	k.atOnce = 20
	t.Cleanup(k.close)
	return k
}

// sqlite is the file of a Keeper that has one.
func sqlite(k *Keeper) *SQLite { return k.database.(*SQLite) }

func mustWork(t *testing.T, k *Keeper) {
	t.Helper()
	if err := k.work(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// dump is everything in a database.
func dump(t *testing.T, k *Keeper) []Row {
	t.Helper()
	database, err := k.opened(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	rows, err := database.After(context.Background(), 0, 1<<20, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// wants compares a database with all that ended in a cluster that never trimmed.
func wants(t *testing.T, k *Keeper, view *state.View) {
	t.Helper()
	var want []Row
	for run := range view.HistoryAfter(0) {
		want = append(want, Row{At: run.At, Run: run.Run})
	}
	if diff := cmp.Diff(want, dump(t, k)); diff != "" {
		t.Errorf("the database differs from what ended (-ended +database):\n%.2000s", diff)
	}
}

// TestEndedRunsArrive: each once, also if all is written again by a Keeper that was
// killed before it noted that; and in the order in which readers want them.
func TestEndedRunsArrive(t *testing.T) { endedRunsArrive(t, "") }

func endedRunsArrive(t *testing.T, url string) {
	c := newCluster(t)
	k := newKeeperOf(t, c, nil, url)
	c.end(60)
	mustWork(t, k)
	wants(t, k, c.View())
	all := dump(t, k)
	if err := k.database.Put(context.Background(), 0, all[len(all)-1].At, all); err != nil { // as if all were new
		t.Fatal(err)
	}
	c.end(3)
	mustWork(t, k)
	wants(t, k, c.View())
	k.close()
	k.index = 0
	mustWork(t, k)
	wants(t, k, c.View())

	last, count := uint32(0), 0
	through, err := k.Read(context.Background(), Choice{UIDs: []uint32{1001}, Accounts: []string{"a0", "a1"}}, ^state.Position(0)>>1, runs(func(run *pb.PastRun) {
		id := run.GetJob().GetId().GetJob()
		if id <= last || run.GetJob().GetOwner().GetUid() != 1001 || run.GetJob().GetSpec().GetAccount() == "a2" || run.GetJob().GetState() != pb.JobState_JOB_STATE_CANCELLED {
			t.Errorf("after job %d comes %v", last, run)
		}
		last, count = id, count+1
	}))
	if err != nil || through != k.Through() || count < 15 {
		t.Errorf("%d runs through %d: %v", count, through, err)
	}
	for what, want := range map[*Choice]int{
		{Jobs: []uint32{5, 7}}: 2, {Jobs: []uint32{5}, Users: []string{"u0"}}: 1, {Jobs: []uint32{5}, Users: []string{"u1"}}: 0, {Users: []string{"nobody'; --"}}: 0,
		{}: 63, {SinceMS: 1}: 63, {UntilMS: 1}: 0, {SinceMS: 1 << 60}: 0,
	} {
		got := 0
		if _, err := k.Read(context.Background(), *what, ^state.Position(0)>>1, runs(func(*pb.PastRun) { got++ })); err != nil || got != want {
			t.Errorf("%+v: %d runs and %v, want %d", *what, got, err, want)
		}
	}
	if err := k.database.Put(context.Background(), k.Through()+1, k.Through()+2, nil); !errors.Is(err, ErrBehind) {
		t.Errorf("the watermark would leave a gap: %v", err)
	}
}

// TestDatabaseThatTakesNothing: locked, full, or its file gone: nothing is lost, and it
// is all there afterwards.
func TestDatabaseThatTakesNothing(t *testing.T) {
	c := newCluster(t)
	k := newKeeper(t, c, nil)
	k.atOnce = 100 // more than what a full disk has room for
	c.end(5)
	mustWork(t, k)
	refuses := func(how string) {
		t.Helper()
		c.end(150)
		limited, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer cancel()
		if err := k.work(limited); err == nil {
			t.Errorf("%s: it was written", how)
		}
		if through := k.Through(); through >= state.EndOf(c.AppliedIndex()-1) {
			t.Errorf("%s: it says that it has what it has not", how)
		}
	}

	lock, err := sql.Open("sqlite3", k.options.Path+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	held, err := lock.Begin()
	if err != nil {
		t.Fatal(err)
	}
	refuses("locked")
	if err := held.Rollback(); err != nil {
		t.Fatal(err)
	}
	mustWork(t, k)
	wants(t, k, c.View())

	var pages int
	if err := sqlite(k).write.QueryRow("PRAGMA page_count").Scan(&pages); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite(k).write.Exec(fmt.Sprintf("PRAGMA max_page_count=%d", pages+2)); err != nil {
		t.Fatal(err)
	}
	refuses("full")
	if _, err := sqlite(k).write.Exec("PRAGMA max_page_count=1000000"); err != nil {
		t.Fatal(err)
	}
	mustWork(t, k)
	wants(t, k, c.View())

	away := filepath.Dir(k.options.Path)
	if err := os.Rename(away, away+".away"); err != nil {
		t.Fatal(err)
	}
	refuses("away")
	if err := os.Rename(away+".away", away); err != nil {
		t.Fatal(err)
	}
	mustWork(t, k)
	wants(t, k, c.View())
}

// TestGapIsCopied: a database that has missed runs which the outbox does not have any more
// is made equal to another one, byte for byte; and one that is damaged likewise. As long
// as a controller does not answer it waits; if none has the runs it goes on.
func TestGapIsCopied(t *testing.T) {
	first, second := gapIsCopied(t, "")
	c := first.source.(*cluster)
	equal := func() { t.Helper(); wantEqual(t, first, second) }
	second.close()
	file, err := os.OpenFile(second.options.Path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range []int64{0, 1, 2, 3, 4, 5, 6} {
		if _, err := file.WriteAt(bytes.Repeat([]byte{0xa5}, 4096), page*4096); err != nil {
			t.Fatal(err)
		}
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	_ = os.Remove(second.options.Path + "-wal")
	second.through.Store(0)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { second.Run(ctx); close(done) }()
	for end := time.Now().Add(20 * time.Second); second.Through() != first.Through() && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	<-done
	equal()
	if kept, _ := filepath.Glob(second.options.Path + ".damaged-*"); len(kept) == 0 {
		t.Error("the damaged database was not kept")
	}

	third := newKeeper(t, c, &others{silent: true})
	if err := third.work(context.Background()); err == nil || !strings.Contains(err.Error(), "gcontrol peer list") {
		t.Errorf("a controller does not answer: %v", err)
	}
	third.others = &others{}
	mustWork(t, third)
	if rows := dump(t, third); len(rows) != 3 || third.Through() != first.Through() {
		t.Errorf("%d rows through %d", len(rows), third.Through())
	}
}

// TestTornPage: a damaged page that nobody writes to is found by who reads it. Then the
// database is copied from another one; where there is none, the rest stays readable.
func TestTornPage(t *testing.T) {
	first, second := gapIsCopied(t, "")
	second.close()
	text, err := os.ReadFile(second.options.Path)
	if err != nil {
		t.Fatal(err)
	}
	// The page of a run in the middle, as a leaf of the table of runs.
	middle := dump(t, first)[20].Run
	at := bytes.Index(text, middle) / 4096 * 4096
	if at <= 0 {
		t.Fatal("the run is in no page")
	}
	copy(text[at:], bytes.Repeat([]byte{0xa5}, 4096))
	if err := os.WriteFile(second.options.Path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	read := func() error {
		_, err := second.Read(context.Background(), Choice{}, second.Through(), runs(func(*pb.PastRun) {}))
		return err
	}
	from := second.others
	second.others = &others{}
	mustWork(t, second)
	if err := read(); !errors.Is(err, ErrDamaged) {
		t.Fatalf("the damage was read as %v", err)
	}
	mustWork(t, second) // it is alone, and goes on
	second.others = from
	if err := second.work(context.Background()); !errors.Is(err, ErrDamaged) {
		t.Fatalf("it goes on with a damaged database: %v", err)
	}
	second.setAside()
	mustWork(t, second)
	if err := read(); err != nil {
		t.Error(err)
	}
	wantEqual(t, first, second)
}

// gapIsCopied: what the outbox does not have any more comes from another controller.
func gapIsCopied(t *testing.T, url string) (first, second *Keeper) {
	c := newCluster(t)
	first = newKeeper(t, c, nil)
	c.end(47)
	mustWork(t, first)
	c.apply(state.TrimHistory{Through: first.Through()})
	c.end(3)
	mustWork(t, first)
	if runs, _, _ := c.View().HistorySize(); runs != 3 {
		t.Fatalf("%d runs are left in the outbox", runs)
	}
	second = newKeeperOf(t, c, &others{keepers: []*Keeper{first}}, url)
	mustWork(t, second)
	wantEqual(t, first, second)
	return first, second
}

func wantEqual(t *testing.T, first, second *Keeper) {
	t.Helper()
	if diff := cmp.Diff(dump(t, first), dump(t, second)); diff != "" || first.Through() != second.Through() {
		t.Errorf("through %d and %d: %.2000s", first.Through(), second.Through(), diff)
	}
}

// TestOldRunsAreArchived: what is purged is in the archive, whole.
func TestOldRunsAreArchived(t *testing.T) { oldRunsAreArchived(t, "") }

func oldRunsAreArchived(t *testing.T, url string) {
	c := newCluster(t)
	k := newKeeperOf(t, c, nil, url)
	c.end(10)
	mustWork(t, k)
	k.options.Keep, k.options.Archive = time.Hour, filepath.Join(t.TempDir(), "old")
	mustWork(t, k)
	if rows := dump(t, k); len(rows) != 0 {
		t.Errorf("%d runs from 1970 are left", len(rows))
	}
	files, _ := filepath.Glob(filepath.Join(k.options.Archive, "*.jsonl.gz"))
	if len(files) != 1 {
		t.Fatalf("%q", files)
	}
	file, err := os.Open(files[0])
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	for _, line := range lines {
		if !json.Valid(line) || !bytes.Contains(line, []byte("CANCELLED")) {
			t.Errorf("%s", line)
		}
	}
	if len(lines) != 10 {
		t.Errorf("%d lines", len(lines))
	}
	// A purged run does not come again, and a new one does.
	c.end(1)
	k.index, k.purged = 0, time.Now()
	mustWork(t, k)
	if rows := dump(t, k); len(rows) != 1 {
		t.Errorf("%d rows", len(rows))
	}
}

// TestNewerDatabaseIsLeftAlone: a downgrade neither reads nor replaces it.
func TestNewerDatabaseIsLeftAlone(t *testing.T) {
	c := newCluster(t)
	k := newKeeper(t, c, nil)
	c.end(1)
	mustWork(t, k)
	if _, err := sqlite(k).write.Exec(fmt.Sprint("PRAGMA user_version = ", schemaVersion+1)); err != nil {
		t.Fatal(err)
	}
	k.close()
	c.end(1)
	if err := k.work(context.Background()); err == nil || !strings.Contains(err.Error(), "upgrade this controller") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(k.options.Path); err != nil {
		t.Error(err)
	}
}

// TestQuestionsUseAnIndex: what users ask for does not read all there is.
func TestQuestionsUseAnIndex(t *testing.T) {
	c := newCluster(t)
	k := newKeeper(t, c, nil)
	mustWork(t, k)
	for what, choice := range map[string]Choice{
		"a job": {Jobs: []uint32{5}}, "one's own": {UIDs: []uint32{5}, SinceMS: 5}, "a user's": {Users: []string{"u"}, SinceMS: 5, UntilMS: 7},
		"an account's": {Accounts: []string{"a"}, SinceMS: 5}, "the latest": {SinceMS: 5}, "events": {Events: true},
	} {
		text, arguments := choice.question(1 << 40)
		if plan := planOf(t, k, text, arguments); strings.Contains(plan, "SCAN runs") || strings.Contains(plan, "(rowid<?)") {
			t.Errorf("%s: %s", what, plan)
		}
	}
}

// planOf is how SQLite answers a question, a line for each step.
func planOf(t *testing.T, k *Keeper, question string, arguments []any) string {
	t.Helper()
	rows, err := sqlite(k).read.Query("EXPLAIN QUERY PLAN "+question, arguments...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var steps []string
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		steps = append(steps, detail)
	}
	return strings.Join(steps, "\n")
}
