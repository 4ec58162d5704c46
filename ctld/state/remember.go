package state

// remembered is what a request did, for a client that asks again.
type remembered struct {
	kind   Kind
	index  uint64 // of the log entry that carried it out
	timeMS int64
	jobID  uint32
	jobs   []JobResult
}

// repeat answers a request that was applied before with what it did then.
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
	result.JobID, result.Jobs = r.jobID, r.jobs
}

func (t *tables) lookUpRequest(id RequestID) (*remembered, bool) {
	if id == (RequestID{}) {
		return nil, false
	}
	return t.remembered.Get(string(id[:]))
}

// Remembered answers a request that was applied before, so that a retry need
// not be proposed again. Only the fields that concern the client are set.
func (t *tables) Remembered(id RequestID, kind Kind) (Result, bool) {
	before, known := t.lookUpRequest(id)
	if !known || before.kind != kind {
		return Result{}, false
	}
	result := Result{Kind: kind, Index: before.index, TimeMS: before.timeMS}
	before.fill(&result)
	return result, true
}

// remember keeps what a request did. One that was refused did nothing, and a
// retry may as well be judged anew. Nor is an answer for very many jobs kept:
// cancelling, holding or requeueing again finds it done already.
func (s *State) remember(id RequestID, result *Result) {
	if id == (RequestID{}) || result.Refused != nil || len(result.Jobs) > MaxTargets {
		return
	}
	s.storeRequest(id, &remembered{
		kind: result.Kind, index: s.index, timeMS: s.timeMS,
		jobID: result.JobID, jobs: result.Jobs,
	})
}

func (s *State) storeRequest(id RequestID, request *remembered) {
	key := string(id[:])
	s.remembered.Set(key, request)
	s.rememberOrder.Set(request.index, key)
	s.resultCount += len(request.jobs)
}

// forgetRequests drops what is too old or too much, oldest first.
func (s *State) forgetRequests() {
	for {
		index, id, any := s.rememberOrder.Min()
		if !any {
			return
		}
		request, _ := s.remembered.Get(id)
		if s.remembered.Len() < MaxRemembered && s.resultCount <= MaxRememberedResults && request.timeMS > s.timeMS-RememberMS {
			return
		}
		s.rememberOrder.Delete(index)
		s.remembered.Delete(id)
		s.resultCount -= len(request.jobs)
	}
}
