package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// A run that was killed in the middle of a file leaves what came of it, and beside it what
// tells whether the source is still the same. The next run on this machine that has the
// same disk, or the same folder, goes on from there.

// markSuffix follows the name of a file that comes.
const markSuffix = partSuffix + "-mark"

// mostMark bounds what is read of one: users may write there what they like.
const mostMark = 16 << 10

// origin is what a part of a file is of.
type origin struct {
	URL    string `json:"url"`
	Mark   string `json:"mark"` // that tells whether it has changed
	Length int64  `json:"length"`
	Sum    string `json:"sum"`  // that the server told
	Boot   string `json:"boot"` // of the machine: after a crash not all of a part need be on the disk
}

func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// continueInto is makeInto of a file of which a part may be there. Without one it is empty.
func continueInto(root *os.Root, name string, from *webFile) (*into, error) {
	if !from.recall(readOrigin(root, name)) {
		return makeInto(root, name)
	}
	part, err := root.OpenFile(name+partSuffix, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err == nil {
		info, err := part.Stat()
		if err == nil && info.Mode().IsRegular() && (from.length < 0 || info.Size() <= from.length) {
			return &into{root, name, part}, nil
		}
		_ = part.Close()
	}
	from.forget()
	return makeInto(root, name)
}

func readOrigin(root *os.Root, name string) (o origin) {
	_ = withFile(func() (*os.File, error) {
		return root.OpenFile(name+markSuffix, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	}, name, func(file *os.File, _ string, size int64) error {
		if size > mostMark {
			return nil
		}
		return json.NewDecoder(file).Decode(&o)
	})
	return o
}

// note writes down what a part is of. If it cannot, the next run begins again.
func (f *into) note(o origin) {
	text, err := json.Marshal(o)
	if err != nil || o.Mark == "" {
		return
	}
	if err := f.root.Remove(f.name + markSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return
	}
	file, err := f.root.OpenFile(f.name+markSuffix, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return
	}
	_, _ = file.Write(text)
	_ = file.Close()
}

// origin is what comes of a server now.
func (f *webFile) origin() origin {
	return origin{URL: f.url.String(), Mark: f.mark, Length: f.length, Sum: f.says, Boot: bootID()}
}

// recall has a part count, if it is of this file.
func (f *webFile) recall(o origin) bool {
	if o.Mark == "" || o.URL != f.url.String() || o.Boot == "" || o.Boot != bootID() {
		return false
	}
	f.mark, f.length, f.says = o.Mark, o.Length, o.Sum
	return true
}

func (f *webFile) forget() { f.mark, f.length, f.says = "", -1, "" }
