package state

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
)

// Format is the version of what Persist writes.
const Format = 1

// A persisted state is a magic word and then frames: four bytes of length, one
// byte of kind, four bytes of CRC32C over kind and body, and the body, which
// is one record in CBOR; numbers are big-endian. A last frame counts the
// frames and has the CRC32C of all bytes before it. Indices are not written.
const magic = "gleaner-state\n"

type frameKind uint8

// Kinds of frame, in the order they are written. Numbers are append-only.
const (
	frameHeader     frameKind = 1
	framePolicy     frameKind = 2
	frameNode       frameKind = 3
	frameOwner      frameKind = 4
	frameBlob       frameKind = 5
	frameRequest    frameKind = 6
	frameJob        frameKind = 7
	frameRemembered frameKind = 8
	frameTrailer    frameKind = 9
)

var frameNames = map[frameKind]string{
	frameHeader: "header", framePolicy: "policy", frameNode: "node", frameOwner: "owner", frameBlob: "blob",
	frameRequest: "request", frameJob: "job", frameRemembered: "remembered request", frameTrailer: "trailer",
}

// maxFrameBytes bounds one record: the largest are blobs and jobs on all nodes.
const maxFrameBytes = 64 << 20

type headerRecord struct {
	Format  uint32 `cbor:"1,keyasint"`
	Index   uint64 `cbor:"2,keyasint"`
	TimeMS  int64  `cbor:"3,keyasint"`
	NextJob uint32 `cbor:"4,keyasint"`
}

type rememberedRecord struct {
	ID     RequestID   `cbor:"1,keyasint"`
	Kind   Kind        `cbor:"2,keyasint"`
	Index  uint64      `cbor:"3,keyasint"`
	TimeMS int64       `cbor:"4,keyasint"`
	JobID  uint32      `cbor:"5,keyasint,omitempty"`
	Jobs   []JobResult `cbor:"6,keyasint,omitempty"`
}

type trailerRecord struct {
	Frames uint64 `cbor:"1,keyasint"`
	CRC32C uint32 `cbor:"2,keyasint"`
}

// Persist writes the state for Restore. Two states that applied the same log
// write the same bytes.
func (t *tables) Persist(w io.Writer) error {
	buffered := bufio.NewWriterSize(w, 1<<16)
	out := &frameWriter{w: buffered, sum: crc32.New(castagnoli)}
	out.raw([]byte(magic))
	out.frame(frameHeader, headerRecord{Format: Format, Index: t.index, TimeMS: t.timeMS, NextJob: t.nextJob})
	out.frame(framePolicy, t.policy)
	for node := range t.Nodes() {
		out.frame(frameNode, node)
	}
	t.owners.Scan(func(_ string, entry counted[*Owner]) bool {
		return out.frame(frameOwner, entry.value)
	})
	t.blobs.Scan(func(_ string, entry counted[[]byte]) bool {
		return out.frame(frameBlob, entry.value)
	})
	t.requests.Scan(func(_ string, entry counted[*Request]) bool {
		return out.frame(frameRequest, entry.value)
	})
	t.jobs.Scan(func(_ uint32, job *Job) bool {
		return out.frame(frameJob, job)
	})
	t.rememberOrder.Scan(func(_ uint64, id string) bool {
		request, _ := t.remembered.Get(id)
		return out.frame(frameRemembered, rememberedRecord{
			ID: RequestID([]byte(id)), Kind: request.kind, Index: request.index,
			TimeMS: request.timeMS, JobID: request.jobID, Jobs: request.jobs,
		})
	})
	out.frame(frameTrailer, trailerRecord{Frames: out.frames, CRC32C: out.sum.Sum32()})
	if out.err == nil {
		out.err = buffered.Flush()
	}
	if out.err != nil {
		return fmt.Errorf("persist state: %w", out.err)
	}
	return nil
}

type frameWriter struct {
	w      io.Writer
	sum    hash.Hash32
	frames uint64
	err    error
}

func (f *frameWriter) raw(bytes []byte) {
	if f.err == nil {
		_, f.err = f.w.Write(bytes)
		f.sum.Write(bytes)
	}
}

// frame writes one record, and says whether all went well so far.
func (f *frameWriter) frame(kind frameKind, record any) bool {
	body, err := encoding.Marshal(record)
	if err == nil && len(body) > maxFrameBytes {
		err = fmt.Errorf("a %s record of %d bytes is larger than %d", frameNames[kind], len(body), maxFrameBytes)
	}
	if err != nil && f.err == nil {
		f.err = err
	}
	var head [9]byte
	binary.BigEndian.PutUint32(head[0:], uint32(len(body)))
	head[4] = byte(kind)
	binary.BigEndian.PutUint32(head[5:], frameSum(kind, body))
	f.raw(head[:])
	f.raw(body)
	f.frames++
	return f.err == nil
}

func frameSum(kind frameKind, body []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte{byte(kind)}, castagnoli), castagnoli, body)
}
