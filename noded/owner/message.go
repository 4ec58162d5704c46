package owner

import (
	"time"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Message is the reclaim that was made on the node, as the owner sees it; nil when it is
// not held. Its times are those of the machine's clock when it began, and what boot time
// says has passed since.
func (o *Owner) Message() *pb.Reclaim {
	if !o.Held() {
		return nil
	}
	l := o.ledger
	reclaim := &pb.Reclaim{
		Number: l.Reclaims, By: l.Holds[0].By, AtMs: l.BeganMs, Kill: o.Kill(),
		DeadlineMs: o.WallMS(o.deadline),
	}
	endless := false
	for _, h := range l.Holds {
		reclaim.Holds = append(reclaim.Holds, &pb.ReclaimHold{Trigger: h.Trigger, By: h.By, SinceMs: h.SinceMs, UntilMs: h.UntilMs, Detail: h.Detail})
		endless = endless || h.UntilMs == 0
		reclaim.UntilMs = max(reclaim.UntilMs, h.UntilMs)
	}
	if endless {
		reclaim.UntilMs = 0
	}
	return reclaim
}

// WallMS is what the clock would have said at a boot time, had nobody set it since the
// reclaim began.
func (o *Owner) WallMS(boot time.Duration) int64 {
	return o.ledger.BeganMs + (boot - time.Duration(o.ledger.BeganBoottimeNs)).Milliseconds()
}

// Would is the reclaim that a request would lead to.
func (o *Owner) Would(r Request, now Time) (*pb.Reclaim, error) {
	after := New(o.Ledger(), o.ledger.BootId, now)
	if err := after.Reclaim(r, now); err != nil {
		return nil, err
	}
	return after.Message(), nil
}

// Word is what the supervisor of a guest, or of a job that is none, is told.
func (o *Owner) Word(guest bool, now Time) *pb.HoldAlloc {
	word := &pb.HoldAlloc{Number: o.ledger.Number, Held: guest && o.Held()}
	if word.Held {
		left := o.deadline - now.Boot
		word.WithinMs, word.LateMs, word.Kill = max(millis(left), 1), millis(-left), o.Kill()
	}
	return word
}
