//go:build pmix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/gleaner-hpc/gleaner/proto/step"
)

// server is what the library's threads call.
type server struct {
	job *step.PMIxJob

	mu     sync.Mutex
	to     *json.Encoder // process 1
	fences []fence       // of all tasks; the first has been told
}

// fence is what the tasks here have put, and what lets them go on.
type fence struct {
	put  []byte
	over func(all []byte)
}

// served is the only one of this process, as the library has it.
var served server

// say is called with mu held.
func (s *server) say(m *step.PMIxSaid) {
	if s.to.Encode(m) != nil {
		os.Exit(1) // process 1 has gone
	}
}

func (s *server) tell(m *step.PMIxSaid) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.say(m)
}

func (s *server) begun(rank uint32)     { s.tell(&step.PMIxSaid{Begun: &rank}) }
func (s *server) finalized(rank uint32) { s.tell(&step.PMIxSaid{Finalized: &rank}) }

func (s *server) abort(rank uint32, code int, text string) {
	s.tell(&step.PMIxSaid{Abort: &step.PMIxAbort{Rank: rank, Code: code, Text: text[:min(len(text), step.MaxPMIValue)]}})
}

func (s *server) tooMuch() {
	s.tell(&step.PMIxSaid{Failed: fmt.Sprintf("the tasks put more than %d bytes by PMIx", step.MaxPMIBytes)})
}

// fence is one of all tasks of the step. All nodes come to these in the same order, and
// process 1 hears of one at a time.
func (s *server) fence(put []byte, over func([]byte)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fences = append(s.fences, fence{put, over}); len(s.fences) == 1 {
		s.say(&step.PMIxSaid{Fence: &put})
	}
}

// fenced lets the tasks go on that are at the first fence.
func (s *server) fenced(all []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.fences) == 0 {
		return
	}
	s.fences[0].over(all)
	if s.fences = s.fences[1:]; len(s.fences) > 0 {
		s.say(&step.PMIxSaid{Fence: &s.fences[0].put})
	}
}

// isHere: all of these ranks are of this node.
func (s *server) isHere(ranks []uint32) bool {
	here := s.job.Nodes[s.job.Here].Ranks
	return !slices.ContainsFunc(ranks, func(rank uint32) bool { return !slices.Contains(here, rank) })
}
