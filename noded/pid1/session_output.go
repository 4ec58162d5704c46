package pid1

import "github.com/gleaner-hpc/gleaner/proto/step"

// keptOutput is what a session wrote and no client is known to have: bytes of
// two streams in the order in which they came.
type keptOutput struct {
	begin  uint64 // position of the first byte
	bytes  int
	pieces []outputPiece
}

type outputPiece struct {
	stream step.Stream
	data   []byte
}

// pieceBytes bounds the size of one piece of what one stream wrote.
const pieceBytes = 4 << 10

func (k *keptOutput) end() uint64 { return k.begin + uint64(k.bytes) }

// add keeps data.
func (k *keptOutput) add(stream step.Stream, data []byte) {
	if len(data) == 0 {
		return
	}
	k.bytes += len(data)
	if n := len(k.pieces); n > 0 {
		if last := &k.pieces[n-1]; last.stream == stream && len(last.data)+len(data) <= pieceBytes {
			last.data = append(last.data, data...)
			return
		}
	}
	k.pieces = append(k.pieces, outputPiece{stream, append([]byte(nil), data...)})
}

// drop forgets what is before a position.
func (k *keptOutput) drop(position uint64) {
	position = min(position, k.end())
	for k.begin < position {
		first := &k.pieces[0]
		n := int(min(position-k.begin, uint64(len(first.data))))
		k.begin += uint64(n)
		k.bytes -= n
		if first.data = first.data[n:]; len(first.data) == 0 {
			k.pieces[0] = outputPiece{}
			k.pieces = k.pieces[1:]
		}
	}
}

// from answers the piece at a position, which is copied; nil at the end.
func (k *keptOutput) from(position uint64) (step.Stream, []byte) {
	at := k.begin
	for _, piece := range k.pieces {
		if next := at + uint64(len(piece.data)); position < next {
			return piece.stream, append([]byte(nil), piece.data[position-at:]...)
		} else {
			at = next
		}
	}
	return 0, nil
}
