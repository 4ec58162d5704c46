package lease

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

const s = time.Second

// fenced is an allocation ordered at 100 s, with a lease to 130 s and a margin of 10.
func fenced() Lease {
	l := Lease{Fence: true, Begun: 100 * s}.Granted(Grant{Sent: 100*s + 1, Length: 30 * s, Margin: 10 * s, Named: true})
	l.Runs = true
	return l
}

func suspended(l Lease) Lease {
	l.Suspended = true
	return l
}

func TestAt(t *testing.T) {
	frozen := fenced()
	frozen.Runs = false
	renewed := Grant{Sent: 150 * s, Length: 30 * s, Margin: 10 * s, Named: true}
	left := Grant{Sent: 150 * s, Length: 30 * s}
	for _, row := range []struct {
		name string
		is   Lease
		now  time.Duration
		want Action
	}{
		{"run-on needs no lease to start", Lease{}, 1000 * s, Thaw},
		{"run-on is never removed by a lease", Lease{Runs: true}.Granted(left), 1000 * s, Run},
		{"run-on runs past the end", Lease{Runs: true}.Granted(Grant{Sent: 1, Length: 1, Named: true}), 1000 * s, Run},
		{"an allocation waits for its first lease", Lease{Fence: true, Begun: 100 * s}, 100 * s, Nothing},
		{"and is not removed for having none", Lease{Fence: true, Begun: 100 * s}, 1000 * s, Nothing},
		{"nor for one that came too late", Lease{Fence: true}.Granted(Grant{Sent: 1, Length: 1, Named: true}), 1000 * s, Nothing},
		{"with its first lease it starts", Lease{Fence: true}.Granted(Grant{Sent: s, Length: s, Named: true}), 2*s - 1, Thaw},
		{"within its lease", fenced(), 129 * s, Run},
		{"at the end to the nanosecond", fenced(), 130*s + 1, Freeze},
		{"freezing is tried again", fenced(), 134 * s, Freeze},
		{"until half of the margin is left", fenced(), 135*s + 1, Remove},
		{"frozen it stays", frozen, 1000 * s, Nothing},
		{"frozen and named again", frozen.Granted(renewed), 151 * s, Thaw},
		{"named again, but that has ended too", frozen.Granted(renewed), 181 * s, Nothing},
		{"frozen and left out", frozen.Granted(left), 151 * s, Remove},
		{"left out within its lease", fenced().Granted(Grant{Sent: 110 * s}), 111 * s, Remove},
		{"left out, and named by an older answer", frozen.Granted(left).Granted(renewed), 151 * s, Remove},
		{"left out by an answer that could not know of it", fenced().Granted(Grant{Sent: 99 * s}), 111 * s, Run},
		{"a late answer does not shorten", fenced().Granted(Grant{Sent: 90 * s, Length: s, Named: true}), 120 * s, Run},
		{"suspended within its lease", suspended(fenced()), 120 * s, Freeze},
		{"suspended, it is frozen", suspended(frozen.Granted(renewed)), 151 * s, Nothing},
		{"suspended when its lease ends", suspended(fenced()), 131 * s, Freeze},
		{"suspended, and not frozen in time after that", suspended(fenced()), 136 * s, Remove},
		{"suspended and left out", suspended(frozen.Granted(left)), 151 * s, Remove},
		{"resumed without a lease", frozen, 151 * s, Nothing},
		{"run-on is suspended", suspended(Lease{Runs: true}), 1000 * s, Freeze},
		{"run-on that is suspended is frozen", suspended(Lease{}), 1000 * s, Nothing},
		{"a shorter lease neither", fenced().Granted(Grant{Sent: 101 * s, Length: s, Named: true}), 120 * s, Run},
	} {
		if got := row.is.At(row.now); got != row.want {
			t.Errorf("%s: %v, want %v", row.name, got, row.want)
		}
	}
}

func TestNext(t *testing.T) {
	l := fenced()
	if left, ok := l.Next(120 * s); !ok || left != 10*s+1 {
		t.Errorf("within the lease: %v %v", left, ok)
	}
	if left, ok := l.Next(131 * s); !ok || left != 4*s+1 { // the limit is at 135
		t.Errorf("while it is frozen: %v %v", left, ok)
	}
	l.Runs = false
	if _, ok := l.Next(131 * s); ok {
		t.Error("a frozen allocation waits for nothing but an answer")
	}
	if _, ok := (Lease{}).Next(0); ok {
		t.Error("an allocation under run-on waits for nothing")
	}
}

// TestNeverRunsWhereItMayNot drives one allocation through anything, with
// controllers that release it one lease and a margin after the last request
// that they answered, and a kernel that often does not freeze it.
func TestNeverRunsWhereItMayNot(t *testing.T) {
	reached := map[Action]int{}
	for seed := range uint64(2000) {
		if err := walk(rand.New(rand.NewPCG(seed, 4)), reached); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	for action := Run; action <= Remove; action++ {
		if reached[action] == 0 {
			t.Errorf("no walk came to %v", action)
		}
	}
}

// world is one allocation and what the controllers hold of it.
type world struct {
	now      time.Duration
	alloc    Lease
	removed  bool // nothing of it is left
	released bool // the controllers may have started it elsewhere
	answered time.Duration
	answers  []Grant // under way
}

func walk(random *rand.Rand, reached map[Action]int) error {
	length := time.Duration(1+random.IntN(30)) * s
	margin := time.Duration(2+random.IntN(10)) * s
	w := world{now: 1000 * s, answered: 1000 * s}
	w.alloc = Lease{Fence: true, Begun: w.now}
	for range 200 {
		until := w.now + time.Duration(1+random.Int64N(int64(length/2)))
		for next, ok := w.alloc.Next(w.now); ok && !w.removed && w.now+next < until; next, ok = w.alloc.Next(w.now) {
			if next <= 0 {
				return fmt.Errorf("at %v something was due %v ago: %+v", w.now, -next, w.alloc)
			}
			w.now += next
			if err := w.act(random, reached); err != nil {
				return err
			}
		}
		w.now = until
		switch random.IntN(4) {
		case 0: // a request that was sent a while ago arrives, and is answered
			w.answered = w.now
			sent := w.now - time.Duration(random.Int64N(int64(length)))
			w.answers = append(w.answers, Grant{Sent: sent, Length: length, Margin: margin, Named: !w.released})
		case 1, 2: // any answer arrives, perhaps again
			if len(w.answers) > 0 {
				w.alloc = w.alloc.Granted(w.answers[random.IntN(len(w.answers))])
			}
		case 3:
			w.released = w.released || w.now > w.answered+length+margin
		}
		if err := w.act(random, reached); err != nil {
			return err
		}
	}
	return nil
}

// act is the supervisor, on time.
func (w *world) act(random *rand.Rand, reached map[Action]int) error {
	action := w.alloc.At(w.now)
	reached[action]++
	switch action {
	case Run:
	case Thaw:
		w.alloc.Runs = true
	case Freeze:
		if random.IntN(3) == 0 {
			w.alloc.Runs = false
		}
	case Remove:
		w.removed = true
	}
	runs := w.alloc.Runs && !w.removed
	switch {
	case runs && w.released:
		return fmt.Errorf("runs at %v though it was released: %+v", w.now, w.alloc)
	case runs && w.now >= w.alloc.Limit():
		return fmt.Errorf("runs at %v, beyond the limit %v", w.now, w.alloc.Limit())
	}
	return nil
}
