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
	head   [9]byte      // of it
	record jobRecord    // being written
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
	binary.BigEndian.PutUint32(f.head[0:], uint32(len(body)))
	f.head[4] = byte(kind)
	binary.BigEndian.PutUint32(f.head[5:], frameSum(kind, body))
	f.raw(f.head[:])
	f.raw(body)
	f.frames++
}

func frameSum(kind frameKind, body []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte{byte(kind)}, castagnoli), castagnoli, body)
}

// numbers are those of the shared records written so far, from 1.
type numbers struct {
	owners map[*Owner]uint32
	blobs  map[*Blob]uint32
	specs  map[*Spec]uint32
}

func newNumbers() *numbers {
	return &numbers{owners: make(map[*Owner]uint32), blobs: make(map[*Blob]uint32), specs: make(map[*Spec]uint32)}
}

// job writes a job, after the records that it refers to and that are not
// written yet.
func (f *frameWriter) job(job *Job, written *numbers) {
	f.record = jobRecord{
		Job: *job, Own: job.Own(), Spec: f.spec(job.Spec, written),
		Script: f.blob(job.Script, written), Environment: f.blob(job.Environment, written),
	}
	f.frame(frameJob, &f.record)
}

func (f *frameWriter) spec(spec *Spec, written *numbers) uint32 {
	if number, known := written.specs[spec]; known {
		return number
	}
	owner, known := written.owners[spec.owner]
	if !known {
		f.frame(frameOwner, spec.owner)
		owner = uint32(len(written.owners)) + 1
		written.owners[spec.owner] = owner
	}
	f.frame(frameSpec, &specRecord{Spec: *spec, Owner: owner})
	number := uint32(len(written.specs)) + 1
	written.specs[spec] = number
	return number
}

func (f *frameWriter) blob(blob *Blob, written *numbers) uint32 {
	if blob == nil {
		return 0
	}
	number, known := written.blobs[blob]
	if !known {
		f.frame(frameBlob, blob.Bytes)
		number = uint32(len(written.blobs)) + 1
		written.blobs[blob] = number
	}
	return number
}
