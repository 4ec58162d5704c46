package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// A line carries what a step says between two nodes of its job. It goes on over
// another tunnel when the one it has breaks, because a controller died or
// another one leads now: a step that runs for days must not end with it. So
// each end keeps what it has read until the other says that it has it, and
// tells the other how much has come. The last byte of an end is followed by
// one that stands for its end, so that this too is known to have arrived.
const (
	// lineWindow bounds what one end keeps; then it reads no more.
	lineWindow = 512 << 10
	// acknowledgeEvery is after how many bytes the other end is told.
	acknowledgeEvery = 64 << 10
)

// localEnd is what a line speaks for. After io.EOF of Read it takes data still.
type localEnd interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// carrier is one tunnel of a line.
type carrier interface {
	Send(*pb.TunnelMessage) error
	Recv() (*pb.TunnelMessage, error)
	CloseSend() error
}

var (
	errAbandoned = errors.New("the other end is gone")
	errNoLine    = errors.New("the other end does not keep what it sends: its gnoded is older than this one, upgrade it")
	errBreach    = errors.New("the other end counts what was never sent")
)

// line is one end.
type line struct {
	local localEnd
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
	gone      error // it does not go on
	abandoned bool  // the other end knows that
	cancel    context.CancelFunc
}

func newLine(local localEnd) *line {
	l := &line{local: local}
	l.wake = sync.NewCond(&l.mu)
	return l
}

// fill reads what the local end says, to its last word. An error of it ends
// the line if mustLast is set; else it was its last word.
func (l *line) fill(mustLast bool) {
	buffer := make([]byte, tunnelBytes)
	for {
		l.mu.Lock()
		for len(l.kept) >= lineWindow && l.gone == nil {
			l.wake.Wait()
		}
		gone := l.gone
		l.mu.Unlock()
		if gone != nil {
			return
		}
		n, err := l.local.Read(buffer)
		l.mu.Lock()
		l.kept = append(l.kept, buffer[:n]...)
		switch {
		case err == nil:
		case errors.Is(err, io.EOF) || !mustLast:
			l.ended = true
		case l.gone == nil:
			l.gone = err
		}
		l.wake.Broadcast()
		l.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// end makes the line end for good.
func (l *line) end(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone == nil {
		l.gone = why
	}
	l.wake.Broadcast()
}

// over says whether the line has ended, why, if that was before its time, and
// whether the other end knows.
func (l *line) over() (over bool, why error, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.complete() || errors.Is(l.gone, errAbandoned) && l.finished {
		return true, nil, true
	}
	return l.gone != nil, l.gone, l.abandoned
}

// complete: both ends have said their last, and know that the other has it.
func (l *line) complete() bool {
	return l.endKnown && l.finished && l.told == l.received+1
}

// run carries the line over one tunnel, until that breaks or the line is over.
// A tunnel that it had before is given up.
func (l *line) run(ctx context.Context, stream carrier) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.mu.Lock()
	if l.cancel != nil {
		l.cancel()
	}
	l.cancel = cancel
	l.mu.Unlock()
	l.using.Lock()
	defer l.using.Unlock()
	defer context.AfterFunc(ctx, l.wake.Broadcast)()

	l.mu.Lock()
	l.told = 0
	count := l.count()
	l.mu.Unlock()
	if err := sendReceived(stream, count); err != nil {
		return err
	}
	have, err := l.greeted(stream)
	if err != nil {
		return err
	}
	var sender sync.WaitGroup
	sender.Go(func() {
		if l.say(ctx, stream, have) != nil {
			cancel()
		}
	})
	err = l.hear(stream)
	cancel()
	sender.Wait()
	return err
}

func sendReceived(stream carrier, count uint64) error {
	return stream.Send(&pb.TunnelMessage{What: &pb.TunnelMessage_Received{Received: count}})
}

// count is what the other end is told to have come.
func (l *line) count() uint64 {
	if l.finished {
		return l.received + 1
	}
	return l.received
}

// greeted waits for the other end's first word: how much it has.
func (l *line) greeted(stream carrier) (uint64, error) {
	first, err := stream.Recv()
	if err != nil {
		return 0, err
	}
	switch what := first.GetWhat().(type) {
	case *pb.TunnelMessage_Received:
		return what.Received, l.has(what.Received)
	case *pb.TunnelMessage_Abandoned:
		l.abandon()
		return 0, errAbandoned
	}
	l.endKnowing(errNoLine)
	return 0, errNoLine
}

func (l *line) abandon() { l.endKnowing(errAbandoned) }

// endKnowing ends the line where the other end need not be told.
func (l *line) endKnowing(why error) {
	l.mu.Lock()
	l.abandoned = true
	l.mu.Unlock()
	l.end(why)
}

// has forgets what the other end has got.
func (l *line) has(count uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.sent + uint64(len(l.kept))
	if l.ended && count == all+1 {
		l.endKnown = true
		count = all
	}
	if count < l.sent || count > all {
		if l.gone == nil {
			l.gone, l.abandoned = errBreach, true
		}
		l.wake.Broadcast()
		return errBreach
	}
	l.kept = l.kept[count-l.sent:]
	l.sent = count
	l.wake.Broadcast()
	return nil
}

// say sends what the other end has not got: data from the position next on,
// the end, and how much has come here.
func (l *line) say(ctx context.Context, stream carrier, next uint64) error {
	endSaid := false
	for {
		message, last := l.nextWord(ctx, &next, &endSaid)
		if message != nil {
			if err := stream.Send(message); err != nil {
				return err
			}
		}
		if message.GetAbandoned() {
			l.mu.Lock()
			l.abandoned = true
			l.mu.Unlock()
		}
		if last {
			return stream.CloseSend()
		}
	}
}

// nextWord waits until there is something to say.
func (l *line) nextWord(ctx context.Context, next *uint64, endSaid *bool) (message *pb.TunnelMessage, last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		all := l.sent + uint64(len(l.kept))
		switch {
		case ctx.Err() != nil:
			return nil, true
		case l.gone != nil && l.abandoned:
			return nil, true
		case l.gone != nil:
			return &pb.TunnelMessage{What: &pb.TunnelMessage_Abandoned{Abandoned: true}}, true
		case l.count()-l.told >= acknowledgeEvery, l.finished && l.told < l.count():
			l.told = l.count()
			return &pb.TunnelMessage{What: &pb.TunnelMessage_Received{Received: l.told}}, false
		case *next < all:
			*next = max(*next, l.sent)
			begin := *next - l.sent
			data := append([]byte(nil), l.kept[begin:min(begin+tunnelBytes, uint64(len(l.kept)))]...)
			*next += uint64(len(data))
			return &pb.TunnelMessage{What: &pb.TunnelMessage_Data{Data: data}}, false
		case l.ended && !*endSaid:
			*endSaid = true
			return &pb.TunnelMessage{What: &pb.TunnelMessage_Finished{Finished: true}}, false
		case l.complete():
			return nil, true
		}
		l.wake.Wait()
	}
}

// hear takes what the other end says until the tunnel ends.
func (l *line) hear(stream carrier) error {
	deaf := false
	for {
		message, err := stream.Recv()
		if err != nil {
			return err
		}
		switch what := message.GetWhat().(type) {
		case *pb.TunnelMessage_Data:
			// What a local end that takes no more is sent is no reason to leave:
			// what it said last may still be on its way.
			if !deaf {
				_, err := l.local.Write(what.Data)
				deaf = err != nil
			}
			l.mu.Lock()
			l.received += uint64(len(what.Data))
			l.wake.Broadcast()
			l.mu.Unlock()
		case *pb.TunnelMessage_Received:
			if err := l.has(what.Received); err != nil {
				return err
			}
		case *pb.TunnelMessage_Finished:
			l.mu.Lock()
			first := !l.finished
			l.finished = true
			l.wake.Broadcast()
			l.mu.Unlock()
			if first {
				_ = l.local.CloseWrite() // one that is gone reads nothing more
			}
		case *pb.TunnelMessage_Abandoned:
			l.abandon()
			return errAbandoned
		case *pb.TunnelMessage_HalfClose: // of the stream: see say
		default:
			return fmt.Errorf("a message of a kind that no line has: %T", what)
		}
	}
}
