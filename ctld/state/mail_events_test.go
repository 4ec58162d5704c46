package state

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// mailed is a state in which mail is sent, after some lines of a dialogue.
func mailed(t *testing.T, lines string) *State {
	t.Helper()
	d := &dialogue{t: t, state: New(), nowMS: 1_000_000}
	site := *d.state.policy
	site.Mail = &policy.Mail{Program: "/usr/sbin/sendmail"}
	d.state.policy = &site
	for line := range strings.SplitSeq(lines, "\n") {
		if wants, is := strings.CutPrefix(line, "wants "); is { // the job that was submitted last
			var types spec.MailTypes
			id := d.state.nextJob - 1
			types, err := spec.ParseMailTypes(wants)
			if err != nil {
				t.Fatal(err)
			}
			bits := uint32(types)
			UpdateJobs{Targets: []Target{{Job: id}}, Privileged: true, Change: JobChange{MailTypes: &bits}}.apply(d.state, &Result{})
			d.state.view = nil
			continue
		}
		if answer := d.play(line); strings.Contains(answer, "refused") || strings.Contains(answer, "error") {
			t.Fatalf("%s: %s", line, answer)
		}
	}
	return d.state
}

var mailWord = map[spec.MailTypes]string{
	spec.MailBegin: "BEGIN", spec.MailEnd: "END", spec.MailFail: "FAIL", spec.MailRequeue: "REQUEUE", spec.MailInvalidDepend: "INVALID_DEPEND",
	spec.MailTimeLimit: "TIME_LIMIT", spec.MailTimeLimit90: "TIME_LIMIT_90", spec.MailTimeLimit80: "TIME_LIMIT_80", spec.MailTimeLimit50: "TIME_LIMIT_50",
}

func tellsOf(view *View) (all []string) {
	for e := range view.MailAfter(0) {
		text := fmt.Sprintf("%s %d", mailWord[spec.MailTypes(e.Kind)], e.Job)
		if e.Whole != nil {
			text += fmt.Sprintf(" of %d: %d over", e.Array, e.Whole.Over)
		}
		all = append(all, text)
	}
	return all
}

// TestMailEvents: each step of a job's life that somebody wants to hear of is in the
// outbox once, in order; a snapshot carries it, and what was handed over goes.
func TestMailEvents(t *testing.T) {
	s := mailed(t, `register n1 cpus=4 gpus=2 boot=b1
submit by=1000 cpus=2 gpus=1 requeue time=1000
wants ALL,TIME_LIMIT_50,TIME_LIMIT_80
place 1 n1:0-1:gpu0
ready 1.1 n1
wait seconds=100
requeue 1 by=1000
ended 1.1 n1 cause=cancelled
place 1 n1:0-1:gpu0
ready 1.2 n1
ended 1.2 n1 cause=exited code=3
ended 1.2 n1 cause=exited code=3
submit by=1000 cpus=2
wants END
submit by=1000 cpus=2 dependency=afterok:2
wants ALL
cancel 2 by=1000
submit by=1000 cpus=2`)
	want := []string{"BEGIN 1", "REQUEUE 1", "BEGIN 1", "FAIL 1", "END 2", "INVALID_DEPEND 3"}
	if got := tellsOf(s.View()); !slices.Equal(got, want) {
		t.Fatalf("%q, want %q", got, want)
	}
	written := persisted(t, s)
	again, err := Restore(bytes.NewReader(written))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(written, persisted(t, again)) || !slices.Equal(tellsOf(again.View()), want) {
		t.Error("a snapshot does not carry the outbox")
	}
	all := slices.Collect(again.View().MailAfter(0))
	for range 2 {
		TrimMail{Through: all[2].At}.apply(again, &Result{})
	}
	again.view = nil
	if got := tellsOf(again.View()); !slices.Equal(got, want[3:]) || again.View().MailTrimmed() != all[2].At {
		t.Errorf("trimmed: %q", got)
	}
	if err := again.Check(); err != nil {
		t.Error(err)
	}
}

// TestMailOfTimeLimits: each part of a limit is told once a run, whoever leads, and only
// the last of those that are over.
func TestMailOfTimeLimits(t *testing.T) {
	s := mailed(t, `register n1 cpus=4 gpus=2 boot=b1
submit by=1000 cpus=2 time=1000
wants TIME_LIMIT_50,TIME_LIMIT_80
place 1 n1:0-1
ready 1.1 n1`)
	job, _ := s.Job(1)
	at := func(percent int64) int64 { return job.Run.StartMS + percent*int64(job.TimeLimitS())*10 }
	if due := s.View().TimeLimitsDue(at(49)); len(due) != 0 {
		t.Errorf("%v", due)
	}
	for _, percent := range []int64{55, 60, 95, 96} {
		due := s.View().TimeLimitsDue(at(percent))
		for range 2 { // two leaders
			NoteTimeLimits{Due: due}.apply(s, &Result{})
			s.view = nil
		}
	}
	if got, want := tellsOf(s.View()), []string{"TIME_LIMIT_50 1", "TIME_LIMIT_80 1"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestMailIsBounded: a user who floods the outbox takes nothing from others, what is old
// or too much goes, and is counted.
func TestMailIsBounded(t *testing.T) {
	s := mailed(t, `register n1 cpus=4 gpus=2 boot=b1`)
	policy, spec1 := s.policy, &Spec{MailTypes: uint32(spec.MailEnd)}
	if policy.Mail == nil {
		t.Fatal("no mail is sent")
	}
	tell := func(uid uint32, text int) {
		owned := *spec1
		owned.owner = &Owner{UID: uid, User: fmt.Sprint(uid)}
		owned.MailUser = strings.Repeat("x", text)
		s.index++
		s.view = nil
		s.addMail(spec.MailEnd, spec.MailEnd, &Job{ID: 7, Spec: &owned, Phase: Waiting}, nil)
	}
	for range 3 * bounds.MaxUserMails {
		tell(1000, 10)
	}
	tell(1001, 10)
	if events, lost := s.View().MailSize(); events != bounds.MaxUserMails+1 || lost != 2*bounds.MaxUserMails {
		t.Errorf("%d wait and %d are lost", events, lost)
	}
	for uid := range uint32(5000) {
		tell(2000+uid, bounds.MaxTextBytes)
	}
	if s.mails.bytes > bounds.MaxMailBytes || len(s.mails.records) < 3000 {
		t.Errorf("%d bytes of %d events", s.mails.bytes, len(s.mails.records))
	}
	_, before := s.View().MailSize()
	waited := uint64(len(s.mails.records))
	s.timeMS += bounds.MailKeptMS + 1
	tell(1000, 10)
	if events, lost := s.View().MailSize(); events != 1 || lost != before+waited {
		t.Errorf("%d wait and %d are lost after days; %d were before, and %d waited", events, lost, before, waited)
	}
	s.index = (s.index + 63) / 64 * 64 // all of it is looked at
	if err := s.checkMail(); err != nil {
		t.Error(err)
	}
}

// TestMailOfArrays: one mail begins an array and one ends it, also if a snapshot comes
// between them.
func TestMailOfArrays(t *testing.T) {
	s := mailed(t, `register n1 cpus=4 gpus=2 boot=b1
submit by=1000 cpus=1 array=0-2
wants BEGIN,END,FAIL
place 1 n1:0
place 1 n1:1`)
	again, err := Restore(bytes.NewReader(persisted(t, s)))
	if err != nil {
		t.Fatal(err)
	}
	d := &dialogue{t: t, state: again, nowMS: 1_000_000, index: again.index}
	for _, line := range []string{"ready 2.1 n1", "ended 2.1 n1 cause=exited code=0", "ready 3.1 n1", "ended 3.1 n1 cause=exited code=4", "cancel 1 by=1000"} {
		d.play(line)
	}
	got := tellsOf(again.View())
	if want := []string{"BEGIN 2 of 1: 0 over", "FAIL 1 of 1: 3 over"}; !slices.Equal(got, want) {
		t.Fatalf("%q, want %q", got, want)
	}
	if again.arrayMails.Len() != 0 {
		t.Error("something is kept of an array that is over")
	}
	whole := slices.Collect(again.View().MailAfter(0))[1].Whole
	if whole.LowCode != 0 || whole.HighCode != 4 || len(whole.States) != 3 {
		t.Errorf("%+v", whole)
	}
}
