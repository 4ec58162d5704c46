package tally

import (
	"testing"
	"time"
)

func TestRequests(t *testing.T) {
	var r Requests
	one := uint32(7)
	r.Begin()
	r.Begin()
	r.End("Submit", &one, time.Second)
	r.End("Session", nil, time.Second)
	for uid := range uint32(2 * MaxUsers) {
		r.Begin()
		r.End("Submit", &uid, time.Millisecond)
	}
	r.Begin()
	got := r.Counts()
	if got.Now != 1 || got.ByMethod["Submit"].Times != 2*MaxUsers+1 || got.ByUser[7].Times != 2 || got.ByUser[7].Took != time.Second+time.Millisecond {
		t.Errorf("%d under way, %+v, %+v", got.Now, got.ByMethod, got.ByUser[7])
	}
	if len(got.ByUser) != MaxUsers || got.Others.Times != MaxUsers {
		t.Errorf("%d users, %+v", len(got.ByUser), got.Others)
	}
	r.Reset()
	if got := r.Counts(); got.Now != 1 || len(got.ByMethod)+len(got.ByUser) != 0 || got.Others.Times != 0 {
		t.Errorf("after the reset: %+v", got)
	}
}

func TestWork(t *testing.T) {
	start := time.Unix(100, 0)
	w := NewWork(start)
	w.Pass(start, 3*time.Millisecond, 10)
	w.Pass(start.Add(time.Second), time.Millisecond, 4)
	w.Add(Jobs{Submitted: 3, Backfilled: 2})
	want := Passes{Count: 2, Last: time.Millisecond, Max: 3 * time.Millisecond, Took: 4 * time.Millisecond, LastAt: start.Add(time.Second), Depth: 4, Depths: 14}
	if got := w.Counts(); got.Passes != want || got.Jobs.Submitted != 3 || got.Since != start {
		t.Errorf("%+v", got)
	}
	w.Reset(start.Add(time.Minute))
	w.Add(Jobs{Backfilled: 1})
	if got := w.Counts(); got.Passes.Count != 0 || got.Jobs != (Jobs{Backfilled: 1}) || got.Backfilled != 3 || got.Since != start.Add(time.Minute) {
		t.Errorf("after the reset: %+v", got)
	}
}
