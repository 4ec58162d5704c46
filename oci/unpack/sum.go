package unpack

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Sum is what identifies all that is in the directory of a layer: names, kinds, modes,
// owners, links, the user's attributes and contents. Times are not in it. The caller has
// the directory as its root, as with Layer.
func Sum(root string) (string, error) {
	all := sha256.New()
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return sumOne(all, root, path)
	})
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(all.Sum(nil)), nil
}

// sumOne adds a file. Each word is quoted, so that no two layers are written alike.
func sumOne(all hash.Hash, root, path string) error {
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); err != nil {
		return &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	name, err := filepath.Rel(root, path)
	if err != nil {
		return err
	}
	fmt.Fprintf(all, "%q %o %d %d %d\n", name, stat.Mode, stat.Uid, stat.Gid, stat.Rdev)
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		target, err := os.Readlink(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(all, "%q\n", target)
		return nil
	case unix.S_IFREG:
		if err := sumContent(all, path, stat.Size); err != nil {
			return err
		}
	case unix.S_IFDIR:
	default:
		return nil // only files and directories have a user's attributes
	}
	return sumAttributes(all, path)
}

func sumContent(all hash.Hash, path string, size int64) error {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	content := sha256.New()
	n, err := io.Copy(content, file)
	if err != nil {
		return err
	}
	if n != size {
		return fmt.Errorf("%s has %d bytes and not %d", path, n, size)
	}
	fmt.Fprintf(all, "%d %x\n", n, content.Sum(nil))
	return nil
}

func sumAttributes(all hash.Hash, path string) error {
	names := make([]byte, 1<<16) // as many as the kernel lists
	n, err := unix.Llistxattr(path, names)
	if err == unix.ENOTSUP {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "llistxattr", Path: path, Err: err}
	}
	list := bytes.Split(bytes.TrimSuffix(names[:n], []byte{0}), []byte{0})
	slices.SortFunc(list, bytes.Compare)
	for _, name := range list {
		if !bytes.HasPrefix(name, []byte("user.")) {
			continue
		}
		value := make([]byte, 1<<16)
		n, err := unix.Lgetxattr(path, string(name), value)
		if err != nil {
			return &os.PathError{Op: "lgetxattr", Path: path, Err: err}
		}
		fmt.Fprintf(all, "%q %q\n", name, value[:n])
	}
	return nil
}
