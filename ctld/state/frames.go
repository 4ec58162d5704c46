package state

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
)

// frameWriter writes records as frames, and remembers the first error.
type frameWriter struct {
	w      io.Writer
	sum    hash.Hash32
	frames uint64
	body   bytes.Buffer // of the frame being written
	err    error
}

func newFrameWriter(w io.Writer) *frameWriter {
	return &frameWriter{w: w, sum: crc32.New(castagnoli)}
}

func (f *frameWriter) raw(bytes []byte) {
	if f.err == nil {
		_, f.err = f.w.Write(bytes)
		f.sum.Write(bytes)
	}
}

func (f *frameWriter) frame(kind frameKind, record any) {
	f.body.Reset()
	err := encoding.MarshalToBuffer(record, &f.body)
	body := f.body.Bytes()
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
}

func frameSum(kind frameKind, body []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte{byte(kind)}, castagnoli), castagnoli, body)
}

// numbers are those of the shared records written so far.
type numbers struct {
	owners map[*Owner]uint32
	blobs  map[*Blob]uint32
	specs  map[*Spec]uint32
}

func newNumbers() *numbers {
	return &numbers{owners: make(map[*Owner]uint32), blobs: make(map[*Blob]uint32), specs: make(map[*Spec]uint32)}
}

// job writes a job, after those it points at that are not written yet.
func (f *frameWriter) job(job *Job, written *numbers) {
	owner := numberOf(written.owners, job.Spec.owner, func() { f.frame(frameOwner, job.Spec.owner) })
	record := jobRecord{
		Job: *job,
		Own: job.Own(),
		Spec: numberOf(written.specs, job.Spec, func() {
			f.frame(frameSpec, &specRecord{Spec: *job.Spec, Owner: owner})
		}),
	}
	record.Script = f.blob(job.Script, written)
	record.Environment = f.blob(job.Environment, written)
	f.frame(frameJob, &record)
}

func (f *frameWriter) blob(blob *Blob, written *numbers) uint32 {
	if blob == nil {
		return 0
	}
	return numberOf(written.blobs, blob, func() { f.frame(frameBlob, blob.Bytes) })
}

// numberOf is the number of a shared record, written first if it is not yet.
func numberOf[R comparable](written map[R]uint32, record R, write func()) uint32 {
	number, known := written[record]
	if !known {
		write()
		number = uint32(len(written)) + 1
		written[record] = number
	}
	return number
}
