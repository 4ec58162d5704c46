package history

import (
	"database/sql"
	"errors"

	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/ctld/state"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// A batch has at most so many rows, and is sent on once it has so many bytes.
const (
	batchRows  = 128
	batchBytes = 64 << 10
)

// batches is how many there are of one question: one is read while another is decoded.
const batches = 3

// batch are rows as they were read, one behind the other.
type batch struct {
	at   []state.Position
	ends []int // of the runs, in raw
	raw  []byte
}

func (b *batch) add(at state.Position, run []byte) {
	b.raw = append(b.raw, run...)
	b.at, b.ends = append(b.at, at), append(b.ends, len(b.raw))
}

func (b *batch) full() bool { return len(b.at) >= batchRows || len(b.raw) >= batchBytes }

func (b *batch) clear() { b.at, b.ends, b.raw = b.at[:0], b.ends[:0], b.raw[:0] }

// pass calls use with the runs of rows. Reading and decoding a row take about as long:
// while some are decoded and used, the next are read.
func pass(rows *sql.Rows, use func(state.Position, *pb.PastRun) error) error {
	free, read := make(chan *batch, batches), make(chan *batch, batches)
	for range batches {
		free <- new(batch)
	}
	var failed error // of the reader, when read is closed
	go func() {
		defer close(read)
		failed = fill(rows, free, read)
	}()
	// The reader stops when it gets no further batch, and the rows are closed behind it.
	defer func() {
		close(free)
		for range read { // until the reader has ended
		}
		rows.Close()
	}()
	for some := range read {
		if err := some.each(use); err != nil {
			return err
		}
		some.clear()
		free <- some
	}
	return failed
}

// fill reads rows into the batches that are free, until there are none of either.
func fill(rows *sql.Rows, free <-chan *batch, read chan<- *batch) error {
	var raw sql.RawBytes
	for some := range free {
		for !some.full() {
			if !rows.Next() {
				read <- some
				return rows.Err()
			}
			var at state.Position
			if err := rows.Scan(&at, &raw); err != nil {
				read <- some
				return err
			}
			some.add(at, raw)
		}
		read <- some
	}
	return nil
}

// each decodes the runs of a batch.
func (b *batch) each(use func(state.Position, *pb.PastRun) error) error {
	begin := 0
	for i, end := range b.ends {
		run := new(pb.PastRun)
		if err := proto.Unmarshal(b.raw[begin:end], run); err != nil {
			return errors.Join(ErrDamaged, err)
		}
		if err := use(b.at[i], run); err != nil {
			return err
		}
		begin = end
	}
	return nil
}
