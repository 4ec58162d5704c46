package pid1

import (
	"fmt"
	"slices"
	"time"

	"github.com/gleaner-hpc/gleaner/proto/step"
)

// holdPace is how often the session of a hold is looked at.
const holdPace = 100 * time.Millisecond

// hold waits for a session, and for its client if that is away. Time is counted in
// looks: none passes for a job that is frozen, whose client cannot come back.
func (p *process1) hold(m *step.Hold) step.Message {
	if p.config.Batch == nil {
		return &step.Failed{Text: "this node does not run the batch script: sessions are on the one that does", Code: 1}
	}
	patience := time.Duration(min(m.ClientS, step.MaxHoldS)) * time.Second
	for alone := time.Duration(0); alone < patience; time.Sleep(holdPace) {
		if ended := p.sessions.heardEnd(m.Name); ended != nil {
			return ended
		}
		s := p.sessions.find(func(s *session) bool { return s.name == m.Name })
		if s != nil && s.info().Attached {
			alone = 0
		} else {
			alone += holdPace
		}
	}
	return &step.Failed{Text: fmt.Sprintf("its client has been away for %s", patience), Code: 1}
}

// heardEnd is how a session ended whose client has heard so; nil = none of the name
// did.
func (t *sessions) heardEnd(name string) *step.Exited {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := slices.IndexFunc(t.heard, func(s *session) bool { return s.name == name })
	if at < 0 {
		return nil
	}
	s := t.heard[at]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.exited
}
