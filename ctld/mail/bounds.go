package mail

import (
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
)

const (
	perHour      = bounds.MaxUserMails // mails to one user
	maxTold      = 4096                // users whose mails are counted
	problemEvery = time.Minute         // between lines of the log about mails that are not sent
)

// allowances are how many mails users had in an hour.
type allowances map[string]*allowance

type allowance struct {
	since time.Time
	count int
}

// allows counts a mail of a user.
func (a allowances) allows(user string, now time.Time) bool {
	had := a[user]
	if had == nil || now.Sub(had.since) >= time.Hour {
		if len(a) >= maxTold {
			clear(a)
		}
		had = &allowance{since: now}
		a[user] = had
	}
	had.count++
	return had.count <= perHour
}

// leftOut counts mails that are not sent, and says so, but not of each.
type leftOut struct {
	mails int
	said  time.Time
}

func (l *leftOut) count(m *Mailer, mails int, text string, about ...any) {
	l.mails += mails
	l.say(m, text, about...)
}

func (l *leftOut) say(m *Mailer, text string, about ...any) {
	if now := m.clock(); now.Sub(l.said) >= problemEvery {
		m.log.Warn(text, append(about, "left_out", l.mails)...)
		l.said, l.mails = now, 0
	}
}
