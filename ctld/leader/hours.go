package leader

import (
	"cmp"
	"context"
	"slices"
	"time"
	_ "time/tzdata" // all controllers know the same zones, whatever is installed

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// This file takes nodes back when the hours end in which their owners lend them. Notice is
// given before that, so that at the closing minute the hardware is the owner's. It is
// decided from the state and the time alone: a new leader, and one whose clock has jumped,
// IndexOf what is to be done, and nothing twice.

// hoursDue is what the calendars of all nodes ask for at a time.
type hoursDue struct {
	reclaims []state.ReclaimNodes
	released []string // ascending: nodes that are lent now after all, because their terms have changed
	nextMS   int64    // when the next thing is due; 0 = never
}

// HoursDue is what the calendars of all nodes ask for at a time, as commands of the leader,
// and when the next thing is due; 0 = never. Only the view and the time count.
func HoursDue(view *state.View, nowMS int64) (due []state.Command, nextMS int64) {
	hours := hoursAt(view, nowMS)
	for _, reclaim := range hours.reclaims {
		due = append(due, reclaim)
	}
	if len(hours.released) > 0 {
		due = append(due, state.ReleaseNodes{Names: hours.released, Privileged: true, Trigger: pb.ReclaimTrigger_RECLAIM_TRIGGER_HOURS})
	}
	return due, hours.nextMS
}

// hold is one hold for some nodes: until when guests have to be gone, and until when it
// lasts.
type hold struct{ deadlineMS, untilMS int64 }

func hoursAt(view *state.View, nowMS int64) hoursDue {
	var due hoursDue
	weeks, nodes := weeks{nowMS: nowMS}, map[hold][]string{}
	for _, node := range view.LentOnTerms() {
		wanted, nextMS := weeks.wanted(node.Lending.Terms())
		due.nextMS = earlier(due.nextMS, nextMS)
		held := node.Reclaim.Held(pb.ReclaimTrigger_RECLAIM_TRIGGER_HOURS)
		switch {
		case wanted == nil && held != nil:
			due.released = append(due.released, node.Name)
		case wanted != nil && (held == nil || held.UntilMS != wanted.untilMS) && !node.HoursOff(wanted.untilMS):
			nodes[*wanted] = append(nodes[*wanted], node.Name)
		}
	}
	for _, name := range view.HeldWithoutTerms() {
		due.released = append(due.released, name)
	}
	slices.Sort(due.released)
	for wanted, names := range nodes {
		due.reclaims = append(due.reclaims, state.ReclaimNodes{
			Names: names, WithinMS: wanted.deadlineMS - nowMS, UntilMS: wanted.untilMS, Privileged: true, Trigger: pb.ReclaimTrigger_RECLAIM_TRIGGER_HOURS,
		})
	}
	slices.SortFunc(due.reclaims, func(a, b state.ReclaimNodes) int { return cmp.Compare(a.Names[0], b.Names[0]) })
	return due
}

// weeks answers for each calendar once.
type weeks struct {
	nowMS int64
	known map[string]weekNow
}

// weekNow is where a calendar stands.
type weekNow struct {
	open              bool
	changesMS, thenMS int64 // when that changes, and when it changes back; 0 = never
}

func (w *weeks) at(l *state.Lending) weekNow {
	key := l.TimeZone + " " + l.Hours
	if now, known := w.known[key]; known {
		return now
	}
	week, err := spec.ParseWeek(l.Hours)
	zone, zoneErr := time.LoadLocation(l.TimeZone)
	now := weekNow{open: true} // what this controller cannot read takes nothing back
	if err == nil && zoneErr == nil {
		var changes time.Time
		if now.open, changes = week.At(time.UnixMilli(w.nowMS), zone); !changes.IsZero() {
			now.changesMS = changes.UnixMilli()
			_, then := week.At(changes, zone)
			now.thenMS = then.UnixMilli()
		}
	}
	if w.known == nil {
		w.known = map[string]weekNow{}
	}
	w.known[key] = now
	return now
}

// wanted is the hold that terms ask for now; nil = none. nextMS is when that changes.
func (w *weeks) wanted(l state.Lending) (wanted *hold, nextMS int64) {
	now, noticeMS := w.at(&l), int64(l.NoticeMS)
	switch {
	case now.open && now.changesMS == 0:
		return nil, 0
	case !now.open && now.changesMS == 0:
		return &hold{w.nowMS + noticeMS, 0}, 0
	case now.open && now.changesMS-noticeMS > w.nowMS:
		return nil, now.changesMS - noticeMS
	case now.open:
		return &hold{max(now.changesMS, w.nowMS+state.MinReclaimMS), now.thenMS}, now.changesMS
	}
	// It is closed already, because the terms are new or nobody led: guests get the notice,
	// or what is left until it opens.
	deadline := min(w.nowMS+noticeMS, now.changesMS-1)
	if deadline < w.nowMS+state.MinReclaimMS {
		return nil, now.changesMS
	}
	return &hold{deadline, now.changesMS}, now.changesMS
}

// keepHours does what the calendars ask for. It returns the state after that, and false
// when that could not be committed.
func (l *Leader) keepHours(ctx context.Context, view *state.View, now time.Time) (*state.View, bool) {
	due, nextMS := HoursDue(view, now.UnixMilli())
	l.hoursMS = nextMS
	for _, command := range due {
		result, ok := l.propose(ctx, command)
		switch {
		case !ok:
			return view, false
		case result.Refused != nil:
			l.log.Warn("a calendar's nodes could not be reclaimed or released; trying again in a minute", "reason", result.Refused.Message)
			l.hoursMS = earlier(l.hoursMS, now.UnixMilli()+60_000)
		case result.Kind == state.KindReclaimNodes && len(result.Nodes) > 0:
			l.log.Info("the hours end in which nodes are lent: they are reclaimed", "nodes", len(result.Nodes), "first_node", result.Nodes[0])
		case len(result.Nodes) > 0:
			l.log.Info("nodes are lent again by their new hours", "nodes", len(result.Nodes), "first_node", result.Nodes[0])
		}
	}
	if len(due) > 0 {
		view = l.cluster.View()
	}
	return view, true
}
