package session

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Signal sends a signal to an allocation and waits for the node's answer.
func (r *Registry) Signal(ctx context.Context, node string, signal *pb.SignalAlloc) error {
	s := r.Get(node)
	if s == nil {
		return fmt.Errorf("%w: %s", ErrNotConnected, node)
	}
	token := uuid.NewString()
	answer := make(chan *pb.SignalResult, 1)
	r.mu.Lock()
	if len(r.signals) >= maxSignals {
		r.mu.Unlock()
		return ErrBusy
	}
	r.signals[token] = answer
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.signals, token)
	}()
	signal.Token = token
	if !s.Send(&pb.ControllerMessage{What: &pb.ControllerMessage_SignalAlloc{SignalAlloc: signal}}) {
		return fmt.Errorf("%w: %s", ErrNotConnected, node)
	}
	select {
	case result := <-answer:
		if result.GetError() != "" {
			return fmt.Errorf("node %s: %s", node, result.GetError())
		}
		return nil
	case <-s.Done():
		return fmt.Errorf("%w: %s went before it answered", ErrNotConnected, node)
	case <-ctx.Done():
		return fmt.Errorf("node %s did not answer in time: %w", node, ctx.Err())
	}
}

// Answer passes a signal's result to whoever waits for it.
func (r *Registry) Answer(result *pb.SignalResult) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if waiting, ok := r.signals[result.GetToken()]; ok {
		delete(r.signals, result.GetToken())
		waiting <- result
	}
}
