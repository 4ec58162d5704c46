package session

import (
	"context"
	"errors"
	"fmt"
	"testing"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// tended runs Tend, and answers the token of its order and how it ends.
func tended(t *testing.T, ctx context.Context, r *Registry, s *Session, each func(*pb.ImagesWord) error) (string, <-chan error) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- r.Tend(ctx, "n1", &pb.TendImages{Verb: pb.ImagesVerb_IMAGES_VERB_PULL}, each) }()
	order := next(t, s).GetTendImages()
	if order.GetToken() == "" {
		t.Fatalf("no order came: %v", order)
	}
	return order.Token, ended
}

// TestTend: words come in their order, of too many some progress is lost and never the
// outcome, and a node whose client is gone is told to stop.
func TestTend(t *testing.T) {
	r := NewRegistry(quiet)
	if err := r.Tend(t.Context(), "n1", &pb.TendImages{}, nil); !errors.Is(err, ErrNotConnected) {
		t.Errorf("without a session: %v", err)
	}
	s := connect(r, "n1")
	next(t, s)
	slow := make(chan bool)
	var heard []string
	token, ended := tended(t, t.Context(), r, s, func(word *pb.ImagesWord) error {
		<-slow
		heard = append(heard, word.Progress)
		return nil
	})
	r.Said(&pb.ImagesWord{Token: "another", Done: true})
	for i := range 10 * wordsKept {
		r.Said(&pb.ImagesWord{Token: token, Progress: fmt.Sprint(i)})
	}
	r.Said(&pb.ImagesWord{Token: token, Progress: "last", Done: true})
	close(slow)
	if err := <-ended; err != nil || len(heard) > wordsKept+2 || heard[len(heard)-1] != "last" {
		t.Errorf("%v, %v", heard, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	token, ended = tended(t, ctx, r, s, func(*pb.ImagesWord) error { return nil })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if stop := next(t, s).GetTendImages(); !stop.GetStop() || stop.GetToken() != token {
		t.Errorf("the node is told %v", stop)
	}
	gone := errors.New("the client is gone")
	token, ended = tended(t, t.Context(), r, s, func(*pb.ImagesWord) error { return gone })
	r.Said(&pb.ImagesWord{Token: token})
	if err := <-ended; !errors.Is(err, gone) || !next(t, s).GetTendImages().GetStop() {
		t.Error(err)
	}
	_, ended = tended(t, t.Context(), r, s, nil)
	r.Disconnect(s)
	if err := <-ended; !errors.Is(err, ErrNotConnected) || len(r.tends) != 0 {
		t.Errorf("%v, %d wait", err, len(r.tends))
	}
}
