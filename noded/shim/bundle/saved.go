package bundle

import (
	"encoding/json"
	"errors"
	"os"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// SaveMark is what lies in the allocation's directory while an image is being made:
// whoever finds it without a supervisor knows what the job died of.
type SaveMark struct {
	Number  uint32 `json:"number"`
	BegunMS int64  `json:"begun_ms"`
}

// Mark leaves a mark, durably.
func (d Dir) Mark(m SaveMark) error {
	data, err := json.Marshal(m)
	if err == nil {
		err = d.WriteFile(MarkFile, data)
	}
	if err == nil {
		err = syncDir(string(d))
	}
	return err
}

func (d Dir) Unmark() error {
	if err := os.Remove(d.Path(MarkFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Marked answers the mark, or nil when there is none that can be read.
func (d Dir) Marked() *SaveMark {
	data, err := ReadRegular(d.Path(MarkFile), MaxReportBytes)
	m := new(SaveMark)
	if err != nil || json.Unmarshal(data, m) != nil {
		return nil
	}
	return m
}

// WriteSaved keeps how the newest save ended until the allocation is forgotten: the
// supervisor may be gone before anybody has heard of it.
func (d Dir) WriteSaved(saved *pb.AllocSaved) error {
	data, err := encodeRecord(saved)
	if err == nil {
		err = d.WriteFile(savedDraft, data)
	}
	if err == nil {
		err = os.Rename(d.Path(savedDraft), d.Path(savedFile))
	}
	if err == nil {
		err = syncDir(string(d))
	}
	return err
}

// Saved answers how the newest save ended, or nil. It is asked after the supervisor
// has gone, and then nothing is frozen.
func (d Dir) Saved() *pb.AllocSaved {
	saved := new(pb.AllocSaved)
	if d.readRecord(savedFile, saved) != nil || ID(saved.Alloc) != d.ID() {
		return nil
	}
	saved.Frozen = false
	return saved
}
