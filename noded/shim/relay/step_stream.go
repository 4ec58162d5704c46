package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// A step stream carries what a step says between two nodes of its job. It resumes
// over another tunnel when the one it has breaks, because a controller died or
// another one leads now: a step that runs for days must not end with it. So
// each end keeps what it has read until the other says that it has it, and
// tells the other how much has come. The last byte of an end is followed by
// one that means its end, so that the other end confirms this too.
const (
	// What one end keeps at most, before it stops reading: as much as keptMost, and in jobs of
	// many nodes less, so that all of an allocation keep about keptByAll; but not so little that
	// a quick step waits for each word that it has arrived.
	keptMost, keptLeast = 512 << 10, 128 << 10
	keptByAll           = 64 << 20
	// acknowledgeEvery is the number of bytes after which the other end is told.
	acknowledgeEvery = 64 << 10
)

// localEnd is the local program of a step stream. After io.EOF of Read it still takes
// data.
type localEnd interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// carrier is one tunnel of a step stream.
type carrier interface {
	Send(*pb.TunnelMessage) error
	Recv() (*pb.TunnelMessage, error)
	CloseSend() error
}

var (
	errAbandoned = errors.New("the other end is gone")
	errNoStream  = errors.New("the other end does not count what it sends")
	errBreach    = errors.New("the other end counts what was never sent")
)

// stepStream is one end.
type stepStream struct {
	local localEnd
	most  int        // that is kept
	using sync.Mutex // one tunnel at a time

	mu   sync.Mutex
	wake *sync.Cond // of every change below
	// What was read here: sent bytes are known to have arrived, then come
	// those that are kept. After all of them comes the end, if there is one.
	sent      uint64
	kept      []byte
	ended     bool
	endKnown  bool // the other end has it
	received  uint64
	finished  bool // the other end has said its last
	told      uint64
	gone      error // it does not resume
	abandoned bool  // the other end knows that
	cancel    context.CancelFunc
}

// keptOf is what each of so many streams keeps at most.
func keptOf(streams int) int { return max(keptLeast, min(keptMost, keptByAll/streams)) }

func newStepStream(local localEnd, most int) *stepStream {
	s := &stepStream{local: local, most: most}
	s.wake = sync.NewCond(&s.mu)
	return s
}

// fill reads what the local end says, to its last word. A read error ends
// the step stream if mustLast is set; otherwise the stream is over.
func (s *stepStream) fill(mustLast bool) {
	buffer := make([]byte, tunnelBytes)
	for {
		s.mu.Lock()
		for len(s.kept) >= s.most && s.gone == nil {
			s.wake.Wait()
		}
		gone := s.gone
		s.mu.Unlock()
		if gone != nil {
			return
		}
		n, err := s.local.Read(buffer)
		s.mu.Lock()
		s.kept = append(s.kept, buffer[:n]...)
		switch {
		case err == nil:
		case errors.Is(err, io.EOF) || !mustLast:
			s.ended = true
		case s.gone == nil:
			s.gone = err
		}
		s.wake.Broadcast()
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// end ends the step stream for good.
func (s *stepStream) end(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone == nil {
		s.gone = why
	}
	s.wake.Broadcast()
}

// over says whether the step stream has ended, why, if that was before its time, and
// whether the other end knows.
func (s *stepStream) over() (over bool, why error, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.complete() || errors.Is(s.gone, errAbandoned) && s.finished {
		return true, nil, true
	}
	return s.gone != nil, s.gone, s.abandoned
}

// complete: both ends have said their last, and know that the other has it.
func (s *stepStream) complete() bool {
	return s.endKnown && s.finished && s.told == s.received+1
}

// run carries the step stream over one tunnel, until that breaks or the stream is over.
// It gives up a tunnel that the stream had before.
func (s *stepStream) run(ctx context.Context, stream carrier) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	if s.cancel != nil {
		s.cancel()
	}
	s.cancel = cancel
	s.mu.Unlock()
	s.using.Lock()
	defer s.using.Unlock()
	defer context.AfterFunc(ctx, s.wake.Broadcast)()

	s.mu.Lock()
	s.told = 0
	count := s.count()
	s.mu.Unlock()
	if err := sendReceived(stream, count); err != nil {
		return err
	}
	have, err := s.greeted(stream)
	if err != nil {
		return err
	}
	var sender sync.WaitGroup
	sender.Go(func() {
		if s.say(ctx, stream, have) != nil {
			cancel()
		}
	})
	err = s.hear(stream)
	cancel()
	sender.Wait()
	return err
}

func sendReceived(stream carrier, count uint64) error {
	return stream.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Received{Received: count}})
}

// count is what the other end is told to have come.
func (s *stepStream) count() uint64 {
	if s.finished {
		return s.received + 1
	}
	return s.received
}

// greeted waits for the other end's first word: how much it has.
func (s *stepStream) greeted(stream carrier) (uint64, error) {
	first, err := stream.Recv()
	if err != nil {
		return 0, err
	}
	switch what := first.GetWhat().(type) {
	case *pb.TunnelMessage_Received:
		return what.Received, s.has(what.Received)
	case *pb.TunnelMessage_Abandoned:
		s.abandon()
		return 0, errAbandoned
	}
	s.endKnowing(errNoStream)
	return 0, errNoStream
}

func (s *stepStream) abandon() { s.endKnowing(errAbandoned) }

// endKnowing ends the step stream if the other end need not be told.
func (s *stepStream) endKnowing(why error) {
	s.mu.Lock()
	s.abandoned = true
	s.mu.Unlock()
	s.end(why)
}

// has forgets what the other end has got.
func (s *stepStream) has(count uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.sent + uint64(len(s.kept))
	if s.ended && count == all+1 {
		s.endKnown = true
		count = all
	}
	if count < s.sent || count > all {
		if s.gone == nil {
			s.gone, s.abandoned = errBreach, true
		}
		s.wake.Broadcast()
		return errBreach
	}
	s.kept = s.kept[count-s.sent:]
	s.sent = count
	s.wake.Broadcast()
	return nil
}

// say sends what the other end has not got: data from the position next on,
// the end, and how much has come here.
func (s *stepStream) say(ctx context.Context, stream carrier, next uint64) error {
	endSaid := false
	for {
		message, last := s.nextWord(ctx, &next, &endSaid)
		if message != nil {
			if err := stream.Send(message); err != nil {
				return err
			}
		}
		if message.GetAbandoned() {
			s.mu.Lock()
			s.abandoned = true
			s.mu.Unlock()
		}
		if last {
			return stream.CloseSend()
		}
	}
}

// nextWord waits until there is something to say.
func (s *stepStream) nextWord(ctx context.Context, next *uint64, endSaid *bool) (message *pb.TunnelMessage, last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		all := s.sent + uint64(len(s.kept))
		switch {
		case ctx.Err() != nil:
			return nil, true
		case s.gone != nil && s.abandoned:
			return nil, true
		case s.gone != nil:
			return &pb.TunnelMessage{What: &pb.TunnelMessage_Abandoned{Abandoned: true}}, true
		case s.count()-s.told >= acknowledgeEvery, s.finished && s.told < s.count():
			s.told = s.count()
			return &pb.TunnelMessage{What: &pb.TunnelMessage_Received{Received: s.told}}, false
		case *next < all:
			*next = max(*next, s.sent)
			begin := *next - s.sent
			data := append([]byte(nil), s.kept[begin:min(begin+tunnelBytes, uint64(len(s.kept)))]...)
			*next += uint64(len(data))
			return &pb.TunnelMessage{What: &pb.TunnelMessage_Data{Data: data}}, false
		case s.ended && !*endSaid:
			*endSaid = true
			return &pb.TunnelMessage{What: &pb.TunnelMessage_Finished{Finished: true}}, false
		case s.complete():
			return nil, true
		}
		s.wake.Wait()
	}
}

// hear takes what the other end says until the tunnel ends.
func (s *stepStream) hear(stream carrier) error {
	deaf := false
	for {
		message, err := stream.Recv()
		if err != nil {
			return err
		}
		switch what := message.GetWhat().(type) {
		case *pb.TunnelMessage_Data:
			// A local end that no longer takes data is no reason to leave:
			// what it said last may still be on its way.
			if !deaf {
				_, err := s.local.Write(what.Data)
				deaf = err != nil
			}
			s.mu.Lock()
			s.received += uint64(len(what.Data))
			s.wake.Broadcast()
			s.mu.Unlock()
		case *pb.TunnelMessage_Received:
			if err := s.has(what.Received); err != nil {
				return err
			}
		case *pb.TunnelMessage_Finished:
			s.mu.Lock()
			first := !s.finished
			s.finished = true
			s.wake.Broadcast()
			s.mu.Unlock()
			if first {
				_ = s.local.CloseWrite() // if the local end has gone, nobody reads that
			}
		case *pb.TunnelMessage_Abandoned:
			s.abandon()
			return errAbandoned
		case *pb.TunnelMessage_HalfClose: // of the stream: see say
		default:
			return fmt.Errorf("a message of a kind that no step stream has: %T", what)
		}
	}
}
