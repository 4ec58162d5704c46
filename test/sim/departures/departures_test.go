package departures

import (
	"errors"
	"reflect"
	"testing"
	"time"
)

const (
	named   = "0,add,a\n0,add,b\n60000,remove,a\n120000,add,c\n180000,remove,b\n180000,add,a\n240000,remove,c\n"
	counted = "2021-12-10, 13:00:00, 3\n2021-12-10, 13:01:00, 1\n2021-12-10, 13:00:30, 1\n2021-12-10, 13:02:00, 2\n"
)

func TestRead(t *testing.T) {
	for text, want := range map[string]Trace{
		named:   {Name: "x", length: 5 * time.Minute, most: 2},
		counted: {Name: "x", length: 3 * time.Minute, most: 3},
	} {
		trace, err := Read("x", []byte(text))
		if err != nil || trace.length != want.length || trace.most != want.most {
			t.Errorf("%q: %+v, %v; want %+v", text, trace, err, want)
		}
	}
	for _, text := range []string{"", "1,2\n", "x,add,a\n", "-1,add,a\n", "2021-12-10, 25:00:00, 3\n", "2021-12-10, 13:00:00, -3\n"} {
		if trace, err := Read("x", []byte(text)); !errors.Is(err, ErrFormat) {
			t.Errorf("%q: %+v, %v", text, trace, err)
		}
	}
}

// TestAbsences: with as many nodes as the trace has, each that is away is so exactly when
// one of the trace's is, whatever part of it the day begins with.
func TestAbsences(t *testing.T) {
	for _, text := range []string{named, counted} {
		trace, err := Read("x", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		days := map[string]bool{}
		for seed := range uint64(20) {
			for _, nodes := range []int{1, trace.most, 9} {
				checkAbsences(t, trace, seed, nodes)
			}
			all := trace.Absences(seed, trace.most, time.Hour, 2*time.Hour)
			if again := trace.Absences(seed, trace.most, time.Hour, 2*time.Hour); !reflect.DeepEqual(all, again) {
				t.Fatalf("seed %d: one seed, two days: %v and %v", seed, all, again)
			}
			if len(all) > 0 {
				days[all[0].From.String()] = true
			}
		}
		if len(days) < 10 {
			t.Errorf("all days are the same: %v", days)
		}
	}
}

func checkAbsences(t *testing.T, trace *Trace, seed uint64, nodes int) {
	t.Helper()
	from, until := time.Hour, 2*time.Hour
	till := make([]time.Duration, nodes)
	for _, a := range trace.Absences(seed, nodes, from, until) {
		if a.From < from || a.Till > until || a.From >= a.Till || a.From < till[a.Node] {
			t.Fatalf("seed %d, %d nodes: node %d is away from %v to %v, and was until %v", seed, nodes, a.Node, a.From, a.Till, till[a.Node])
		}
		till[a.Node] = a.Till
	}
}

// TestData reads what is in the shared data.
func TestData(t *testing.T) {
	const folder = "../../../../shared/data/departures"
	traces, err := ReadAll(folder)
	if err != nil {
		t.Skip("needs the traces of departures in ../shared/data: without them only made-up ones are read")
	}
	for _, trace := range traces {
		if trace.most < 20 || trace.length < 8*time.Hour {
			t.Errorf("%s: %d nodes at once in %v", trace.Name, trace.most, trace.length)
		}
		leave := 0
		for seed := range uint64(20) {
			checkAbsences(t, trace, seed, 10)
			leave += len(trace.Absences(seed, 10, 10*time.Minute, 24*time.Hour))
		}
		if leave < 20*10 {
			t.Errorf("%s: in 20 days 10 nodes leave %d times", trace.Name, leave)
		}
	}
}
