package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/checkpoint-restore/go-criu/v8/crit/images/fdinfo"
	pipe_data "github.com/checkpoint-restore/go-criu/v8/crit/images/pipe-data"
	remap_file_path "github.com/checkpoint-restore/go-criu/v8/crit/images/remap-file-path"
	sk_packet "github.com/checkpoint-restore/go-criu/v8/crit/images/sk-packet"
	sk_unix "github.com/checkpoint-restore/go-criu/v8/crit/images/sk-unix"
	"google.golang.org/protobuf/proto"
)

// When CRIU restores, it looks up every path again, as the container's root. What it
// only opens is compared afterwards with what the user finds there. That is too late for
// what it makes, removes, writes to, or gives to somebody else. So it may do these only
// where nobody but the tree itself can replace a directory by a link: in the
// file systems that are saved with the tree.

// Named is something that CRIU does not only open at a restore, or that nobody can
// check afterwards.
type Named struct {
	// Path is inside; "" = unknown.
	Path string
	// Obstacle says what keeps the tree from being saved if the path lies in a
	// file system that others reach too. It names no process.
	Obstacle Obstacle
}

const ownDirs = "/tmp, /var/tmp or /dev/shm"

func removedObstacle(path string) Obstacle {
	return Obstacle{
		What:   "uses " + path + ", which was removed",
		Remedy: "wait until it is closed, keep files that are removed early in " + ownDirs + " (TMPDIR), or " + saveItself,
	}
}

func boundObstacle(path string) Obstacle {
	return Obstacle{
		Lasts: true, What: "has a unix socket at " + path,
		Remedy: "put it in " + ownDirs + ", by its path without links, or " + saveItself,
	}
}

func filledObstacle(path string) Obstacle {
	return Obstacle{
		Passing: true, What: "has not read yet what is in the named pipe " + path,
		Remedy: "wait until it is read, or put the pipe in " + ownDirs,
	}
}

// watchObstacle: CRIU would have to open it by a number, which it may not.
var watchObstacle = Obstacle{
	What:   "watches a file (inotify) that CRIU does not find by its path",
	Remedy: "wait until it watches that no longer, have it watch the directory, or " + saveItself,
}

func underwayObstacle(path string) Obstacle {
	what := "has sent a descriptor of " + path + " to itself, and not received it yet"
	if path == "" {
		what = "has sent a descriptor that watches files to itself, and not received it yet"
	}
	return Obstacle{Passing: true, What: what, Remedy: "wait until it is received, or " + saveItself}
}

// removedPath answers the path of something from the text of a link of /proc, if it
// was removed. A file server that must keep it gives it another name.
func removedPath(text string) (path string, removed bool) {
	if path, removed = strings.CutSuffix(text, " (deleted)"); removed {
		return path, filepath.IsAbs(path)
	}
	const serversName = len(".nfs") + 24
	name := filepath.Base(text)
	return text, filepath.IsAbs(text) && len(name) == serversName && strings.HasPrefix(name, ".nfs")
}

// NamedIn answers what in an image is Named, from CRIU's files in a directory.
func NamedIn(images string) (all []Named, err error) {
	entries, err := readEntries[fdinfo.FileEntry](filepath.Join(images, filesImage))
	if err != nil {
		return nil, err
	}
	files := make(map[uint32]*fdinfo.FileEntry, len(entries))
	for _, file := range entries {
		files[file.GetId()] = file
		if path, bound := boundAt(file.GetUsk()); bound {
			all = append(all, Named{path, boundObstacle(path)})
		}
		for _, watch := range file.GetIfy().GetWd() {
			if watch.GetFHandle().GetPath() == "" {
				all = append(all, Named{"", watchObstacle})
			}
		}
	}
	remaps, err := readEntries[remap_file_path.RemapFilePathEntry](filepath.Join(images, remapsImage))
	if err != nil {
		return nil, err
	}
	for _, remap := range remaps {
		if remap.RemapType != nil && remap.GetRemapType() == remap_file_path.RemapType_PROCFS {
			continue // a process that has ended
		}
		path := files[remap.GetOrigId()].GetReg().GetName()
		all = append(all, Named{path, removedObstacle(path)})
	}
	filled := map[uint32]bool{}
	err = eachWithContent(filepath.Join(images, "fifo-data.img"), func(e *pipe_data.PipeDataEntry) int64 {
		filled[e.GetPipeId()] = filled[e.GetPipeId()] || e.GetBytes() > 0
		return int64(e.GetBytes())
	})
	if err != nil {
		return nil, err
	}
	for _, file := range entries {
		if file.Fifo != nil && filled[file.Fifo.GetPipeId()] {
			path := files[file.Fifo.GetRegfId()].GetReg().GetName()
			all = append(all, Named{path, filledObstacle(path)})
		}
	}
	err = eachWithContent(filepath.Join(images, "sk-queues.img"), func(e *sk_packet.SkPacketEntry) int64 {
		for _, message := range e.GetScm() {
			for _, id := range message.GetRights() {
				if path, named := underway(files[id], files); named {
					all = append(all, Named{path, underwayObstacle(path)})
				}
			}
		}
		return int64(e.GetLength())
	})
	return all, err
}

// boundAt answers the path of a unix socket that has one.
func boundAt(socket *sk_unix.UnixSkEntry) (path string, bound bool) {
	name := strings.TrimRight(string(socket.GetName()), "\x00")
	if name == "" || strings.HasPrefix(string(socket.GetName()), "\x00") {
		return "", false
	}
	if dir := socket.GetNameDir(); dir != "" && !filepath.IsAbs(name) {
		return dir + "/" + name, true
	}
	return name, true
}

// underway answers the path of a file in a socket's queue that was opened by its path,
// or that watches others.
func underway(file *fdinfo.FileEntry, files map[uint32]*fdinfo.FileEntry) (path string, named bool) {
	switch {
	case file.GetReg() != nil:
		return file.GetReg().GetName(), true
	case file.GetFifo() != nil:
		return files[file.GetFifo().GetRegfId()].GetReg().GetName(), true
	}
	return "", file.GetIfy() != nil || file.GetFfy() != nil
}

// WatchedIn answers the paths that the inotify instances of an image watch.
func WatchedIn(images string) (paths []string, err error) {
	files, err := readEntries[fdinfo.FileEntry](filepath.Join(images, filesImage))
	for _, file := range files {
		for _, watch := range file.GetIfy().GetWd() {
			if path := watch.GetFHandle().GetPath(); path != "" {
				paths = append(paths, path)
			}
		}
	}
	return paths, err
}

// eachWithContent reads the entries of one of CRIU's files in which content follows
// each entry; size answers how much. A missing file has no entries.
func eachWithContent[T any, P entry[T]](path string, size func(P) int64) error {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the image: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("read the image: %w", err)
	}
	for at := int64(magicSize); at < info.Size(); {
		var word [wordSize]byte
		broken := fmt.Errorf("read the image's %s: it is not whole", filepath.Base(path))
		if _, err := file.ReadAt(word[:], at); err != nil {
			return broken
		}
		at += wordSize
		length := int64(binary.LittleEndian.Uint32(word[:]))
		if length > info.Size()-at {
			return broken
		}
		text, e := make([]byte, length), P(new(T))
		if _, err := file.ReadAt(text, at); err != nil || proto.Unmarshal(text, e) != nil {
			return broken
		}
		if at += length + size(e); at > info.Size() {
			return broken
		}
	}
	return nil
}
