package filecopy

import (
	"errors"
	"io/fs"
)

// Options say how much is copied, and who hears of it.
type Options struct {
	// Recursive: a directory is copied with all that is in it.
	Recursive bool
	// Umask is taken from the modes of what is made.
	Umask fs.FileMode
	// Progress hears how far a file is, whenever that changed; nil = nobody.
	Progress func(path string, done, size int64)
	// Trouble hears what is not copied, why, and whether that is this end's trouble or the
	// other's; nil = nobody. The rest is copied.
	Trouble func(path, why string, ours bool)
}

// Summary counts what was copied.
type Summary struct {
	Files    int
	Bytes    int64 // of the files
	Sent     int64 // of these; the rest was there already
	Troubles int
}

func (o *Options) progress(path string, done, size int64) {
	if o.Progress != nil {
		o.Progress(path, done, size)
	}
}

func (s *Summary) trouble(o *Options, path, why string, ours bool) {
	s.Troubles++
	if o.Trouble != nil {
		o.Trouble(path, why, ours)
	}
}

// reason is the cause of an error, without the path, which is said beside it.
func reason(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}
