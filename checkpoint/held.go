package checkpoint

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Held is something in a file system outside the image, by its path inside, that
// processes had open, in memory, or as their work directory. A restore
// needs something of that kind there, to which the user has the same access.
type Held struct {
	Path string `json:"path"`
	Kind string `json:"kind"` // KindFile, …
	// Access are the bits of access(2) that the user needs. For a file, the bit to run
	// it means that its code was in memory.
	Access uint32 `json:"access"`
	// Mapped: it was in memory. Then the right to run it is as good as to read it.
	Mapped bool `json:"mapped,omitempty"`
}

// Kinds of what is held.
const (
	KindFile      = "file"
	KindDirectory = "directory"
	KindPipe      = "pipe"
	KindLink      = "link"
)

// KindOf answers the kind of a mode of stat(2); "" = one that is not held.
func KindOf(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return KindFile
	case unix.S_IFDIR:
		return KindDirectory
	case unix.S_IFIFO:
		return KindPipe
	case unix.S_IFLNK:
		return KindLink
	}
	return ""
}

func (m *Manifest) checkHeld() error {
	for _, h := range m.Held {
		known := h.Kind == KindFile || h.Kind == KindDirectory || h.Kind == KindPipe || h.Kind == KindLink
		if !isPath(h.Path) || !known || h.Access > unix.R_OK|unix.W_OK|unix.X_OK {
			return fmt.Errorf("%w: %q is no path of something that was open", ErrManifest, h.Path)
		}
	}
	return nil
}
