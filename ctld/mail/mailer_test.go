package mail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
	"github.com/gleaner-hpc/gleaner/proto/prototest"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// world is a state and the log that feeds it. A leader that is cut off cannot commit.
type world struct {
	t      *testing.T
	state  *state.State
	index  uint64
	cutOff bool
}

var errCut = errors.New("not the leader")

func (w *world) View() *state.View { return w.state.View() }

func (w *world) Propose(_ context.Context, command state.Command, id state.RequestID) (state.Result, error) {
	if w.cutOff {
		return state.Result{}, errCut
	}
	return w.apply(command), nil
}

func (w *world) apply(command state.Command) state.Result {
	w.t.Helper()
	w.index++
	entry, err := state.Encode(command, state.RequestID{}, 1_000_000+int64(w.index))
	if err != nil {
		w.t.Fatal(err)
	}
	result, err := w.state.Apply(w.index, entry)
	if err != nil || result.Refused != nil {
		w.t.Fatal(err, result.Refused)
	}
	return result
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, state: state.New()}
	site := *policy.Default()
	site.Mail = &policy.Mail{Program: "/usr/sbin/sendmail"}
	w.apply(state.ApplyPolicy{Policy: site})
	return w
}

// end lets a job end, of which somebody wants to hear. Each user has few, so that none has
// too many.
func (w *world) end(number int) {
	uid := uint32(1000 + number%50)
	id := w.apply(state.SubmitJob{Spec: state.Spec{MailTypes: uint32(spec.MailEnd), Partitions: []string{"main"}, Hold: true}, Own: state.Own{Name: fmt.Sprint(number)},
		Owner: state.Owner{UID: uid, User: fmt.Sprint("u", uid)}, Script: []byte("#!/bin/sh\n")}).JobID
	w.apply(state.CancelJobs{Targets: []state.Target{{Job: id}}, UID: uid})
}

func (w *world) mailer(send func(context.Context, *letter) error) *Mailer {
	m := New(w, "here", slog.New(slog.NewTextHandler(io.Discard, nil)))
	m.send = send
	return m
}

// TestChangesOfLeader: jobs end, leaders are cut off in the middle of their mails, die and
// are followed by others, and servers fail: every end is told, in bounded doubles, which
// have the identity of the first.
func TestChangesOfLeader(t *testing.T) {
	for seed := range uint64(prototest.Soak(3, 400)) {
		random := rand.New(rand.NewPCG(seed, 0))
		w := newWorld(t)
		told, ids := map[string]int{}, map[string]string{}
		ended, doubles, leaders := 0, 0, 0
		more := func(most int) {
			for range random.IntN(most) {
				w.end(ended)
				ended++
			}
		}
		var m *Mailer
		send := func(ctx context.Context, one *letter) error {
			switch random.IntN(30) {
			case 0:
				return errAway
			case 1:
				return errors.New("try later")
			case 2:
				w.cutOff = true // it is not the leader any more, and does not know
			case 3:
				if !w.cutOff {
					more(3)
				}
			}
			_, name, _ := strings.Cut(one.subject, "Name=")
			name, _, _ = strings.Cut(name, " ")
			if told[name]++; told[name] > 1 {
				if doubles++; ids[name] != one.id {
					t.Errorf("seed %d: job %s is told as %s and as %s", seed, name, ids[name], one.id)
				}
			}
			ids[name] = one.id
			return nil
		}
		for leaders = range 20 {
			w.cutOff = false
			more(40)
			m = w.mailer(send)
			r := newRound(m)
			for range 1 + random.IntN(4) {
				if r.work(context.Background()); w.cutOff {
					break
				}
				more(10)
			}
		}
		w.cutOff = false
		calm := newRound(w.mailer(send))
		for range 200 {
			if waiting, _ := w.View().MailSize(); waiting == 0 {
				break
			}
			if calm.work(context.Background()); w.cutOff { // another one follows it
				w.cutOff = false
				calm = newRound(w.mailer(send))
			}
		}
		if waiting, lost := w.View().MailSize(); waiting != 0 || lost != 0 {
			t.Errorf("seed %d: %d mails wait and %d are lost", seed, waiting, lost)
		}
		for number := range ended {
			if told[fmt.Sprint(number)] == 0 {
				t.Errorf("seed %d: nobody was told of the end of job %d", seed, number)
			}
		}
		if doubles > maxUnmarked*(leaders+1+200) || ended < 300 {
			t.Errorf("seed %d: %d doubles of %d mails", seed, doubles, ended)
		}
	}
}

// TestDoublesAreBounded: a leader that cannot commit stops after maxUnmarked mails, and
// the next one tells these again, and no others.
func TestDoublesAreBounded(t *testing.T) {
	w := newWorld(t)
	for number := range 5 * maxUnmarked {
		w.end(number)
	}
	told := 0
	send := func(context.Context, *letter) error { told++; return nil }
	w.cutOff = true
	r := newRound(w.mailer(send))
	for range 10 {
		r.work(context.Background())
	}
	if told != maxUnmarked {
		t.Errorf("%d mails are sent of which the log does not know", told)
	}
	w.cutOff = false
	newRound(w.mailer(send)).work(context.Background())
	if told != 6*maxUnmarked {
		t.Errorf("%d mails, want %d", told, 6*maxUnmarked)
	}
}

// TestServerIsAway: what cannot be sent waits, in order, and status says why. A mail that
// is refused, or never taken, holds up no others.
func TestServerIsAway(t *testing.T) {
	w := newWorld(t)
	for number := range 4 {
		w.end(number)
	}
	var told []string
	answers := map[string]error{"0": errAway}
	m := w.mailer(func(_ context.Context, one *letter) error {
		_, name, _ := strings.Cut(one.subject, "Name=")
		name, _, _ = strings.Cut(name, " ")
		if err := answers[name]; err != nil {
			return err
		}
		told = append(told, name)
		return nil
	})
	r := newRound(m)
	for range 3 * maxTries {
		if pause := r.work(context.Background()); pause > retryMost || pause < retryFirst {
			t.Errorf("tried again after %v", pause)
		}
	}
	if waiting, _ := w.View().MailSize(); len(told) != 0 || waiting != 4 || !strings.Contains(m.Problem(), "mail about jobs waits (4)") {
		t.Errorf("%q told, %d wait, %q", told, waiting, m.Problem())
	}
	answers = map[string]error{"1": errors.Join(errRefused, errors.New("550 no such user")), "2": errors.New("450 busy")}
	for range 3 * maxTries {
		r.work(context.Background())
	}
	if waiting, _ := w.View().MailSize(); waiting != 0 || strings.Join(told, " ") != "0 3" || m.Problem() != "" {
		t.Errorf("%q told, %d wait, %q", told, waiting, m.Problem())
	}
}

// TestMailIsSwitchedOff: what waits is left out when the policy has no [mail] any more.
func TestMailIsSwitchedOff(t *testing.T) {
	w := newWorld(t)
	w.end(1)
	w.apply(state.ApplyPolicy{Policy: *policy.Default()})
	r := newRound(w.mailer(func(context.Context, *letter) error { t.Error("a mail is sent"); return nil }))
	r.work(context.Background())
	if waiting, _ := w.View().MailSize(); waiting != 0 {
		t.Errorf("%d wait", waiting)
	}
}

// A user has so many mails in an hour, whatever others have.
func TestAllowance(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	had := allowances{}
	count := func(user string) (allowed int) {
		for range 2 * perHour {
			if had.allows(user, now) {
				allowed++
			}
		}
		return allowed
	}
	if ada, eve := count("ada"), count("eve"); ada != perHour || eve != perHour {
		t.Errorf("%d and %d in an hour", ada, eve)
	}
	if now = now.Add(time.Hour); count("ada") != perHour {
		t.Error("none in the next hour")
	}
}

func TestClockAndPlain(t *testing.T) {
	for ms, want := range map[int64]string{-5: "00:00:00", 59_999: "00:00:59", 90_061_000: "1-01:01:01"} {
		if got := clock(ms); got != want {
			t.Errorf("%d: %s, want %s", ms, got, want)
		}
	}
	if got := plain("a\r\nBcc: b\xff\u2028\u202e日"); got != "a  Bcc: b?  日" {
		t.Errorf("%q", got)
	}
}
