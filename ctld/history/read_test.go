package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// readRows are runs of which some are large.
func readRows(t *testing.T) []Row {
	t.Helper()
	rows := make([]Row, 300)
	for i := range rows {
		run := &pb.PastRun{RanMs: int64(i), Job: &pb.Job{Id: &pb.JobId{Job: uint32(i + 1)}, Spec: &pb.JobSpec{Name: fmt.Sprint("job", i)}}}
		if i%100 == 99 {
			run.Job.Spec.Comment = strings.Repeat("x", 64<<10+i)
		}
		raw, err := proto.Marshal(run)
		if err != nil {
			t.Fatal(err)
		}
		rows[i] = Row{At: state.Position(i + 1), Run: raw}
	}
	return rows
}

// runs reads each run that is found.
func runs(use func(*pb.PastRun)) func(*Found) error {
	return func(found *Found) error {
		run, err := found.Run()
		if err == nil {
			use(run)
		}
		return err
	}
}

// TestReadGivesEachRunOnce: in order, and as it was put; whoever stops it has had exactly
// what came before, as has one who meets a damaged run. No connection stays in use.
func TestReadGivesEachRunOnce(t *testing.T) {
	database, err := OpenSQLite(filepath.Join(t.TempDir(), "history.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer database.Close()
	rows := readRows(t)
	if err := database.Put(context.Background(), 0, rows[len(rows)-1].At, rows); err != nil {
		t.Fatal(err)
	}
	read := func(ctx context.Context, stop func(seen int) error) (int, error) {
		t.Helper()
		seen := 0
		err := database.Read(ctx, Choice{}, 1<<62, func(found *Found) error {
			run, err := found.Run()
			if err != nil {
				return err
			}
			want := new(pb.PastRun)
			if err := proto.Unmarshal(rows[seen].Run, want); err != nil {
				t.Fatal(err)
			}
			if found.At != rows[seen].At || found.Job != want.Job.Id.Job || !proto.Equal(run, want) || !bytes.Equal(found.Encoded(), rows[seen].Run) {
				t.Fatalf("run %d at %d is %v", seen, found.At, run.GetJob().GetId())
			}
			seen++
			return stop(seen)
		})
		if used := database.read.Stats().InUse; used != 0 {
			t.Errorf("%d connections are in use after %d runs", used, seen)
		}
		return seen, err
	}
	all := func(int) error { return nil }
	if seen, err := read(context.Background(), all); seen != len(rows) || err != nil {
		t.Errorf("%d of %d runs, and %v", seen, len(rows), err)
	}
	enough := errors.New("enough")
	for _, most := range []int{1, 150, len(rows)} {
		seen, err := read(context.Background(), func(seen int) error {
			if seen == most {
				return enough
			}
			return nil
		})
		if seen != most || !errors.Is(err, enough) {
			t.Errorf("stopped at %d: %d runs, and %v", most, seen, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	if _, err := read(ctx, func(int) error { cancel(); return ctx.Err() }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	const damaged = 131
	if _, err := database.write.Exec("UPDATE runs SET run = x'ff' WHERE at = ?", int64(rows[damaged].At)); err != nil {
		t.Fatal(err)
	}
	if seen, err := read(context.Background(), all); seen != damaged || !errors.Is(err, ErrDamaged) {
		t.Errorf("behind a damaged run: %d runs, and %v", seen, err)
	}
}

func TestEventsAreApart(t *testing.T) { eventsAreApart(t, "") }

// eventsAreApart: who asks for runs gets no events of nodes, and the other way round.
func eventsAreApart(t *testing.T, url string) {
	k := newKeeperOf(t, newCluster(t), nil, url)
	mustWork(t, k)
	var rows []Row
	for i, run := range []*pb.PastRun{
		{Event: &pb.NodeEvent{Node: "n1", StartMs: 1000, EndMs: 2000}},
		{Job: &pb.Job{Id: &pb.JobId{Job: 7}, EligibleMs: 1000, EndMs: 2000}},
		{Event: &pb.NodeEvent{Node: "n2", StartMs: 3000, EndMs: 5000}},
	} {
		raw, err := proto.Marshal(run)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, Row{At: state.Position(i + 1), Run: raw})
	}
	if err := k.database.Put(context.Background(), 0, 3, rows); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		choice Choice
		want   string
	}{
		{Choice{}, "2"}, {Choice{Jobs: []uint32{0, 7}}, "2"}, {Choice{SinceMS: 1}, "2"},
		{Choice{Events: true}, "1 3"}, {Choice{Events: true, SinceMS: 2001}, "3"}, {Choice{Events: true, UntilMS: 3000}, "1"},
	} {
		var got []string
		err := k.database.Read(context.Background(), c.choice, 3, func(found *Found) error {
			run, err := found.Run()
			if err != nil {
				return err
			}
			if (run.GetEvent() != nil) != c.choice.Events {
				t.Errorf("%+v: %v", c.choice, run)
			}
			got = append(got, fmt.Sprint(found.At))
			return nil
		})
		if text := strings.Join(got, " "); err != nil || text != c.want {
			t.Errorf("%+v: rows %s, %v; want %s", c.choice, text, err, c.want)
		}
	}
}
