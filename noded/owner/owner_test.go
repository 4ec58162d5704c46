package owner

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

var rules = &pb.OwnerRules{
	Owner: "chem", Accounts: []string{"chem", "chem-ai"}, People: []string{"bob", "cora"},
	Triggers: []pb.ReclaimTrigger{login}, NoticeMs: 5000, QuietS: 60,
}

const login, gpuProcess = pb.ReclaimTrigger_RECLAIM_TRIGGER_LOGIN, pb.ReclaimTrigger_RECLAIM_TRIGGER_GPU_PROCESS

func at(seconds int) Time {
	return Time{Boot: time.Duration(seconds) * time.Second, WallMS: 1_000_000_000 + int64(seconds)*1000}
}

func owned(t *testing.T) *Owner {
	t.Helper()
	o := New(nil, "boot", at(0))
	if !o.SetRules(rules, at(0)) || o.SetRules(rules, at(0)) {
		t.Fatal("rules are new once")
	}
	return o
}

func TestGuest(t *testing.T) {
	o := owned(t)
	for account, guest := range map[string]bool{"chem": false, "chem-ai": false, "bio": true, "": true} {
		if got := o.Guest(&pb.StartAlloc{Account: account}); got != guest {
			t.Errorf("account %q: guest %v", account, got)
		}
	}
	if !New(nil, "b", at(0)).Guest(&pb.StartAlloc{Account: "chem"}) {
		t.Error("on a node without an owner somebody is no guest")
	}
}

func TestMay(t *testing.T) {
	o := owned(t)
	for _, row := range []struct {
		uid  uint32
		name string
		may  bool
	}{{0, "root", true}, {0, "", true}, {7, "bob", true}, {7, "cora", true}, {7, "alice", false}, {7, "", false}, {7, "root", false}} {
		if err := o.May(row.uid, row.name); (err == nil) != row.may || err != nil && !errors.Is(err, ErrMayNot) {
			t.Errorf("%d %q: %v", row.uid, row.name, err)
		}
	}
	if nobodys := New(nil, "b", at(0)); nobodys.May(7, "bob") == nil || nobodys.May(0, "root") != nil {
		t.Error("a node without an owner is root's")
	}
}

func TestCheck(t *testing.T) {
	o := owned(t)
	for _, r := range []Request{
		{Within: time.Millisecond}, {Within: 25 * time.Hour}, {For: -1}, {For: 400 * 24 * time.Hour}, {For: time.Second, Within: time.Minute}, {For: 5 * time.Second},
	} {
		if err := o.Reclaim(r, at(1)); !errors.Is(err, ErrBad) || o.Held() {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

// TestDeadline: the deadline can only come nearer, and each change is told under a higher
// number.
func TestDeadline(t *testing.T) {
	o := owned(t)
	number := o.Number()
	for _, row := range []struct {
		at     int
		within time.Duration
		want   time.Duration
	}{{10, 30 * time.Second, 40 * time.Second}, {11, time.Minute, 40 * time.Second}, {12, 2 * time.Second, 14 * time.Second}} {
		if err := o.Reclaim(Request{By: "bob", Within: row.within}, at(row.at)); err != nil {
			t.Fatal(err)
		}
		if o.Deadline() != row.want || o.Number() <= number {
			t.Errorf("at %d: by %v, number %d after %d", row.at, o.Deadline(), o.Number(), number)
		}
		number = o.Number()
	}
	if word := o.Word(true, at(13)); !word.Held || word.WithinMs != 1000 || word.Number != number {
		t.Errorf("a guest is told %v", word)
	}
	if word := o.Word(false, at(13)); word.Held || word.WithinMs != 0 {
		t.Errorf("the owner's own job is told %v", word)
	}
	if word := o.Word(true, at(99)); word.WithinMs != 1 {
		t.Errorf("after the deadline a guest is told %v", word)
	}
}

// TestRestart: a restart of the daemon, one of the machine and a clock that is set end no
// hold early, nor do they make one longer within a boot.
func TestRestart(t *testing.T) {
	for name, row := range map[string]struct {
		boot   string
		wallMS int64         // when it is back
		boots  time.Duration // boot time then
		held   bool
	}{
		"the daemon":                       {"boot", at(100).WallMS, 100 * time.Second, true},
		"the daemon, and its time is over": {"boot", at(4000).WallMS, 4000 * time.Second, false},
		"the clock was set back":           {"boot", 5, 4000 * time.Second, false},
		"the clock was set forward":        {"boot", at(9_000_000).WallMS, 100 * time.Second, true},
		"the machine":                      {"other", at(100).WallMS, 3 * time.Second, true},
		"the machine, its time is over":    {"other", at(4000).WallMS, 3 * time.Second, false},
	} {
		o := owned(t)
		if err := o.Reclaim(Request{By: "bob", For: time.Hour}, at(10)); err != nil {
			t.Fatal(err)
		}
		now := Time{Boot: row.boots, WallMS: row.wallMS}
		again := New(o.Ledger(), row.boot, now)
		again.Tick(now)
		if again.Held() != row.held {
			t.Errorf("%s: held %v", name, again.Held())
		}
		if row.boot == "other" && again.Deadline() > now.Boot {
			t.Errorf("%s: the deadline is %v after it", name, again.Deadline()-now.Boot)
		}
		if again.May(7, "bob") != nil || again.Guest(&pb.StartAlloc{Account: "chem"}) {
			t.Errorf("%s: the rules are forgotten", name)
		}
		before := again.Number()
		again.Release(now)
		if again.Number() <= before {
			t.Errorf("%s: number %d after %d", name, again.Number(), before)
		}
	}
}

// TestTriggers: what is seen on the node places a hold and renews it; quiet ends it; what
// somebody has ended comes back only when it was quiet in between.
func TestTriggers(t *testing.T) {
	o := owned(t)
	seen := func(second int, trigger pb.ReclaimTrigger, there bool) bool {
		return o.Look(Sight{Trigger: trigger, Seen: there, By: "cora", Detail: "tty1"}, at(second))
	}
	if seen(1, gpuProcess, true) || o.Held() {
		t.Error("a trigger that the owner does not want has an effect")
	}
	if !seen(2, login, true) || !o.Held() || o.Deadline() != 7*time.Second {
		t.Errorf("a login has none: by %v", o.Deadline())
	}
	if seen(3, login, true) || seen(10, login, false) || seen(69, login, false) || !o.Held() {
		t.Error("it ends too early")
	}
	if seen(69, login, true); seen(70, login, false) || seen(129, login, false) {
		t.Error("it was seen in between, and ends too early")
	}
	if !seen(130, login, false) || o.Held() {
		t.Error("quiet does not end it")
	}
	seen(140, login, true)
	if o.Drop(o.Number()-1, at(141)) || !o.Drop(o.Number(), at(142)) || o.Held() {
		t.Error("what ends at a controller is what it knew")
	}
	if o = New(o.Ledger(), "boot", at(143)); seen(143, login, true) || o.Held() {
		t.Error("it comes back by itself")
	}
	seen(144, login, false)
	if !seen(145, login, true) || !o.Held() {
		t.Error("a new login has no effect")
	}
	if !o.SetRules(&pb.OwnerRules{Owner: "chem"}, at(146)) || !seen(147, login, true) || o.Held() {
		t.Error("the owner no longer wants it, and it holds")
	}
}

// TestTold: what controllers are told.
func TestTold(t *testing.T) {
	o := New(nil, "boot", at(0))
	if o.Tell(at(0)) != nil {
		t.Error("nothing was said here, and something is told")
	}
	o.SetRules(rules, at(0))
	if err := o.Reclaim(Request{By: "bob", Within: 4 * time.Second, For: time.Minute, Kill: true}, at(10)); err != nil {
		t.Fatal(err)
	}
	o.Look(Sight{Trigger: login, Seen: true, By: "cora"}, at(11))
	said := o.Tell(at(12))
	want := []*pb.NodeHold{
		{Trigger: pb.ReclaimTrigger_RECLAIM_TRIGGER_LOCAL, By: "bob", Kill: true, WithinMs: 2000, LeftMs: 58_000, Number: said.GetHolds()[0].Number},
		{Trigger: login, By: "cora", WithinMs: 2000, Number: said.Number},
	}
	if len(said.Holds) != 2 || !proto.Equal(said.Holds[0], want[0]) || !proto.Equal(said.Holds[1], want[1]) || said.Released != 0 {
		t.Errorf("told %v, want %v", said, want)
	}
	o.Release(at(20))
	if said = o.Tell(at(23)); len(said.Holds) != 0 || said.Released != said.Number || said.ReleasedAgoMs != 3000 {
		t.Errorf("released: told %v", said)
	}
	if o.Raise(o.Number(), at(24)) || !o.Raise(o.Number()+5, at(24)) || o.Tell(at(24)).Number <= said.Number+5 {
		t.Errorf("a supervisor has heard %d, and the next word is %d", said.Number+5, o.Number())
	}
}

// TestOwnerWalk: whatever is said, seen and restarted, numbers rise, the hold of a command
// ends only by its time or by a person, and what is on the disk is what holds.
func TestOwnerWalk(t *testing.T) {
	held, dropped, ended := 0, 0, 0
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 1))
		o, now := owned(t), at(0)
		number, until := o.Number(), time.Duration(0) // of the command's hold; 0 = none, 1 = without end
		for range 120 {
			step := time.Duration(rng.IntN(20_000)) * time.Millisecond
			now.Boot, now.WallMS = now.Boot+step, now.WallMS+step.Milliseconds()
			changed := true
			switch rng.IntN(8) {
			case 0:
				r := Request{By: "bob", Within: time.Duration(1+rng.IntN(5)) * time.Second, For: time.Duration(rng.IntN(2)*(10+rng.IntN(90))) * time.Second}
				if o.Reclaim(r, now) == nil {
					if until = 1; r.For != 0 {
						until = now.Boot + r.For
					}
				} else {
					changed = false
				}
			case 1:
				o.Release(now)
				until = 0
				dropped++
			case 2:
				through := number - uint64(rng.IntN(3))
				if changed = o.Drop(through, now); changed {
					if _, is := o.find(pb.ReclaimTrigger_RECLAIM_TRIGGER_LOCAL); !is {
						until = 0
					}
				}
			case 3:
				now.WallMS += int64(rng.IntN(7200_000)) - 3600_000 // somebody sets the clock
				changed = false
			case 4:
				o, changed = New(o.Ledger(), "boot", now), false
			default:
				changed = o.Look(Sight{Trigger: login, Seen: rng.IntN(2) == 0}, now) && false
			}
			if o.Tick(now) {
				ended++
			}
			if changed && o.Number() <= number {
				t.Fatalf("seed %d: number %d after %d", seed, o.Number(), number)
			}
			number = o.Number()
			if until > 1 && now.Boot >= until {
				until = 0
			}
			if _, is := o.find(pb.ReclaimTrigger_RECLAIM_TRIGGER_LOCAL); is != (until != 0) {
				t.Fatalf("seed %d at %v: the command holds %v, and its end is %v", seed, now.Boot, is, until)
			}
			if o.Held() {
				held++
			}
			if o.Held() && (o.Message().DeadlineMs < o.Message().AtMs || len(o.Message().Holds) == 0) {
				t.Fatalf("seed %d: %v", seed, o.Message())
			}
		}
	}
	if held < 5000 || dropped < 1000 || ended < 500 {
		t.Errorf("hardly anything happens: held %d times, %d dropped, %d ended", held, dropped, ended)
	}
}
