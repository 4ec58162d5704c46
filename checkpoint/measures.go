package checkpoint

import (
	"path"
	"path/filepath"

	"github.com/checkpoint-restore/go-criu/v8/crit/images/fdinfo"
)

// CRIU notes the size and the mode of each file that it saves by its path, and refuses a
// file that has another size or mode at the restore. For a file that others reach too, this
// says nothing: while the tree was not there, another program may have written to it, or
// its owner may have called chmod(1). The processes would have seen the same had they only
// been stopped.

// ForgetMeasures removes from an image the sizes and modes of what is held outside it, and
// of what is mounted. Who restores the image looks at that himself: see Held, File and
// SharedFile.
func ForgetMeasures(images string, held []Held, mounts []string) error {
	paths := make(map[string]bool, len(held)+len(mounts))
	for _, h := range held {
		paths[h.Path] = true
	}
	for _, at := range mounts {
		paths[at] = true
	}
	return changeEntries(filepath.Join(images, filesImage), func(file *fdinfo.FileEntry) bool {
		reg := file.GetReg()
		if reg == nil || !paths[path.Clean("/"+reg.GetName())] || reg.Size == nil && reg.Mode == nil {
			return false
		}
		reg.Size, reg.Mode = nil, nil
		return true
	})
}
