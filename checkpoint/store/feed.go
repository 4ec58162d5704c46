package store

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// Feed hands out the bytes of some parts of an image while a restore reads them: each
// chunk is read, unpacked and compared with the manifest a moment before it is asked
// for, and no byte that was not compared leaves a Feed. A reader may go to any
// place; one that goes on from where it was finds what comes next in memory already.
//
// One goroutine reads the image, as many as there are processors unpack. Memory is
// bounded, whatever the image's size and however many readers there are: what nobody
// has read yet and what somebody reads at this moment.
type Feed struct {
	image    Image
	digest   checkpoint.Digest
	parts    map[string]*fedPart
	names    []string
	longest  int64 // stretch
	reach    reach
	damaged  func()
	patience time.Duration   // with an image that does not answer, when the feed is closed
	readers  chan struct{}   // a place for each that reads at this moment
	context  context.Context // of the feed
	cancel   context.CancelCauseFunc
	ended    chan struct{} // all goroutines have ended

	mu      sync.Mutex
	wake    *sync.Cond // something is pending, or the feed ends
	held    []*stretch // in memory, or about to be; the one used last is last
	bytes   int64      // of buffers that are held
	pending []*stretch // to be read from the image, in order
	idle    [][]byte   // buffers
	scratch [][]byte   // for what is stored
	failure error      // the first: no more is handed out
}

// fedPart is a part that is handed out.
type fedPart struct {
	*checkpoint.Part
	number    uint32
	stretches []stretchOf
	next      int // stretch, for whoever goes on from where it was
	known     map[int]*stretch
}

// stretchOf is some chunks, one behind the other, that are unpacked together; or a hole.
type stretchOf struct {
	offset, size int64
	first, last  int // chunks; last is not in it
	hole         bool
}

// stretch is one of them in memory.
type stretch struct {
	part   *fedPart
	number int
	buffer []byte
	stored []byte // chunks that have to be unpacked
	ends   []int  // of each of them, in stored; 0 = it lies in the buffer
	ready  chan struct{}
	err    error // once it is ready
	users  int   // that read it, or wait for it
	over   bool  // its end was read
}

// Bounds of a feed.
const (
	stretchBytes = 1 << 20
	// feedReaders is how many are served at the same time: each holds a stretch or two.
	feedReaders = 32
	// holeBytes: a shorter hole lies in a stretch with what is around it.
	holeBytes = 256 << 10
)

// reach is how much a feed holds.
type reach struct {
	ahead int64 // is made ready for a reader that goes on
	all   int64 // about
}

// The buffers are memory that no process had: where that is dear, a few that go round cost
// less than many, and they stay in the processor's cache. An image that comes from another
// node is asked for in larger steps: each costs the time to that node and back.
var (
	reachHere  = reach{ahead: 8 << 20, all: 14 << 20}
	reachThere = reach{ahead: 24 << 20, all: 56 << 20}
)

// errFeedClosed is returned to whoever still reads.
var errFeedClosed = errors.New("nothing more is read from the image")

// newFeed begins with the parts that are fed. It closes the image, in the end,
// and tells damaged if it is.
func newFeed(ctx context.Context, image Image, digest checkpoint.Digest, way func(*checkpoint.Part) Way, holds reach, damaged func()) *Feed {
	f := &Feed{
		image: image, digest: digest, parts: map[string]*fedPart{}, reach: holds, damaged: damaged, patience: 2 * time.Second,
		readers: make(chan struct{}, feedReaders), ended: make(chan struct{}),
	}
	f.wake = sync.NewCond(&f.mu)
	f.context, f.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	m := image.Manifest()
	for i := range m.Parts {
		part := &m.Parts[i]
		if part.Size == 0 || way(part) != Fed {
			continue
		}
		p := &fedPart{Part: part, number: uint32(i), stretches: stretchesOf(part), known: map[int]*stretch{}}
		for _, s := range p.stretches {
			if !s.hole {
				f.longest = max(f.longest, s.size)
			}
		}
		f.parts[part.Name] = p
		f.names = append(f.names, part.Name)
	}
	f.begin()
	return f
}

// stretchesOf divides a part.
func stretchesOf(part *checkpoint.Part) []stretchOf {
	var all []stretchOf
	at := int64(0)
	var open stretchOf
	end := func(next int) {
		if open.last = next; open.size > 0 {
			all = append(all, open)
		}
		open = stretchOf{offset: at, first: next}
	}
	for i, c := range part.Chunks {
		large := c.Hole() && c.Size >= holeBytes
		if large {
			end(i)
		}
		open.size, open.hole = open.size+c.Size, large
		at += c.Size
		if large || open.size >= stretchBytes {
			end(i + 1)
		}
	}
	end(len(part.Chunks))
	return all
}

// begin starts what works for the feed, with what is read first.
func (f *Feed) begin() {
	workers := min(runtime.GOMAXPROCS(0), 8)
	loaded := make(chan *stretch, workers)
	var working sync.WaitGroup
	working.Go(func() {
		defer close(loaded)
		f.load(loaded)
	})
	for range workers {
		working.Go(func() {
			for s := range loaded {
				f.settle(s, f.unpack(s))
			}
		})
	}
	go func() {
		working.Wait()
		_ = f.image.Close() // it was only read
		close(f.ended)
	}()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range f.names {
		p := f.parts[name]
		for i := range p.stretches {
			if !f.want(p, i) {
				return
			}
		}
	}
}

// Parts answers the names of the parts that are handed out, in the image's order.
func (f *Feed) Parts() []string { return slices.Clone(f.names) }

// Size answers how long a part is.
func (f *Feed) Size(part string) int64 {
	if p := f.parts[part]; p != nil {
		return p.Part.Size
	}
	return 0
}

// Err answers why the feed hands out nothing more, or nil.
func (f *Feed) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failure
}

// Close ends the feed, and whoever still reads gets an error. It waits until the image is
// closed, but for a moment only, if whatever the image lies on does not answer.
func (f *Feed) Close() {
	f.cancel(errFeedClosed)
	f.mu.Lock()
	if f.failure == nil {
		f.failure = errFeedClosed
	}
	f.wake.Broadcast()
	f.mu.Unlock()
	select {
	case <-f.ended:
	case <-time.After(f.patience):
	}
}

// Read answers bytes of a part from a place on, in pieces: at least one byte, at most so
// many, and none at the part's end. They stay as they are until done is called.
func (f *Feed) Read(name string, offset, most int64) (pieces [][]byte, done func(), err error) {
	part := f.parts[name]
	if part == nil {
		return nil, nil, fmt.Errorf("the feed has no part %s", name)
	}
	if most = min(most, part.Part.Size-offset); most <= 0 {
		return nil, func() {}, nil
	}
	select {
	case f.readers <- struct{}{}:
	case <-f.context.Done():
		return nil, nil, context.Cause(f.context)
	}
	r := &read{feed: f}
	for number := part.at(offset); most > 0 && len(r.used) < readStretches; number++ {
		of := &part.stretches[number]
		from := offset - of.offset
		n := min(most, of.size-from)
		if of.hole {
			n = min(n, stretchBytes)
			r.pieces = append(r.pieces, zeroBytes()[:n])
			if n < of.size-from {
				break
			}
		} else {
			s, err := f.use(part, number)
			if err != nil {
				r.done()
				return nil, nil, err
			}
			r.used = append(r.used, usedStretch{s, from+n == of.size})
			r.pieces = append(r.pieces, s.buffer[from:from+n])
		}
		offset, most = offset+n, most-n
	}
	return r.pieces, r.done, nil
}

// readStretches is how many stretches one read holds at most.
const readStretches = 2

// read is what one reader is handed out.
type read struct {
	feed   *Feed
	pieces [][]byte
	used   []usedStretch
}

type usedStretch struct {
	*stretch
	toEnd bool
}

func (r *read) done() {
	for _, u := range r.used {
		r.feed.drop(u.stretch, u.toEnd)
	}
	<-r.feed.readers
}

// at answers the number of the stretch in which a place lies.
func (p *fedPart) at(offset int64) int {
	number, _ := slices.BinarySearchFunc(p.stretches, offset, func(s stretchOf, at int64) int {
		switch {
		case s.offset+s.size <= at:
			return -1
		case s.offset > at:
			return 1
		}
		return 0
	})
	return number
}

// zeroBytes are what large holes consist of.
var zeroBytes = sync.OnceValue(func() []byte { return make([]byte, stretchBytes) })

// use waits for a stretch, and asks for those behind it.
func (f *Feed) use(part *fedPart, number int) (*stretch, error) {
	f.mu.Lock()
	if err := f.failure; err != nil {
		f.mu.Unlock()
		return nil, err
	}
	s := part.known[number]
	if s == nil {
		s = f.hold(part, number)
	}
	s.users++
	at := slices.Index(f.held, s)
	f.held = append(slices.Delete(f.held, at, at+1), s)
	if number == part.next || number == part.next-1 {
		ahead := int64(0)
		for next := number + 1; next < len(part.stretches) && ahead < f.reach.ahead && f.want(part, next); next++ {
			ahead += part.stretches[next].size
		}
	}
	part.next = number + 1
	f.mu.Unlock()
	select {
	case <-s.ready:
	case <-f.context.Done():
		f.drop(s, false)
		return nil, context.Cause(f.context)
	}
	if s.err != nil {
		f.drop(s, false)
		return nil, s.err
	}
	return s, nil
}

func (f *Feed) drop(s *stretch, over bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.users--
	s.over = s.over || over
}

// want has a stretch made ready if there is room for it, and answers whether there is.
func (f *Feed) want(part *fedPart, number int) bool {
	if part.stretches[number].hole || part.known[number] != nil {
		return true
	}
	if f.bytes+f.longest > f.reach.all && !f.evict(func(s *stretch) bool { return s.over }) {
		return false
	}
	f.hold(part, number)
	return true
}

// hold begins with a stretch, whatever there is room for: somebody waits for it.
func (f *Feed) hold(part *fedPart, number int) *stretch {
	for f.bytes+f.longest > f.reach.all {
		if !f.evict(func(s *stretch) bool { return s.over }) && !f.evict(func(*stretch) bool { return true }) {
			break
		}
	}
	s := &stretch{part: part, number: number, ready: make(chan struct{})}
	if n := len(f.idle); n > 0 {
		s.buffer, f.idle = f.idle[n-1], f.idle[:n-1]
	} else {
		s.buffer = make([]byte, f.longest)
	}
	if n := len(f.scratch); n > 0 {
		s.stored, f.scratch = f.scratch[n-1][:0], f.scratch[:n-1]
	}
	part.known[number] = s
	f.held = append(f.held, s)
	f.bytes += f.longest
	f.pending = append(f.pending, s)
	f.wake.Signal()
	return s
}

// evict forgets the stretch that was used the longest time ago, of those that may go.
func (f *Feed) evict(may func(*stretch) bool) bool {
	for i, s := range f.held {
		select {
		case <-s.ready:
		default:
			continue
		}
		if s.users > 0 || !may(s) {
			continue
		}
		f.held = slices.Delete(f.held, i, i+1)
		delete(s.part.known, s.number)
		f.bytes -= f.longest
		f.idle = append(f.idle, s.buffer)
		return true
	}
	return false
}
