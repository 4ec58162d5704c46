package checkpoint

import (
	"path/filepath"

	"github.com/checkpoint-restore/go-criu/v8/crit/images/fdinfo"
	"github.com/checkpoint-restore/go-criu/v8/crit/images/memfd"
	"github.com/checkpoint-restore/go-criu/v8/crit/images/mm"
	"golang.org/x/sys/unix"
)

// A memfd that is sealed against writing may still be mapped shared, to be read. CRIU maps
// it so that it could be written, and then cannot seal it: the kernel says that it is busy.
// Another seal does that: F_SEAL_FUTURE_WRITE forbids the same, except for what is mapped
// already. Only who asks for the seals sees a difference.

// mendSeals replaces the seal of each memfd of an image that is mapped.
func mendSeals(images string) error {
	mapped, err := mappedFileIDs(images)
	if err != nil || len(mapped) == 0 {
		return err
	}
	files, err := readEntries[fdinfo.FileEntry](filepath.Join(images, filesImage))
	if err != nil {
		return err
	}
	inodes := map[uint64]bool{}
	for _, file := range files {
		if file.GetMemfd() != nil && mapped[uint64(file.GetId())] {
			inodes[uint64(file.GetMemfd().GetInodeId())] = true
		}
	}
	return changeEntries(filepath.Join(images, "memfd.img"), func(inode *memfd.MemfdInodeEntry) bool {
		if !inodes[inode.GetInodeId()] || inode.GetSeals()&unix.F_SEAL_WRITE == 0 {
			return false
		}
		inode.Seals = set(inode.GetSeals()&^uint32(unix.F_SEAL_WRITE) | unix.F_SEAL_FUTURE_WRITE)
		return true
	})
}

// mappedFileIDs answers the files that processes of an image have in memory, by CRIU's
// numbers.
func mappedFileIDs(images string) (map[uint64]bool, error) {
	paths, err := filepath.Glob(filepath.Join(images, "mm-*.img"))
	if err != nil {
		return nil, err
	}
	ids := map[uint64]bool{}
	for _, path := range paths {
		spaces, err := readEntries[mm.MmEntry](path)
		if err != nil {
			return nil, err
		}
		for _, space := range spaces {
			for _, area := range space.GetVmas() {
				ids[area.GetShmid()] = true
			}
		}
	}
	return ids, nil
}
