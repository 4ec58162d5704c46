// Package tunneldata finds the bytes in a message of a tunnel where they came, so that
// images pass without a copy.
//
// Contract: it knows only the form in which everybody writes a TunnelMessage with data and
// nothing else. Of any other message it says that it is another one, and the caller reads
// it as usual: a message in which the data is written in another way is never misread.
package tunneldata

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/gleaner-hpc/gleaner/proto/passon"
)

// dataField is the number of TunnelMessage.data.
const dataField = 2

// mostHead is what is in front of the data at most: the field's tag, and the length.
const mostHead = 1 + 5

// Of says whether a TunnelMessage has data and nothing else, and how many bytes of it.
func Of(m *passon.Message) (bytes int, is bool) {
	_, bytes, is = headOf(m)
	return bytes, is
}

// Reader answers a reader of the data of a TunnelMessage that has nothing else, and takes
// the message then; nil of any other message, which stays as it is.
func Reader(m *passon.Message) *mem.Reader {
	head, _, is := headOf(m)
	if !is {
		return nil
	}
	reader := m.Reader()
	_, _ = reader.Discard(head) // it is there
	return reader
}

func headOf(m *passon.Message) (head, bytes int, is bool) {
	var begin [mostHead]byte
	read := begin[:m.Head(begin[:])]
	number, kind, tag := protowire.ConsumeTag(read)
	if tag < 0 || number != dataField || kind != protowire.BytesType {
		return 0, 0, false
	}
	length, size := protowire.ConsumeVarint(read[tag:])
	if size < 0 || length != uint64(m.Len()-tag-size) {
		return 0, 0, false
	}
	return tag + size, int(length), true
}
