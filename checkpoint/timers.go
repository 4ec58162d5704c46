package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	criu_core "github.com/checkpoint-restore/go-criu/v8/crit/images/criu-core"
	"github.com/checkpoint-restore/go-criu/v8/crit/images/fdinfo"
	"google.golang.org/protobuf/proto"
)

// A timer that rings again and again rings once while the tree stands, and the
// kernel arms it anew only when the process has taken note of that: until then
// it says that no time is left. CRIU writes that down, and to set a timer so
// turns it off. So such timers are given their whole interval.

// rearmTimers does that in an image.
func rearmTimers(images string) error {
	err := rewriteImage(filepath.Join(images, "files.img"), func() proto.Message { return new(fdinfo.FileEntry) }, func(entry proto.Message) bool {
		timer := entry.(*fdinfo.FileEntry).GetTfd()
		// One that was turned off has rung for nobody.
		if timer.GetTicks() == 0 || timer.GetVsec() != 0 || timer.GetVnsec() != 0 || timer.GetIsec() == 0 && timer.GetInsec() == 0 {
			return false
		}
		timer.Vsec, timer.Vnsec = timer.Isec, timer.Insec
		return true
	})
	if err != nil {
		return err
	}
	cores, err := filepath.Glob(filepath.Join(images, "core-*.img"))
	if err != nil {
		return err
	}
	for _, path := range cores {
		err := rewriteImage(path, func() proto.Message { return new(criu_core.CoreEntry) }, func(entry proto.Message) bool {
			timer := entry.(*criu_core.CoreEntry).GetTc().GetTimers().GetReal()
			if timer.GetVsec() != 0 || timer.GetVusec() != 0 || timer.GetIsec() == 0 && timer.GetIusec() == 0 {
				return false
			}
			timer.Vsec, timer.Vusec = timer.Isec, timer.Iusec
			return true
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// magicSize is that of the two words that one of CRIU's files begins with; each
// entry after them has its size, a word, before it.
const (
	magicSize = 8
	wordSize  = 4
)

// rewriteImage changes entries of one of CRIU's files; change says of each
// whether it did. All others stay byte by byte as they are. A file that is not
// there has no entries.
func rewriteImage(path string, kind func() proto.Message, change func(proto.Message) bool) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the image: %w", err)
	}
	broken := fmt.Errorf("read the image's %s: it is not whole", filepath.Base(path))
	if len(data) < magicSize {
		return broken
	}
	out, rest, changed := append([]byte(nil), data[:magicSize]...), data[magicSize:], false
	for len(rest) > 0 {
		if len(rest) < wordSize {
			return broken
		}
		size := int(binary.LittleEndian.Uint32(rest))
		if size > len(rest)-wordSize {
			return broken
		}
		text := rest[wordSize : wordSize+size]
		rest = rest[wordSize+size:]
		entry := kind()
		if err := proto.Unmarshal(text, entry); err != nil {
			return fmt.Errorf("read the image's %s: %w", filepath.Base(path), err)
		}
		if change(entry) {
			changed = true
			if text, err = proto.Marshal(entry); err != nil {
				return fmt.Errorf("write the image's %s: %w", filepath.Base(path), err)
			}
		}
		out = append(binary.LittleEndian.AppendUint32(out, uint32(len(text))), text...)
	}
	if !changed {
		return nil
	}
	return os.WriteFile(path, out, 0o600)
}
