package state

import (
	"testing"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// TestMailWalk: somebody wants mail about most jobs. Check compares what is counted of it
// after each command, and replicas what they persist.
func TestMailWalk(t *testing.T) {
	steps := prototest.Soak(600, 20_000)
	w, s, two := newWalker(7100), New(), New()
	w.shares, w.mails = true, true
	kinds := map[spec.MailTypes]int{}
	told := Position(0)
	for index := uint64(1); index <= uint64(steps); index++ {
		command := w.next(s.View())
		if index == 14 {
			site := *policy.Default()
			site.MinJobAgeS, site.Mail = 5, &policy.Mail{Program: "/usr/sbin/sendmail"}
			command = ApplyPolicy{Policy: site}
		}
		entry, err := Encode(command, w.requestID(), 1_000_000+int64(index)*500)
		if err != nil {
			t.Fatal(err)
		}
		mustApply(t, s, index, entry)
		mustApply(t, two, index, entry)
		for event := range s.View().MailAfter(told) {
			kinds[spec.MailTypes(event.Kind)]++
			told = event.At
		}
		if index%60 == 0 {
			if err := s.Check(); err != nil {
				t.Fatalf("after entry %d: %v", index, err)
			}
			two = checkReplicas(t, s, two)
		}
	}
	for _, kind := range []spec.MailTypes{spec.MailBegin, spec.MailEnd, spec.MailFail} {
		if kinds[kind] == 0 {
			t.Errorf("nothing is told of kind %b: %v", kind, kinds)
		}
	}
	if s.View().MailTrimmed() == 0 {
		t.Error("nothing was trimmed")
	}
}

// mail hands over some of what waits to be told, or says that limits are over.
func (w *walker) mail(v *View) Command {
	if due := v.TimeLimitsDue(v.TimeMS() + int64(w.Intn(7200_000))); w.chance(50) && len(due) > 0 {
		return NoteTimeLimits{Due: due}
	}
	through := v.MailTrimmed()
	for event := range v.MailAfter(0) {
		if w.chance(50) {
			through = event.At
		}
	}
	return TrimMail{Through: through}
}
