package checkpoint

import (
	"path"
	"path/filepath"
	"slices"

	"github.com/checkpoint-restore/go-criu/v8/crit/images/fdinfo"
	"github.com/checkpoint-restore/go-criu/v8/crit/images/mnt"
	remap_file_path "github.com/checkpoint-restore/go-criu/v8/crit/images/remap-file-path"
)

// A file that is mounted on its own, such as a script's output, may be removed where it
// comes from. CRIU would make it again there, from the image, as a removed file, and mount
// that. It cannot, and it need not: a restore mounts what its caller gives.

// undelete has CRIU take what is at the external paths of an image as if it had not been
// removed.
func undelete(images string, external []string) error {
	tables, err := filepath.Glob(filepath.Join(images, "mountpoints-*.img"))
	if err != nil {
		return err
	}
	for _, table := range tables {
		err := changeEntries(table, func(m *mnt.MntEntry) bool {
			if !m.GetDeleted() || !slices.Contains(external, path.Clean("/"+m.GetMountpoint())) {
				return false
			}
			m.Deleted = nil
			return true
		})
		if err != nil {
			return err
		}
	}
	files, err := readEntries[fdinfo.FileEntry](filepath.Join(images, filesImage))
	if err != nil {
		return err
	}
	there := map[uint32]bool{}
	for _, file := range files {
		if reg := file.GetReg(); reg != nil && slices.Contains(external, path.Clean("/"+reg.GetName())) {
			there[file.GetId()] = true
		}
	}
	return dropEntries(filepath.Join(images, remapsImage), func(remap *remap_file_path.RemapFilePathEntry) bool {
		return there[remap.GetOrigId()]
	})
}

// remapsImage has an entry for each file whose path is not what it was.
const remapsImage = "remap-fpath.img"
