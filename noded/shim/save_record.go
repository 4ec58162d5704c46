package shim

import (
	"encoding/json"
	"errors"
	"os"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// markOfSave is what lies in the part's directory while an image is being made:
// whoever finds it without a supervisor knows what the job died of.
type markOfSave struct {
	Number  uint32 `json:"number"`
	BegunMS int64  `json:"begun_ms"`
}

// mark leaves a mark, durably.
func (d directory) mark(m markOfSave) error {
	data, err := json.Marshal(m)
	if err == nil {
		err = d.writeFile(markFile, data)
	}
	if err == nil {
		err = syncDir(string(d))
	}
	return err
}

func (d directory) unmark() error {
	if err := os.Remove(d.path(markFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// marked answers the mark, or nil when there is none that can be read.
func (d directory) marked() *markOfSave {
	data, err := readRegular(d.path(markFile), maxReportBytes)
	m := new(markOfSave)
	if err != nil || json.Unmarshal(data, m) != nil {
		return nil
	}
	return m
}

func (s *save) mark() markOfSave {
	return markOfSave{Number: s.order.Number, BegunMS: time.Now().UnixMilli()}
}

// writeSaved keeps how the newest save ended until the part is forgotten: the
// supervisor may be gone before anybody has heard of it.
func (d directory) writeSaved(saved *pb.PartSaved) error {
	data, err := encodeRecord(saved)
	if err == nil {
		err = d.writeFile(savedDraft, data)
	}
	if err == nil {
		err = os.Rename(d.path(savedDraft), d.path(savedFile))
	}
	if err == nil {
		err = syncDir(string(d))
	}
	return err
}

// saved answers how the newest save ended, or nil.
func (d directory) saved() *pb.PartSaved {
	saved := new(pb.PartSaved)
	if d.readRecord(savedFile, saved) != nil || partID(saved.Part) != d.id() {
		return nil
	}
	return saved
}

// Saved answers how the part's newest save ended, or nil when none did. After
// the part has ended nothing stands.
func (h *Handle) Saved() *pb.PartSaved {
	saved := h.dir.saved()
	if saved.GetStands() {
		saved = proto.CloneOf(saved)
		saved.Stands = false
	}
	return saved
}
