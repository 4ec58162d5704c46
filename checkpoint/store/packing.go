package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"runtime"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// packing is the way of an image's bytes into packs: start, add for each part, end.
// One goroutine reads the parts and cuts them; as many as there are processors hash and compress; one
// writes, in the order of the parts. What is under way lies in a few batches,
// which go round.
type packing struct {
	d      *Directory
	making string
	base   *base
	room   *room
	cut    cutter

	encoder *zstd.Encoder
	pace    pace
	sources chan origin // to be read
	idle    chan *batch // to be filled
	todo    chan *batch // to be hashed
	order   chan *batch // to be written

	pack  *packWriter
	syncs *errgroup.Group // packs that are made durable

	group   *errgroup.Group
	context context.Context // of the group
}

// origin is where a part's bytes come from.
type origin struct {
	part *checkpoint.Part
	file *os.File
	take bool          // what was read is given back
	pipe bool          // it is as long as what comes
	done chan struct{} // it was read, and cut
}

// batch is a stretch of one part.
type batch struct {
	part    *checkpoint.Part
	data    []byte // as read; its capacity is used up to length
	length  int
	pieces  []piece
	out     []byte  // new chunks as they are stored
	entries []entry // and what they are
	ready   chan struct{}
}

// piece is a chunk or a hole.
type piece struct {
	size int
	hole bool
	sum  checkpoint.Digest
}

// Memory for batches: enough of them to keep every processor busy, and no more
// than that many bytes together.
const (
	batchBytes   = 1 << 20
	batchesBytes = 128 << 20
	// The reader and the writer have some beside: while the writer waits for the
	// disk others are made ready.
	leastSpare = 3
	mostSpare  = 8
)

// start begins with no part. After nil, end has to be called.
func (p *packing) start(ctx context.Context) (err error) {
	length := max(batchBytes, 2*p.cut.maximum)
	most := batchesBytes / length / 2 // each has what is read, and what is stored of it
	workers := min(runtime.GOMAXPROCS(0), max(1, most-leastSpare))
	batches := min(workers+mostSpare, max(most, workers+leastSpare))
	p.idle, p.todo, p.order = make(chan *batch, batches), make(chan *batch, batches), make(chan *batch, batches)
	for range batches {
		p.idle <- &batch{data: make([]byte, length)}
	}
	p.sources = make(chan origin)
	if p.encoder, err = newEncoder(p.cut.maximum, workers); err != nil {
		return err
	}
	p.pace.begun = time.Now()
	p.syncs = new(errgroup.Group)
	p.syncs.SetLimit(2)

	p.group, p.context = errgroup.WithContext(ctx)
	p.group.Go(func() error {
		defer close(p.order)
		defer close(p.todo)
		return p.readAll(p.context)
	})
	for range workers {
		p.group.Go(func() error {
			for b := range p.todo {
				p.squeeze(b)
				close(b.ready)
			}
			return nil
		})
	}
	p.group.Go(func() error { return p.writeAll(p.context) })
	return nil
}

// add packs a part, and returns when all of it was read.
func (p *packing) add(s origin) error {
	s.done = make(chan struct{})
	select {
	case p.sources <- s:
	case <-p.context.Done():
		return context.Cause(p.context)
	}
	select {
	case <-s.done:
		return nil
	case <-p.context.Done():
		return context.Cause(p.context)
	}
}

// addAll packs parts that lie in a directory.
func (p *packing) addAll(parts []checkpoint.Part, directory string, take bool) error {
	top, err := unix.Open(directory, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the directory of the parts: %w", &os.PathError{Op: "open", Path: directory, Err: err})
	}
	defer unix.Close(top)
	for i := range parts {
		file, err := openPart(top, &parts[i], take)
		if err != nil {
			return err
		}
		if err := errors.Join(p.add(origin{part: &parts[i], file: file, take: take}), file.Close()); err != nil {
			return err
		}
	}
	return nil
}

// end waits until all that was added is durable.
func (p *packing) end() error {
	close(p.sources)
	err := p.group.Wait()
	p.encoder.Close()
	if p.pack != nil {
		if err == nil {
			p.finish()
		} else {
			err = errors.Join(err, p.pack.file.Close())
		}
	}
	return errors.Join(err, p.syncs.Wait())
}

func newEncoder(longest, workers int) (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(workers),
		zstd.WithEncoderCRC(false), zstd.WithWindowSize(max(zstd.MinWindowSize, longest)), zstd.WithSingleSegment(true))
}

func (p *packing) readAll(ctx context.Context) error {
	carry := make([]byte, 0, p.cut.maximum)
	for {
		select {
		case s, more := <-p.sources:
			if !more {
				return nil
			}
			if err := p.read(ctx, &s, carry); err != nil {
				return err
			}
			close(s.done)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// read cuts one part. carry is memory for what begins in one batch and ends in
// the next.
func (p *packing) read(ctx context.Context, s *origin, carry []byte) error {
	part, file := s.part, s.file
	left, inHole := part.Size, false
	if s.pipe {
		left, part.Size = math.MaxInt64, 0
	}
	cold := !s.pipe && isCold(file)
	given := int64(0) // back, of the part
	for carry = carry[:0]; left > 0 || len(carry) > 0; {
		var b *batch
		select {
		case b = <-p.idle:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		n := copy(b.data, carry)
		more := int(min(int64(len(b.data)-n), left))
		got, err := io.ReadFull(file, b.data[n:n+more])
		if s.pipe {
			part.Size += int64(got)
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				left, more, err = int64(got), got, nil
			}
		}
		switch {
		case err != nil && ctx.Err() != nil: // what is given up has its files closed
			return context.Cause(ctx)
		case err != nil:
			return fmt.Errorf("read part %s: %w", part.Name, err)
		}
		n, left = n+more, left-int64(more)
		if cold {
			_ = unix.Fadvise(int(file.Fd()), 0, part.Size-left, unix.FADV_DONTNEED)
		}
		if read := part.Size - left; s.take && (read-given >= giveEvery || left == 0 && read > given) {
			giveBack(file, given, read)
			given = read
		}
		b.part, b.pieces, b.length, b.ready = part, b.pieces[:0], 0, make(chan struct{})
		for b.length < n && (left == 0 || n-b.length >= p.cut.maximum) {
			size, hole := p.cut.next(b.data[b.length:n], left == 0, inHole)
			b.pieces = append(b.pieces, piece{size: size, hole: hole})
			b.length, inHole = b.length+size, hole
		}
		carry = append(carry[:0], b.data[b.length:n]...)
		p.todo <- b // neither can be full: all batches have room in it
		p.order <- b
	}
	return nil
}

// openPart opens a part that is to be put, or taken.
func openPart(top int, part *checkpoint.Part, take bool) (*os.File, error) {
	flags := unix.O_RDONLY
	if take {
		flags = unix.O_RDWR // who makes holes has to be able to write
	}
	fd, err := beneath(top, part.Name, flags|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open part %s: %w", part.Name, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("open part %s: %w", part.Name, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size != part.Size {
		unix.Close(fd)
		return nil, fmt.Errorf("part %s is not the file that the manifest says: it has %d bytes, not %d, or is no file", part.Name, st.Size, part.Size)
	}
	_ = unix.Fadvise(fd, 0, 0, unix.FADV_SEQUENTIAL)
	return os.NewFile(uintptr(fd), part.Name), nil
}

// isCold says whether nothing of a file is in the page cache: then nothing is
// to be left there by reading it. What was there before, such as a dump that
// was written a moment ago, goes when its owner deletes it; to push it out
// would write all of it to the disk first.
func isCold(file *os.File) bool {
	var state unix.Cachestat_t
	err := unix.Cachestat(uint(file.Fd()), &unix.CachestatRange{}, &state, 0)
	return err == nil && state.Cache == 0 // older kernels do not say
}

// squeeze hashes the chunks of a batch and compresses those that are new.
func (p *packing) squeeze(b *batch) {
	b.out, b.entries = b.out[:0], b.entries[:0]
	at := 0
	for i := range b.pieces {
		piece := &b.pieces[i]
		data := b.data[at : at+piece.size]
		at += piece.size
		if piece.hole {
			continue
		}
		piece.sum = sumOf(data)
		if !p.base.claim(piece.sum) {
			continue
		}
		begin := len(b.out)
		b.out = p.compress(b.out, data)
		b.entries = append(b.entries, entry{digest: piece.sum, size: uint32(len(data)), stored: uint32(len(b.out) - begin)})
	}
}

// compress appends a chunk as it is to be stored: as it is if it hardly gets
// smaller, and also, in a hurry, unless its beginning gets much smaller.
func (p *packing) compress(out, data []byte) []byte {
	begin := len(out)
	if p.pace.hurry(time.Now()) && len(data) > 2*probeBytes {
		out = p.encoder.EncodeAll(data[:probeBytes], out)
		probed := len(out) - begin
		out = out[:begin]
		if probed > probeBytes/3 {
			return append(out, data...)
		}
	}
	out = p.encoder.EncodeAll(data, out)
	if len(out)-begin > len(data)-len(data)/32 {
		out = append(out[:begin], data...)
	}
	return out
}

// probeBytes is how much of a chunk is tried in a hurry.
const probeBytes = 4 << 10

// writeAll writes the batches in the order in which they were read.
func (p *packing) writeAll(ctx context.Context) error {
	for {
		var b *batch
		var open bool
		select {
		case b, open = <-p.order:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if !open {
			return ctx.Err()
		}
		select {
		case <-b.ready:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		b.part.Chunks = appendPieces(b.part.Chunks, b.pieces)
		began := time.Now()
		if err := p.write(b); err != nil {
			return err
		}
		p.pace.wrote(int64(b.length), time.Since(began))
		p.idle <- b
	}
}

func appendPieces(chunks []checkpoint.Chunk, pieces []piece) []checkpoint.Chunk {
	for _, piece := range pieces {
		if last := len(chunks) - 1; piece.hole && last >= 0 && chunks[last].Hole() {
			chunks[last].Size += int64(piece.size)
			continue
		}
		chunks = append(chunks, checkpoint.Chunk{Size: int64(piece.size), Sum: piece.sum})
	}
	return chunks
}

func (p *packing) write(b *batch) error {
	if len(b.entries) == 0 {
		return nil
	}
	overhead := len(b.entries) * entryBytes
	if p.pack == nil {
		overhead += len(packMagic) + footerBytes
	}
	if err := p.room.take(int64(len(b.out) + overhead)); err != nil {
		return err
	}
	if p.pack == nil {
		w, err := newPackWriter(p.d.disk, path.Join(p.making, packName()), p.cut.target)
		if err != nil {
			return err
		}
		p.pack = w
	}
	if err := p.pack.add(b.out, b.entries); err != nil {
		return err
	}
	if p.pack.full() {
		p.finish()
	}
	return nil
}

// finish makes the pack durable while the next one is filled.
func (p *packing) finish() {
	p.syncs.Go(p.pack.finish)
	p.pack = nil
}
