package main

import (
	"sync"
	"time"

	"github.com/gleaner-hpc/gleaner/test/chaos/history"
)

// journal is what clients know: written before and after each request.
type journal struct {
	mu          sync.Mutex
	submissions []*history.Submission
	requests    []history.Request
	asking      map[*history.Submission]bool // not answered yet
	accepted    int
	unanswered  int
	lastGood    int64 // when a submission was last answered
	worstGap    time.Duration
}

func now() int64 { return time.Now().UnixMicro() }

// submitting notes a submission before it is sent.
func (j *journal) submitting(s *history.Submission) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.asking == nil {
		j.asking = map[*history.Submission]bool{}
	}
	s.Asked = now()
	j.submissions = append(j.submissions, s)
	j.asking[s] = true
}

// submitted notes its number.
func (j *journal) submitted(s *history.Submission, job uint32) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s.Answered, s.Job = now(), job
	j.accepted++
	// How long somebody had been asking while nobody got an answer.
	waited := s.Asked
	for other := range j.asking {
		waited = min(waited, other.Asked)
	}
	gap := time.Duration(s.Answered-max(waited, j.lastGood)) * time.Microsecond
	j.worstGap, j.lastGood = max(j.worstGap, gap), s.Answered
	delete(j.asking, s)
}

// recent are the jobs that were accepted last, a few of them.
func (j *journal) recent() (known []history.Submission) {
	const few = 12
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := len(j.submissions) - 1; i >= 0 && len(known) < few; i-- {
		if s := j.submissions[i]; s.Job != 0 {
			known = append(known, *s)
		}
	}
	return known
}

// failed notes that a client gave up, or was killed: the job may be there.
func (j *journal) failed(s *history.Submission) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.asking, s)
	j.unanswered++
}

// requesting notes a request about a job before it is sent; what it answers is
// called when the client has its answer or has given up.
func (j *journal) requesting(verb history.Verb, job uint32) (over func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	at := len(j.requests)
	j.requests = append(j.requests, history.Request{Verb: verb, Job: job, Asked: now()})
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.requests[at].Over = now()
	}
}

// counts are accepted submissions, and those of which nobody heard again.
func (j *journal) counts() (accepted, unanswered int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.accepted, j.unanswered
}

// into puts all that clients know into a history.
func (j *journal) into(h *history.History) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, s := range j.submissions {
		h.Submissions = append(h.Submissions, *s)
	}
	h.Requests = append(h.Requests, j.requests...)
}
