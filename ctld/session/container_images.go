package session

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

const (
	// maxTends bounds the orders about container images whose answers somebody waits for.
	maxTends = 65536
	// wordsKept is how many words of one node wait until they are read. Of progress the
	// newest is lost then.
	wordsKept = 16
)

// Tend has a node do something with its container images, and answers each of its words
// until it is done. A node whose client is gone is told so.
func (r *Registry) Tend(ctx context.Context, node string, order *pb.TendImages, each func(*pb.ImagesWord) error) error {
	s := r.Get(node)
	if s == nil {
		return fmt.Errorf("%w: %s", ErrNotConnected, node)
	}
	token := uuid.NewString()
	words := make(chan *pb.ImagesWord, wordsKept)
	r.mu.Lock()
	if len(r.tends) >= maxTends {
		r.mu.Unlock()
		return ErrBusy
	}
	r.tends[token] = words
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.tends, token)
	}()
	order.Token = token
	if !s.Send(&pb.ControllerMessage{What: &pb.ControllerMessage_TendImages{TendImages: order}}) {
		return fmt.Errorf("%w: %s", ErrNotConnected, node)
	}
	stop := func(err error) error {
		s.Send(&pb.ControllerMessage{What: &pb.ControllerMessage_TendImages{TendImages: &pb.TendImages{Token: token, Stop: true}}})
		return err
	}
	for {
		select {
		case word := <-words:
			if err := each(word); err != nil {
				return stop(err)
			}
			if word.GetDone() {
				return nil
			}
		case <-s.Done():
			return fmt.Errorf("%w: %s went before it was done", ErrNotConnected, node)
		case <-ctx.Done():
			return stop(ctx.Err())
		}
	}
}

// Said passes a word to whoever waits for it.
func (r *Registry) Said(word *pb.ImagesWord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	words, waited := r.tends[word.GetToken()]
	switch {
	case !waited:
	case len(words) < cap(words):
		words <- word // nobody else sends
	case word.GetDone():
		select {
		case <-words: // progress
		default:
		}
		words <- word
	}
}
