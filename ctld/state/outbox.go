package state

import (
	"fmt"
	"iter"
	"slices"
	"sort"
)

// This file is what is common to the outboxes of the state: records of what happened, in
// the order of the log, until somebody outside has taken them and a command trims them
// off the front. A record enters in the command of which it tells, so the two cannot be
// apart, and a new leader goes on from what was trimmed.

// Position is where a record is in an outbox: the index of the log entry of which it
// tells, and its number among those of this entry. It never repeats, also not after a
// restore, which continues above all former indices.
type Position uint64

// positionBits are for the number within an entry: an entry names MaxTargets jobs at most.
const positionBits = 20

// EndOf is behind every record of the entries up to this index.
func EndOf(index uint64) Position { return Position((index+1)<<positionBits - 1) }

// Index is that of the log entry.
func (p Position) Index() uint64 { return uint64(p) >> positionBits }

// boxed is a record of an outbox.
type boxed interface {
	position() Position
	size() uint64 // bytes, about
}

// outbox are the records that are not trimmed, in the order of their positions. Only the
// State adds at the end and removes from the front, as with the remembered requests.
type outbox[R boxed] struct {
	records []R
	bytes   uint64 // of all records
	// trimmed is the position up to which records were removed, whether somebody had
	// taken them or not, and lost how many were removed to keep a bound.
	trimmed Position
	lost    uint64
}

func (o *outbox[R]) firstAfter(at Position) int {
	return sort.Search(len(o.records), func(i int) bool { return o.records[i].position() > at })
}

// after are the records behind a position.
func (o *outbox[R]) after(at Position) iter.Seq[R] {
	return func(yield func(R) bool) {
		for _, record := range o.records[o.firstAfter(at):] {
			if !yield(record) {
				return
			}
		}
	}
}

// next is the position of a record that the entry of an index adds.
func (o *outbox[R]) next(index uint64) Position {
	at := max(Position(index<<positionBits), o.trimmed+1)
	if last := len(o.records) - 1; last >= 0 && o.records[last].position() >= at {
		at = o.records[last].position() + 1
	}
	return at
}

func (o *outbox[R]) add(record R) {
	o.records = append(o.records, record)
	o.bytes += record.size()
}

// bound gives up the oldest records if there are more bytes than these, some more than it
// must, so that it need not be done again at once. It returns what it has removed.
func (o *outbox[R]) bound(most uint64) []R {
	if o.bytes <= most {
		return nil
	}
	gone := 0
	for bytes := o.bytes; bytes > most/16*15; gone++ {
		bytes -= o.records[gone].size()
	}
	o.lost += uint64(gone)
	return o.drop(gone)
}

// drop removes records from the front, and returns them.
func (o *outbox[R]) drop(count int) []R {
	if count == 0 {
		return nil
	}
	gone := o.records[:count]
	for _, record := range gone {
		o.bytes -= record.size()
	}
	o.trimmed = max(o.trimmed, gone[count-1].position())
	// What is cut off is kept in memory by what remains of the slice, but not by a copy.
	o.records = slices.Clone(o.records[count:])
	return gone
}

// outboxRecord are some records in a row, as they are persisted.
type outboxRecord[R boxed] struct {
	Trimmed Position `cbor:"1,keyasint,omitempty"`
	Lost    uint64   `cbor:"2,keyasint,omitempty"`
	Records []R      `cbor:"3,keyasint,omitempty"`
}

// boxedPerFrame is how many records are persisted together.
const boxedPerFrame = 512

// persist calls write with what the outbox has; not at all if nothing was ever in it.
func (o *outbox[R]) persist(write func(*outboxRecord[R])) {
	rest := o.records
	if len(rest) == 0 && o.trimmed == 0 && o.lost == 0 {
		return
	}
	record := outboxRecord[R]{Trimmed: o.trimmed, Lost: o.lost}
	for {
		record.Records = rest[:min(len(rest), boxedPerFrame)]
		rest = rest[len(record.Records):]
		write(&record)
		if len(rest) == 0 {
			return
		}
		record = outboxRecord[R]{}
	}
}

// restore adds what was persisted, in a state of an index.
func (o *outbox[R]) restore(record *outboxRecord[R], index uint64) error {
	o.trimmed = max(o.trimmed, record.Trimmed)
	o.lost += record.Lost
	for _, one := range record.Records {
		last := o.trimmed
		if n := len(o.records); n > 0 {
			last = o.records[n-1].position()
		}
		if at := one.position(); at <= last || at > EndOf(index) {
			return fmt.Errorf("a record is at position %d, after %d and in a state of index %d", at, last, index)
		}
		o.add(one)
	}
	return nil
}

// check says what is wrong with it. Like checkEndedRuns, it does not look at all of a
// long one each time.
func (o *outbox[R]) check(what string, index, most uint64) error {
	if index%64 != 0 && len(o.records) > 64 {
		return nil
	}
	bytes, last := uint64(0), o.trimmed
	for _, record := range o.records {
		at := record.position()
		if at <= last || at > EndOf(index) {
			return fmt.Errorf("%s: a record is at position %d after %d, and the index is %d", what, at, last, index)
		}
		bytes, last = bytes+record.size(), at
	}
	if bytes != o.bytes || bytes > most {
		return fmt.Errorf("%s: %d bytes wait, and %d are counted", what, bytes, o.bytes)
	}
	return nil
}
