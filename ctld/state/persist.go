package state

import (
	"bufio"
	"fmt"
	"io"
)

// Format is the version of what Persist writes.
const Format = 1

// A persisted state is a magic word and then frames: four bytes of length, one
// byte of kind, four bytes of CRC32C over kind and body, and the body, which
// is one record in CBOR; numbers are big-endian. A last frame counts the
// frames and has the CRC32C of all bytes before it. Indices are not written.
// Owners, blobs and specs come before the first job that needs them, and are
// referred to by their number among those of their kind, from 1.
const magic = "gleaner-state\n"

type frameKind uint8

// Kinds of frame. Numbers are append-only.
const (
	frameHeader     frameKind = 1
	framePolicy     frameKind = 2
	frameNode       frameKind = 3
	frameOwner      frameKind = 4
	frameBlob       frameKind = 5
	frameSpec       frameKind = 6
	frameJob        frameKind = 7
	frameRemembered frameKind = 8
	frameTrailer    frameKind = 9

	// Only records that were changed.
	frameQOS         frameKind = 10
	frameAccount     frameKind = 11
	frameUser        frameKind = 12
	frameAssociation frameKind = 13

	frameCertificate frameKind = 18

	frameOwnerDay frameKind = 35

	frameReservation frameKind = 36

	frameEndedRuns frameKind = 58
	frameHistory   frameKind = 70
	frameMail      frameKind = 71
	frameArrayMail frameKind = 72
)

var frameNames = map[frameKind]string{
	frameHeader: "header", framePolicy: "policy", frameNode: "node", frameOwner: "owner", frameBlob: "blob",
	frameSpec: "spec", frameJob: "job", frameRemembered: "remembered request", frameTrailer: "trailer",
	frameQOS: "QOS", frameAccount: "account", frameUser: "user", frameAssociation: "association",
	frameCertificate: "certificate", frameOwnerDay: "record of an owner", frameReservation: "reservation",
	frameEndedRuns: "ended runs", frameHistory: "history", frameMail: "mail", frameArrayMail: "array for mail",
}

// maxFrameBytes bounds one record: the largest are blobs and jobs on all nodes.
const maxFrameBytes = 64 << 20

type headerRecord struct {
	Format  uint32 `cbor:"1,keyasint"`
	Index   uint64 `cbor:"2,keyasint"`
	TimeMS  int64  `cbor:"3,keyasint"`
	NextJob uint32 `cbor:"4,keyasint"`
	Level   Level  `cbor:"5,keyasint,omitempty"`

	Term          uint64 `cbor:"6,keyasint,omitempty"`
	LongestLeaseS uint32 `cbor:"7,keyasint,omitempty"`

	EpochFloor uint32 `cbor:"10,keyasint,omitempty"`
	// NextAssociation is 0 as long as none was added.
	NextAssociation uint32 `cbor:"11,keyasint,omitempty"`
	ResetFromMS     int64  `cbor:"12,keyasint,omitempty"`
	Reclaims        uint32 `cbor:"13,keyasint,omitempty"`
}

type rememberedRecord struct {
	ID     RequestID   `cbor:"1,keyasint"`
	Kind   Kind        `cbor:"2,keyasint"`
	Index  uint64      `cbor:"3,keyasint"`
	TimeMS int64       `cbor:"4,keyasint"`
	JobID  uint32      `cbor:"5,keyasint,omitempty"`
	Jobs   []JobResult `cbor:"6,keyasint,omitempty"`
}

// jobRecord is a job with the numbers of the records that it refers to.
type jobRecord struct {
	Job
	Own         Own    `cbor:"20,keyasint"`
	Spec        uint32 `cbor:"21,keyasint"`
	Script      uint32 `cbor:"22,keyasint,omitempty"` // 0 = none
	Environment uint32 `cbor:"23,keyasint,omitempty"`
}

// specRecord is a spec with its owner.
type specRecord struct {
	Spec
	Owner uint32 `cbor:"70,keyasint"`
}

type trailerRecord struct {
	Frames uint64 `cbor:"1,keyasint"`
	CRC32C uint32 `cbor:"2,keyasint"`
}

// Persist writes the state for Restore. Two states that applied the same log
// write the same bytes.
func (t *tables) Persist(w io.Writer) error {
	buffered := bufio.NewWriterSize(w, 1<<16)
	out := newFrameWriter(buffered)
	out.raw([]byte(magic))
	header := headerRecord{Format: Format, Index: t.index, TimeMS: t.timeMS, NextJob: t.nextJob, Level: t.level, Term: t.term, LongestLeaseS: t.longestLeaseS, EpochFloor: t.epochFloor, ResetFromMS: t.resetFromMS, Reclaims: t.reclaims}
	if t.nextAssociation > rootAssociation+1 {
		header.NextAssociation = t.nextAssociation
	}
	out.frame(frameHeader, header)
	out.frame(framePolicy, t.policy)
	for node := range t.Nodes() {
		out.frame(frameNode, node)
	}
	out.accounting(&t.accounting)
	for certificate := range t.Certificates {
		out.frame(frameCertificate, certificate)
	}
	t.ownerDays.Scan(func(_ string, d *OwnerDay) bool {
		out.frame(frameOwnerDay, d)
		return true
	})
	for r := range t.Reservations() {
		out.frame(frameReservation, r)
	}
	t.persistEndedRuns(func(record *endedRunsRecord) { out.frame(frameEndedRuns, record) })
	t.outbox.persist(func(record *outboxRecord[HistoryRun]) { out.frame(frameHistory, record) })
	t.mails.persist(func(record *outboxRecord[*MailEvent]) { out.frame(frameMail, record) })
	t.arrayMails.Scan(func(_ uint32, whole *ArrayMail) bool {
		out.frame(frameArrayMail, whole)
		return true
	})
	written := newNumbers()
	for job := range t.Jobs(0) {
		out.job(job, written)
		if out.err != nil {
			break
		}
	}
	for i := range t.remembered {
		request := &t.remembered[i]
		out.frame(frameRemembered, &rememberedRecord{
			ID: request.id, Kind: request.kind, Index: request.index,
			TimeMS: request.timeMS, JobID: request.jobID, Jobs: request.results(),
		})
	}
	out.frame(frameTrailer, trailerRecord{Frames: out.frames, CRC32C: out.sum.Sum32()})
	if out.err == nil {
		out.err = buffered.Flush()
	}
	if out.err != nil {
		return fmt.Errorf("persist state: %w", out.err)
	}
	return nil
}
