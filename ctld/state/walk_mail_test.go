package state

import "github.com/gleaner-hpc/gleaner/proto/spec"

// wantMail lets somebody want to hear of a job, of its array or of each task.
func (w *walker) wantMail(c *SubmitJob) {
	if w.mails.Intn(3) == 0 {
		c.Spec.MailTypes = uint32(w.mails.Intn(int(spec.MailArrayTasks) << 1))
	}
}

// mail hands over some of what waits to be told, or says that limits are over.
func (w *walker) mail(v *View) Command {
	if due := v.TimeLimitsDue(v.TimeMS() + w.mails.Int63n(7200_000)); w.mails.Intn(2) == 0 && len(due) > 0 {
		return NoteTimeLimits{Due: due}
	}
	through := v.MailTrimmed()
	for event := range v.MailAfter(0) {
		if w.mails.Intn(2) == 0 {
			through = event.At
		}
	}
	return TrimMail{Through: through}
}
