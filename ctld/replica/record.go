package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/fxamacker/cbor/v2"
	"github.com/hashicorp/raft"
)

// bbolt checks only its meta pages, and raft-boltdb nothing. The two records
// below, which are kept as the data of the store's entries, show every other
// flipped bit.

// seal is what a whole file must agree with: if a page is lost, or is an older
// version of itself, the log ends elsewhere than the seal says.
type seal struct {
	TxID   uint64            // the transaction that wrote it, which is the file's last
	First  uint64            // index of the first entry
	Last   uint64            // of the last; First-1 when there is none
	Sum    uint32            // checksum of the last entry, 0 when there is none
	Stable map[string][]byte // raft's term and vote
	// Cutting: entries outside First and Last are being removed, in the
	// transaction after this one.
	Cutting bool
}

// errSum is returned for a record whose checksum is wrong.
var errSum = errors.New("checksum is wrong")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encodeSeal is its checksum, 4 bytes big-endian, and itself as CBOR.
func encodeSeal(s seal) ([]byte, error) {
	body, err := cbor.Marshal(s)
	if err != nil {
		return nil, err
	}
	return append(binary.BigEndian.AppendUint32(nil, crc32.Checksum(body, castagnoli)), body...), nil
}

func decodeSeal(record []byte) (seal, error) {
	var s seal
	if len(record) < 4 || binary.BigEndian.Uint32(record) != crc32.Checksum(record[4:], castagnoli) {
		return s, fmt.Errorf("seal: %w", errSum)
	}
	if err := cbor.Unmarshal(record[4:], &s); err != nil {
		return s, fmt.Errorf("seal: %w", err)
	}
	if s.First == 0 || s.Last+1 < s.First {
		return s, fmt.Errorf("seal: a log from %d to %d", s.First, s.Last)
	}
	return s, nil
}

// An entry is the checksum of the one before it, its own, its term (8 bytes),
// its type (1 byte), all big-endian, and its data. Its own checksum covers all
// the rest and its index, so the entries are a chain that ends at the seal.
const entryHeader = 4 + 4 + 8 + 1

func encodeEntry(previous uint32, log *raft.Log) (record []byte, sum uint32) {
	record = make([]byte, entryHeader, entryHeader+len(log.Data))
	binary.BigEndian.PutUint32(record, previous)
	binary.BigEndian.PutUint64(record[8:], log.Term)
	record[16] = byte(log.Type)
	record = append(record, log.Data...)
	sum = entrySum(log.Index, record)
	binary.BigEndian.PutUint32(record[4:], sum)
	return record, sum
}

func entrySum(index uint64, record []byte) uint32 {
	sum := crc32.Checksum(binary.BigEndian.AppendUint64(nil, index), castagnoli)
	sum = crc32.Update(sum, castagnoli, record[:4])
	return crc32.Update(sum, castagnoli, record[8:])
}

// checkEntry returns the checksums of the entry before and of this one.
func checkEntry(index uint64, record []byte) (previous, sum uint32, err error) {
	if len(record) < entryHeader {
		return 0, 0, fmt.Errorf("entry %d has %d bytes", index, len(record))
	}
	previous, sum = binary.BigEndian.Uint32(record), binary.BigEndian.Uint32(record[4:])
	if entrySum(index, record) != sum {
		return 0, 0, fmt.Errorf("entry %d: %w", index, errSum)
	}
	return previous, sum, nil
}

// decodeEntry reads an entry, whose data stays part of the record.
func decodeEntry(index uint64, record []byte, log *raft.Log) error {
	if _, _, err := checkEntry(index, record); err != nil {
		return err
	}
	*log = raft.Log{
		Index: index, Term: entryTerm(record), Type: raft.LogType(record[16]),
		Data: record[entryHeader:],
	}
	return nil
}

func entryTerm(record []byte) uint64 { return binary.BigEndian.Uint64(record[8:]) }
