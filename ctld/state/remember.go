package state

import "github.com/gleaner-hpc/gleaner/ctld/state/bounds"

// remembered is what a request did, for a client that asks again.
type remembered struct {
	id     RequestID
	index  uint64 // of its log entry
	timeMS int64
	jobs   *[]JobResult // nil when there were none
	jobID  uint32
	kind   Kind
}

// requestIndex finds remembered requests. It belongs to the State alone.
type requestIndex struct {
	positions map[RequestID]uint64 // among all that ever were remembered
	forgotten uint64               // how many of these are gone
	results   int                  // of all remembered
}

func newRequestIndex() requestIndex {
	return requestIndex{positions: make(map[RequestID]uint64)}
}

// repeat answers a request that was applied before with its former result.
func (s *State) repeat(id RequestID, result *Result) bool {
	before, known := s.lookUpRequest(id)
	if !known {
		return false
	}
	if before.kind != result.Kind {
		result.Refused = refuse(RequestReuse, "request id was used for another request (%s): make a new one for each request", before.kind)
		return true
	}
	before.fill(result)
	return true
}

func (r *remembered) fill(result *Result) {
	result.Repeated = true
	result.JobID, result.Jobs = r.jobID, r.results()
}

func (r *remembered) results() []JobResult {
	if r.jobs == nil {
		return nil
	}
	return *r.jobs
}

func (s *State) lookUpRequest(id RequestID) (*remembered, bool) {
	position, known := s.requests.positions[id]
	if !known {
		return nil, false
	}
	return &s.remembered[position-s.requests.forgotten], true
}

// Remembered returns the answer to a request that was applied before, so that a
// retry need not be proposed again. Only the fields that concern the client are
// set.
func (s *State) Remembered(id RequestID, kind Kind) (Result, bool) {
	before, known := s.lookUpRequest(id)
	if !known || before.kind != kind {
		return Result{}, false
	}
	result := Result{Kind: kind, Index: before.index, TimeMS: before.timeMS}
	before.fill(&result)
	return result, true
}

// remember keeps what a request did. A refused request did nothing, and a retry
// may as well be judged again. An answer for very many jobs is not kept either:
// a retried cancel, hold or requeue finds it done already.
func (s *State) remember(id RequestID, result *Result) {
	if id == (RequestID{}) || result.Refused != nil || len(result.Jobs) > bounds.MaxTargets {
		return
	}
	request := remembered{id: id, kind: result.Kind, index: s.index, timeMS: s.timeMS, jobID: result.JobID}
	if len(result.Jobs) > 0 {
		jobs := result.Jobs
		request.jobs = &jobs
	}
	s.storeRequest(request)
}

func (s *State) storeRequest(request remembered) {
	s.requests.positions[request.id] = s.requests.forgotten + uint64(len(s.remembered))
	s.requests.results += len(request.results())
	s.remembered = append(s.remembered, request)
}

// forgetRequests drops what is too old or too much, oldest first.
func (s *State) forgetRequests() {
	for len(s.remembered) > 0 {
		oldest := &s.remembered[0]
		fits := len(s.remembered) < bounds.MaxRemembered && s.requests.results <= bounds.MaxRememberedResults
		if fits && (oldest.timeMS > s.timeMS-bounds.RememberMS || s.keepsRequests()) {
			return
		}
		delete(s.requests.positions, oldest.id)
		s.requests.results -= len(oldest.results())
		s.requests.forgotten++
		s.remembered = s.remembered[1:]
	}
}

// keepsRequests reports whether so few are left that none is too old.
func (s *State) keepsRequests() bool { return len(s.remembered) <= bounds.KeptRemembered }
