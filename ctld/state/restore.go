package state

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"

	"github.com/fxamacker/cbor/v2"

	"github.com/gleaner-hpc/gleaner/ctld/state/policy"
)

// Restore reads what Persist wrote. It refuses anything damaged, cut short or
// newer, naming the record: the error wraps ErrCorruptSnapshot or
// ErrUnknownCommand.
func Restore(r io.Reader) (*State, error) {
	in := &frameReader{r: bufio.NewReaderSize(r, 1<<16), sum: crc32.New(castagnoli)}
	if err := in.readMagic(); err != nil {
		return nil, err
	}
	s := &restoring{State: empty()}
	for last := 0; ; {
		kind, body, err := in.next()
		if err != nil {
			return nil, err
		}
		order, known := frameOrder[kind]
		if known && order < last || last == 0 && kind != frameHeader {
			return nil, in.damaged("a %s record is out of order", frameNames[kind])
		}
		last = order
		if kind == frameTrailer {
			return s.State, s.finishRestore(in, body)
		}
		if err := s.restoreFrame(kind, body); err != nil {
			return nil, in.classify(err)
		}
		in.frames++
		s.changes = changes{}
	}
}

// frameOrder is the order in which kinds of frame come; those of the same
// number come in any. An unknown kind is refused when it is read.
var frameOrder = map[frameKind]int{
	frameHeader: 1, framePolicy: 2, frameNode: 3,
	frameQOS: 4, frameAccount: 5, frameUser: 6, frameAssociation: 7, frameCertificate: 7, frameOwnerDay: 7, frameReservation: 7, frameEndedRuns: 7, frameHistory: 7, frameMail: 7, frameArrayMail: 7,
	frameOwner: 8, frameBlob: 8, frameSpec: 8, frameJob: 8,
	frameRemembered: 9, frameTrailer: 10,
}

// restoring is a state that is being read, with the shared records so far, by
// number.
type restoring struct {
	*State
	owners []*Owner
	blobs  []*Blob
	specs  []*Spec
}

func (s *restoring) restoreFrame(kind frameKind, body []byte) error {
	switch kind {
	case frameHeader:
		return decodeThen(body, s.restoreHeader)
	case framePolicy:
		return decodeThen(body, s.restorePolicy)
	case frameNode:
		return decodeThen(body, s.restoreNode)
	case frameOwner:
		return decodeThen(body, s.restoreOwner)
	case frameBlob:
		return decodeThen(body, s.restoreBlob)
	case frameSpec:
		return decodeThen(body, s.restoreSpec)
	case frameJob:
		return decodeThen(body, s.restoreJob)
	case frameRemembered:
		return decodeThen(body, s.restoreRemembered)
	case frameQOS:
		return decodeThen(body, s.restoreQOS)
	case frameAccount:
		return decodeThen(body, s.restoreAccount)
	case frameUser:
		return decodeThen(body, s.restoreUser)
	case frameAssociation:
		return decodeThen(body, s.restoreAssociation)
	case frameCertificate:
		return decodeThen(body, s.restoreCertificate)
	case frameOwnerDay:
		return decodeThen(body, s.restoreOwnerDay)
	case frameReservation:
		return decodeThen(body, s.restoreReservation)
	case frameEndedRuns:
		return decodeThen(body, s.restoreEndedRuns)
	case frameHistory:
		return decodeThen(body, func(record *outboxRecord[HistoryRun]) error { return s.outbox.restore(record, s.index) })
	case frameMail:
		return decodeThen(body, s.restoreMail)
	case frameArrayMail:
		return decodeThen(body, s.restoreArrayMail)
	default:
		return fmt.Errorf("%w: kind %d", ErrUnknownCommand, kind)
	}
}

func decodeThen[R any](body []byte, use func(*R) error) error {
	record := new(R)
	if err := decoding.Unmarshal(body, record); err != nil {
		return err
	}
	return use(record)
}

func (s *State) restoreHeader(header *headerRecord) error {
	if header.Format != Format {
		return fmt.Errorf("%w: format %d, this program reads %d", ErrUnknownCommand, header.Format, Format)
	}
	if err := mustUnderstand(header.Level); err != nil {
		return err
	}
	s.level = max(header.Level, LevelFirst)
	s.term, s.longestLeaseS = header.Term, header.LongestLeaseS
	s.nextAssociation = max(header.NextAssociation, s.nextAssociation)
	s.index, s.timeMS, s.nextJob, s.epochFloor = header.Index, header.TimeMS, header.NextJob, header.EpochFloor
	s.resetFromMS = header.ResetFromMS
	s.reclaims = header.Reclaims
	return nil
}

func (s *State) restorePolicy(site *policy.Policy) error {
	if s.policy != nil {
		return errors.New("a second policy")
	}
	normal, err := policy.Normalize(site)
	if err != nil {
		return err
	}
	s.setPolicy(normal)
	return nil
}

func (s *State) restoreNode(node *Node) error {
	if s.policy == nil {
		return errors.New("no policy came before it")
	}
	if node.Name == "" {
		return errors.New("it has no name")
	}
	s.putNode(node)
	return nil
}

func (s *State) restoreCertificate(certificate *Certificate) error {
	if refused := certificate.check(); refused != nil {
		return refused
	}
	if _, twice := s.certificates.Get(certificate.Serial); twice {
		return fmt.Errorf("certificate %s is there twice", certificate.Serial)
	}
	s.certificates.Set(certificate.Serial, certificate)
	return nil
}

// finishRestore checks the trailer, and that nothing is left over or missing.
func (s *State) finishRestore(in *frameReader, body []byte) error {
	var trailer trailerRecord
	if err := decoding.Unmarshal(body, &trailer); err != nil {
		return in.classify(err)
	}
	if trailer.Frames != in.frames || trailer.CRC32C != in.sumBefore {
		return in.damaged("it has %d records with checksum %08x, and should have %d with %08x", in.frames, in.sumBefore, trailer.Frames, trailer.CRC32C)
	}
	if _, err := in.r.ReadByte(); !errors.Is(err, io.EOF) {
		return in.damaged("something follows it")
	}
	if s.policy == nil {
		return in.damaged("there is no policy")
	}
	if err := s.checkAccounting(); err != nil {
		return in.damaged("%v", err)
	}
	if unused := s.firstUnused(); unused != "" {
		return in.damaged("%s is stored that nothing refers to", unused)
	}
	return nil
}

// frameReader reads frames and knows where it is, for errors.
type frameReader struct {
	r         *bufio.Reader
	sum       hash.Hash32
	sumBefore uint32 // of all bytes before the present frame
	offset    int64  // of the present frame
	following int64  // of the next one
	frames    uint64
	kind      frameKind
}

func (f *frameReader) damaged(format string, arguments ...any) error {
	what := "record"
	if name := frameNames[f.kind]; name != "" {
		what = name + " record"
	}
	return fmt.Errorf("%w: %s %d at byte %d: %s", ErrCorruptSnapshot, what, f.frames, f.offset, fmt.Sprintf(format, arguments...))
}

// classify tells a newer program's record from a damaged one.
func (f *frameReader) classify(err error) error {
	if _, newer := err.(*cbor.UnknownFieldError); newer || errors.Is(err, ErrUnknownCommand) {
		return fmt.Errorf("%s record %d at byte %d: %w: %w", frameNames[f.kind], f.frames, f.offset, ErrUnknownCommand, err)
	}
	return f.damaged("%v", err)
}

func (f *frameReader) readMagic() error {
	word := make([]byte, len(magic))
	if _, err := io.ReadFull(f.r, word); err != nil || string(word) != magic {
		return fmt.Errorf("%w: it does not begin as a persisted state does", ErrCorruptSnapshot)
	}
	f.sum.Write(word)
	f.following = int64(len(word))
	return nil
}

func (f *frameReader) next() (frameKind, []byte, error) {
	f.offset, f.kind = f.following, 0
	f.sumBefore = f.sum.Sum32()
	var head [9]byte
	if _, err := io.ReadFull(f.r, head[:]); err != nil {
		return 0, nil, f.damaged("the state ends here, before its trailer (%v)", err)
	}
	length := binary.BigEndian.Uint32(head[0:])
	f.kind = frameKind(head[4])
	if length > maxFrameBytes {
		return 0, nil, f.damaged("its length %d is impossible", length)
	}
	var body bytes.Buffer // grows with what is there, not with what is claimed
	if _, err := io.CopyN(&body, f.r, int64(length)); err != nil {
		return 0, nil, f.damaged("the state ends in the middle of it (%v)", err)
	}
	if sum, want := frameSum(f.kind, body.Bytes()), binary.BigEndian.Uint32(head[5:]); sum != want {
		return 0, nil, f.damaged("its checksum is %08x and should be %08x", sum, want)
	}
	f.sum.Write(head[:])
	f.sum.Write(body.Bytes())
	f.following += int64(len(head)) + int64(length)
	return f.kind, body.Bytes(), nil
}
