package munge

import "encoding/binary"

// What goes over the socket: a head, which says the kind and length of what follows, then
// numbers in network order, and texts and data behind their lengths.
const (
	magic     = 0x00606D4B
	version   = 4
	headBytes = 11 // magic, version, kind, number of the attempt, length

	encodeRequest = 2 // the answer's kind is the next number
	decodeRequest = 4

	success = 0
)

func pack(kind byte, body []byte) []byte {
	message := binary.BigEndian.AppendUint32(nil, magic)
	message = append(message, version, kind, 0)
	message = binary.BigEndian.AppendUint32(message, uint32(len(body)))
	return append(message, body...)
}

func unpackHead(head []byte, kind byte) (size uint32, ok bool) {
	if binary.BigEndian.Uint32(head) != magic || head[4] != version || head[5] != kind {
		return 0, false
	}
	return binary.BigEndian.Uint32(head[7:]), true
}

func packEncode(payload []byte) []byte {
	body := []byte{1, 1, 1, 0} // cipher, MAC and compression as the daemon has them; no realm
	body = binary.BigEndian.AppendUint32(body, uint32(TTL.Seconds()))
	body = binary.BigEndian.AppendUint32(body, anyID)
	body = binary.BigEndian.AppendUint32(body, anyID)
	return appendData(body, payload)
}

func packDecode(credential string) []byte {
	return appendData(nil, append([]byte(credential), 0))
}

func appendData(body, data []byte) []byte {
	body = binary.BigEndian.AppendUint32(body, uint32(len(data)))
	return append(body, data...)
}

// reader takes an answer apart. After one that is too short everything is empty.
type reader struct {
	left  []byte
	short bool
}

func (r *reader) take(size int) []byte {
	if size > len(r.left) {
		r.left, r.short = nil, true
		return nil
	}
	taken := r.left[:size]
	r.left = r.left[size:]
	return taken
}

func (r *reader) skip(size int) { r.take(size) }

func (r *reader) byte() byte {
	if taken := r.take(1); taken != nil {
		return taken[0]
	}
	return 0
}

func (r *reader) number() uint32 {
	if taken := r.take(4); taken != nil {
		return binary.BigEndian.Uint32(taken)
	}
	return 0
}

// text is behind a length of one byte, and ends with a zero.
func (r *reader) text() string {
	taken := r.take(int(r.byte()))
	if len(taken) == 0 {
		return ""
	}
	return string(taken[:len(taken)-1])
}

// data is behind a length of four bytes.
func (r *reader) data() []byte {
	size := r.number()
	if uint64(size) > uint64(len(r.left)) {
		r.left, r.short = nil, true
		return nil
	}
	return r.take(int(size))
}
