package snapshotfile

import (
	"io"

	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Magic opens a file, so that one can be told from other files.
const Magic = magic

// Recorder puts a recording together from the messages of a snapshot. The zero value is
// ready. It holds all of it in memory: MaxRecorded at most, as it came.
type Recorder struct{ recording pb.Recording }

// Take takes a message that was checked; one without a piece changes nothing.
func (r *Recorder) Take(chunk *pb.SnapshotChunk) error {
	piece := chunk.GetRecording()
	if len(piece) == 0 {
		return nil
	}
	if err := (proto.UnmarshalOptions{Merge: true}).Unmarshal(piece, &r.recording); err != nil {
		return damaged("its recording: %v", err)
	}
	return nil
}

// Recording is what came so far.
func (r *Recorder) Recording() *pb.Recording { return &r.recording }

// ReadRecording reads the recording of a file, which must be whole.
func ReadRecording(in io.Reader) (*pb.Recording, error) {
	var recorder Recorder
	_, err := Read(in, recorder.Take)
	return recorder.Recording(), err
}
