package leader

import (
	"context"
	"math/rand"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// virtual is a leader whose clock the test sets, with one node, n1.
type virtual struct {
	t *testing.T
	l *Leader
	b *book
}

func beginAt(t *testing.T, at string) *virtual {
	l, b := begin(t)
	v := &virtual{t, l, b}
	v.set(at)
	connect(t, l, b, "n1")
	return v
}

// set is the time of clock and log, in UTC.
func (v *virtual) set(at string) {
	v.t.Helper()
	moment, err := time.Parse("2006-01-02 15:04:05", at)
	if err != nil {
		v.t.Fatal(err)
	}
	v.b.skew = time.Until(moment)
}

func (v *virtual) now() time.Time { return time.Now().Add(v.b.skew) }

func (v *virtual) lend(hours, zone string, notice time.Duration) {
	v.t.Helper()
	v.b.must(v.t, state.SetLending{
		Names: []string{"n1"}, Privileged: true, Settings: []string{"hours", "time_zone", "notice_ms"},
		Lending: state.Lending{Hours: hours, TimeZone: zone, NoticeMS: uint32(notice.Milliseconds())},
	})
}

// held makes a pass at a time, and is the hold of the calendar after that; nil = none.
func (v *virtual) held(at string) *state.Hold {
	v.t.Helper()
	v.set(at)
	v.l.Plan(context.Background(), v.now(), new(Memo))
	node, _ := v.b.View().Node("n1")
	return node.Reclaim.Held(pb.ReclaimTrigger_RECLAIM_TRIGGER_HOURS)
}

// until is when a hold ends, in UTC; "" = there is no hold.
func until(hold *state.Hold) string {
	switch {
	case hold == nil:
		return ""
	case hold.UntilMS == 0:
		return "ever"
	}
	return time.UnixMilli(hold.UntilMS).UTC().Format("2006-01-02 15:04:05")
}

func (v *virtual) want(at, want string) {
	v.t.Helper()
	if got := until(v.held(at)); got != want {
		v.t.Errorf("at %s held until %q, want %q", at, got, want)
	}
}

func (v *virtual) deadline() string {
	node, _ := v.b.View().Node("n1")
	return time.UnixMilli(node.Reclaim.DeadlineMS).UTC().Format("2006-01-02 15:04:05")
}

// TestHours: notice is given before the hours end, the deadline is when they end, and the
// node is lent again when they begin. The schedule loop wakes for each of these.
func TestHours(t *testing.T) {
	v := beginAt(t, "2026-11-23 05:00:00") // a Monday
	v.lend("Mon-Fri 18:00-08:00; Sat-Sun", "UTC", 10*time.Minute)
	v.want("2026-11-27 20:00:00", "") // in time order: Friday night
	v.want("2026-11-29 23:49:58", "")
	if next := v.l.NextPass().UTC(); next.Format("02 15:04:05") != "29 23:50:00" {
		t.Errorf("the next pass is at %v", next)
	}
	v.want("2026-11-29 23:50:00", "2026-11-30 18:00:00")
	if got := v.deadline(); got != "2026-11-30 00:00:00" {
		t.Errorf("the deadline is %s", got)
	}
	v.want("2026-11-30 00:00:01", "2026-11-30 18:00:00")
	if next := v.l.NextPass().UTC(); next.Format("02 15:04:05") != "30 18:00:00" {
		t.Errorf("the next pass is at %v", next)
	}
	v.want("2026-11-30 18:00:00", "")
	v.want("2026-12-01 07:51:00", "2026-12-01 18:00:00") // a minute late: less notice, the same deadline
	if got := v.deadline(); got != "2026-12-01 08:00:00" {
		t.Errorf("the deadline is %s", got)
	}
}

// TestHoursChange: terms that are set while a node is closed, or that open it, count at
// once; so do those that are taken back.
func TestHoursChange(t *testing.T) {
	v := beginAt(t, "2026-11-23 12:00:00")
	v.lend("18:00-08:00", "UTC", time.Minute)
	v.want("2026-11-23 12:00:00", "2026-11-23 18:00:00")
	if got := v.deadline(); got[:16] != "2026-11-23 12:01" {
		t.Errorf("closed already, guests get the notice: %s", got)
	}
	v.lend("16:00-08:00", "UTC", time.Minute)
	v.want("2026-11-23 12:05:00", "2026-11-23 16:00:00")
	v.lend("12:00-08:00", "UTC", time.Minute)
	v.want("2026-11-23 12:06:00", "")
	v.lend("never", "UTC", time.Minute)
	v.want("2026-11-23 12:07:00", "ever")
	v.b.must(t, state.SetLending{Names: []string{"n1"}, Privileged: true, Reset: true})
	v.want("2026-11-23 12:08:00", "")
	v.lend("18:00-08:00", "Asia/Tokyo", time.Minute)
	v.want("2026-11-23 12:09:00", "") // 21:09 there
	v.want("2026-11-23 22:59:30", "2026-11-24 09:00:00")
}

// TestHoursDropped: whoever releases a node in closed hours has it lent until these are
// over; the next ones count again. A reclaim by command stays when the hours begin.
func TestHoursDropped(t *testing.T) {
	v := beginAt(t, "2026-11-23 12:00:00")
	v.lend("18:00-08:00", "UTC", time.Minute)
	v.want("2026-11-23 12:00:00", "2026-11-23 18:00:00")
	v.b.must(t, state.ReleaseNodes{Names: []string{"n1"}, Privileged: true})
	v.want("2026-11-23 12:30:00", "")
	v.want("2026-11-23 17:59:00", "")
	v.want("2026-11-24 07:59:30", "2026-11-24 18:00:00")
	v.b.must(t, state.ReclaimNodes{Names: []string{"n1"}, WithinMS: 1000, Privileged: true, User: "ada"})
	v.want("2026-11-24 18:00:00", "")
	if node, _ := v.b.View().Node("n1"); node.Reclaim == nil {
		t.Error("the owner's own reclaim is over with the closed hours")
	}
}

// TestHoursBroken: a pass that cannot commit is made again, and a clock that jumps, or a
// leader that was away, skips nothing that counts now.
func TestHoursBroken(t *testing.T) {
	v := beginAt(t, "2026-11-23 20:00:00")
	v.lend("18:00-08:00", "UTC", time.Minute)
	v.b.broken = true
	v.set("2026-11-24 07:59:30")
	if v.l.Plan(context.Background(), v.now(), new(Memo)) {
		t.Error("a pass that could not reclaim is repeated without a pause")
	}
	v.b.broken = false
	v.want("2026-11-27 09:00:00", "2026-11-27 18:00:00") // three days later
	v.want("2026-11-24 07:00:00", "2026-11-27 18:00:00") // a clock that is behind the log
	v.want("2026-11-27 19:00:00", "")
}

// TestHoursAtRandom: at any time, with terms that change, and leaders that look seldom, a
// node is held exactly when its calendar is closed, or will be before the notice is over.
func TestHoursAtRandom(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	v := beginAt(t, "2026-10-20 00:00:00") // clocks are set back in Berlin five days later
	moment, hours, zones := v.now(), []string{"18:00-08:00", "Mon-Fri 20:00-06:00; Sat-Sun", "never", "always", "Sun 02:10-02:20"}, []string{"UTC", "Europe/Berlin", "Pacific/Apia"}
	held, free := 0, 0
	for range 400 {
		moment = moment.Add(time.Duration(random.Intn(5*3600)) * time.Second)
		v.b.skew = time.Until(moment)
		if random.Intn(20) == 0 {
			v.lend(hours[random.Intn(len(hours))], zones[random.Intn(len(zones))], time.Duration(1+random.Intn(7200))*time.Second)
		}
		v.l.Plan(context.Background(), moment, new(Memo))
		node, _ := v.b.View().Node("n1")
		terms := node.Lending.Terms()
		week, _ := spec.ParseWeek(terms.Hours)
		zone, _ := time.LoadLocation(terms.TimeZone)
		open, changes := week.At(moment, zone)
		near := !changes.IsZero() && changes.Sub(moment).Abs() < 2*time.Hour+2*time.Second
		hold := node.Reclaim.Held(pb.ReclaimTrigger_RECLAIM_TRIGGER_HOURS)
		if !near && (hold == nil) != open {
			t.Fatalf("%v in %s at %v: open %v, held %+v", terms.Hours, terms.TimeZone, moment.In(zone), open, hold)
		}
		if hold == nil {
			free++
		} else {
			held++
		}
	}
	if held < 50 || free < 50 {
		t.Errorf("held %d times, not held %d", held, free)
	}
}
