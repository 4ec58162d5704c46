package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/gleaner-hpc/gleaner/proto/step"
)

// typedInput is what the session is to read: it is kept until process 1 has it, so
// that it can be sent again over another connection.
type typedInput struct {
	mu      sync.Mutex
	wake    *sync.Cond // of every change below
	begin   uint64     // position of the first byte that is kept
	kept    []byte
	sent    uint64 // over the present connection
	sending bool   // the last of that is not on its way yet
	ended   bool
	endSent bool // over the present connection
}

func newTypedInput() *typedInput {
	t := &typedInput{}
	t.wake = sync.NewCond(&t.mu)
	return t
}

var errMiscounted = errors.New("the session counts input that was never sent")

// read takes what a reader gives until it ends, no more at once than may be on
// its way. A keyWatch looks at it first.
func (t *typedInput) read(reader io.Reader, keys *keyWatch) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := reader.Read(buffer)
		data, leave := keys.pass(buffer[:n], time.Now())
		t.mu.Lock()
		for len(t.kept) > step.InputWindow {
			t.wake.Wait()
		}
		t.kept = append(t.kept, data...)
		t.ended = t.ended || err != nil
		t.wake.Broadcast()
		t.mu.Unlock()
		if leave {
			keys.found()
		}
		if leave || err != nil {
			return
		}
	}
}

// flush waits until what was typed is on its way, for a moment.
func (t *typedInput) flush(patience time.Duration) {
	late := false
	defer time.AfterFunc(patience, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		late = true
		t.wake.Broadcast()
	}).Stop()
	t.mu.Lock()
	defer t.mu.Unlock()
	for (t.sending || t.sent < t.begin+uint64(len(t.kept))) && !late {
		t.wake.Wait()
	}
}

// received is what process 1 has at the beginning of a connection.
func (t *typedInput) received(came, written uint64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	end := t.begin + uint64(len(t.kept))
	switch {
	case came > end:
		return fmt.Errorf("%w: %d of %d bytes", errMiscounted, came, end)
	case came < t.begin:
		// The job resumes from an image made before that came: what was taken
		// since is lost with it.
		t.begin = came
	default:
		t.kept = t.kept[came-t.begin:]
		t.begin = came
	}
	t.sent, t.endSent = came, false
	t.wake.Broadcast()
	return nil
}

// first is the position of the first byte that is kept.
func (t *typedInput) first() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.begin
}

// written is what the session has read meanwhile.
func (t *typedInput) written(count uint64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if count > t.sent {
		return fmt.Errorf("%w: %d of %d bytes", errMiscounted, count, t.sent)
	}
	if count > t.begin {
		t.kept = t.kept[count-t.begin:]
		t.begin = count
	}
	t.wake.Broadcast()
	return nil
}

// send sends what there is over one connection, until that ends.
func (t *typedInput) send(ctx context.Context, at *step.Attachment) {
	defer context.AfterFunc(ctx, t.wake.Broadcast)()
	for {
		message := t.next(ctx)
		if message == nil {
			return
		}
		err := at.Send(message)
		t.mu.Lock()
		t.sending = false
		t.wake.Broadcast()
		t.mu.Unlock()
		if err != nil {
			return // the reader of the connection finds out why
		}
	}
}

func (t *typedInput) next(ctx context.Context) step.Message {
	t.mu.Lock()
	defer t.mu.Unlock()
	for ctx.Err() == nil {
		end := t.begin + uint64(len(t.kept))
		// What came and was not written yet is not in begin: the window is from
		// there.
		room := int(t.begin + step.InputWindow - t.sent)
		switch {
		case t.sent < end && room > 0:
			data := t.kept[t.sent-t.begin:]
			data = append([]byte(nil), data[:min(len(data), room, 32<<10)]...)
			t.sent += uint64(len(data))
			t.sending = true
			return &step.Input{All: true, Data: data}
		case t.sent == end && t.ended && !t.endSent:
			t.endSent = true
			return &step.InputEnd{All: true}
		}
		t.wake.Wait()
	}
	return nil
}

// keyWatch looks for the keys by which a user leaves a session: control-], three
// times within a second, as in machinectl(1). nil looks for nothing.
type keyWatch struct {
	found func()
	times []time.Time
}

const (
	leaveKey   = 0x1d
	leaveTimes = 3
	leaveTime  = time.Second
)

// pass returns what is to be sent on, and whether the user leaves after it.
// Single keys are sent on, since programs use them.
func (k *keyWatch) pass(data []byte, now time.Time) (on []byte, leave bool) {
	if k == nil {
		return data, false
	}
	for i, b := range data {
		if b != leaveKey {
			k.times = nil
			continue
		}
		if k.times = append(k.times, now); len(k.times) > leaveTimes {
			k.times = k.times[1:]
		}
		if len(k.times) == leaveTimes && now.Sub(k.times[0]) <= leaveTime {
			return data[:max(i+1-leaveTimes, 0)], true
		}
	}
	return data, false
}
