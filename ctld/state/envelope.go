package state

import (
	"fmt"
	"hash/crc32"
	"math"

	"github.com/fxamacker/cbor/v2"

	"github.com/gleaner-hpc/gleaner/ctld/state/bounds"
)

// Version is the format of the envelope and of all bodies together. It is
// raised when an older program could misread an entry; a new kind of command
// or a new field needs no new version, because unknown ones stop a peer too,
// but it needs a Level, so that no peer has to stop.
const Version = 1

// RequestID names a client's request, so that a retry takes effect once. The
// zero RequestID is not remembered.
type RequestID [16]byte

// Envelope is one entry of the log.
type Envelope struct {
	Version   uint32    `cbor:"1,keyasint"`
	Kind      Kind      `cbor:"2,keyasint"`
	RequestID RequestID `cbor:"3,keyasint"`
	TimeMS    int64     `cbor:"4,keyasint"` // Unix milliseconds, of the leader that proposed it
	CRC32C    uint32    `cbor:"5,keyasint"` // Castagnoli, of Body
	Body      []byte    `cbor:"6,keyasint"` // the command, encoded alike
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// The one encoding everywhere: RFC 8949 section 4.2.1, with integer keys.
var (
	encoding = mustEncMode()
	decoding = mustDecMode()
)

func mustEncMode() cbor.UserBufferEncMode {
	mode, err := cbor.CoreDetEncOptions().UserBufferEncMode()
	if err != nil {
		panic(err)
	}
	return mode
}

func mustDecMode() cbor.DecMode {
	mode, err := cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		IndefLength:       cbor.IndefLengthForbidden,
		TagsMd:            cbor.TagsForbidden,
		UTF8:              cbor.UTF8DecodeInvalid, // the API has checked text; a peer must not stop for it
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		MaxNestedLevels:   16,
		MaxArrayElements:  1 << 20,
		MaxMapPairs:       1 << 16,
	}.DecMode()
	if err != nil {
		panic(err)
	}
	return mode
}

// Encode wraps a command into a log entry. timeMS is the leader's clock in
// Unix milliseconds. A Refusal is returned for a command that no log may hold.
func Encode(command Command, id RequestID, timeMS int64) ([]byte, error) {
	body, err := encoding.Marshal(command)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", command.kind(), err)
	}
	if len(body) > bounds.MaxBodyBytes {
		return nil, refuse(Exhausted, "request of %d bytes is larger than %d", len(body), bounds.MaxBodyBytes)
	}
	entry, err := encoding.Marshal(Envelope{
		Version:   Version,
		Kind:      command.kind(),
		RequestID: id,
		TimeMS:    timeMS,
		CRC32C:    crc32.Checksum(body, castagnoli),
		Body:      body,
	})
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", command.kind(), err)
	}
	// A committed entry that does not decode would stop every peer.
	if _, _, err := Decode(entry); err != nil {
		return nil, refuse(Invalid, "request cannot be put into the log: %v", err)
	}
	return entry, nil
}

// Decode reads a log entry and its command. The error wraps
// ErrUnknownCommand or ErrCorruptCommand.
func Decode(entry []byte) (Envelope, Command, error) {
	envelope, err := decodeEnvelope(entry)
	if err != nil {
		return envelope, nil, err
	}
	row, known := commands[envelope.Kind]
	if !known {
		return envelope, nil, fmt.Errorf("%w: kind %d", ErrUnknownCommand, envelope.Kind)
	}
	command, err := row.decode(envelope.Body)
	if err != nil {
		return envelope, nil, fmt.Errorf("%s: %w", row.name, classify(err))
	}
	if err := mustUnderstand(LevelOf(command)); err != nil {
		return envelope, nil, fmt.Errorf("%s: %w", row.name, err)
	}
	return envelope, command, nil
}

func decodeEnvelope(entry []byte) (Envelope, error) {
	var envelope Envelope
	if err := decoding.Unmarshal(entry, &envelope); err != nil {
		return envelope, classify(err)
	}
	if envelope.Version != Version {
		return envelope, fmt.Errorf("%w: version %d, this program writes %d", ErrUnknownCommand, envelope.Version, Version)
	}
	if sum := crc32.Checksum(envelope.Body, castagnoli); sum != envelope.CRC32C {
		return envelope, fmt.Errorf("%w: checksum %08x, expected %08x", ErrCorruptCommand, sum, envelope.CRC32C)
	}
	if envelope.TimeMS < 0 || envelope.TimeMS/1000 > math.MaxUint32 { // indices keep seconds in 32 bits
		return envelope, fmt.Errorf("%w: time %d", ErrCorruptCommand, envelope.TimeMS)
	}
	return envelope, nil
}

// classify tells what a newer program wrote from what nobody wrote.
func classify(err error) error {
	if _, newer := err.(*cbor.UnknownFieldError); newer {
		return fmt.Errorf("%w: %w", ErrUnknownCommand, err)
	}
	return fmt.Errorf("%w: %w", ErrCorruptCommand, err)
}
