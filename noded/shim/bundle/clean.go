package bundle

import (
	"errors"
	"os"

	"github.com/gleaner-hpc/gleaner/noded/shim/remove"
)

// Kept says whether a file stays until the allocation is forgotten.
func Kept(name string) bool { return kept[name] }

var kept = map[string]bool{
	OrderFile: true, SettingsFile: true, LockFile: true, SocketFile: true, LogFile: true, ResultFile: true, resultDraft: true,
	savedFile: true, savedDraft: true,
}

// clean removes what the allocation's container was made of, once nothing runs in
// it. It touches nothing while something is mounted below the directory, here
// or in the mount table that is given with it.
func (d Dir) clean(host *os.File) error {
	if err := remove.NothingMounted(string(d), host); err != nil {
		return err
	}
	entries, err := os.ReadDir(string(d))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return remove.NewLeftOver(string(d), err)
	}
	var failures []error
	for _, entry := range entries {
		if !kept[entry.Name()] {
			failures = append(failures, remove.Tree(d.Path(entry.Name())))
		}
	}
	return errors.Join(failures...)
}

// Remove removes the whole directory, which is no allocation from the first step on.
func (d Dir) Remove() error {
	if err := d.clean(nil); err != nil {
		return err
	}
	if err := remove.Discard(d.Gone()); err != nil {
		return err
	}
	if err := os.Rename(string(d), d.Gone()); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return remove.NewLeftOver(string(d), err)
	}
	return remove.Discard(d.Gone())
}
