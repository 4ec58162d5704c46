package boottime

import (
	"testing"
	"time"
)

func TestTimer(t *testing.T) {
	timer, err := NewTimer()
	if err != nil {
		t.Fatal(err)
	}
	defer timer.Close()
	for name, at := range map[string]time.Duration{"past": Now() - time.Hour, "never was": -time.Hour, "soon": Now() + 30*time.Millisecond} {
		if err := timer.Set(at); err != nil {
			t.Fatal(err)
		}
		select {
		case <-timer.C:
			if Now() < at {
				t.Errorf("%s: fired %v early", name, at-Now())
			}
		case <-time.After(2 * time.Minute):
			t.Errorf("%s: did not fire", name)
		}
	}
	if err := timer.Set(Now() + time.Hour); err != nil {
		t.Fatal(err)
	}
	select {
	case <-timer.C:
		t.Error("fired an hour early")
	case <-time.After(50 * time.Millisecond):
	}
	if err := timer.Set(Now() + time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := timer.Set(0); err != nil {
		t.Fatal(err)
	}
	select {
	case <-timer.C:
		t.Error("fired although it was unset")
	case <-time.After(100 * time.Millisecond):
	}
}
