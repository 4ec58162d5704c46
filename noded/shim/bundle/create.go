package bundle

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/gleaner-hpc/gleaner/noded/shim/remove"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Create makes the directory with its order and settings, whole or not
// at all.
func Create(dir Dir, s *Settings, order *pb.StartAlloc) error {
	if _, err := os.Lstat(string(dir)); err == nil {
		return nil
	}
	parent := filepath.Dir(string(dir))
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return fmt.Errorf("make the directory of allocations: %w", err)
	}
	draft := Dir(filepath.Join(parent, NewPrefix+dir.ID()))
	if err := remove.Tree(string(draft)); err != nil {
		return err
	}
	if err := os.Mkdir(string(draft), 0o700); err != nil {
		return fmt.Errorf("make the allocation's directory: %w", err)
	}
	// The draft's own entries reach the disk with the rename, or are no allocation.
	settings, err := json.Marshal(s)
	var data []byte
	if err == nil {
		data, err = encodeRecord(order)
	}
	if err == nil {
		// At the same time: the disk writes both at once.
		var writing errgroup.Group
		writing.Go(func() error { return draft.WriteFile(SettingsFile, settings) })
		writing.Go(func() error { return draft.WriteFile(OrderFile, data) })
		err = writing.Wait()
	}
	if err == nil {
		err = os.WriteFile(draft.Path(resultDraft), make([]byte, resultRoom), 0o600)
	}
	if err == nil {
		err = os.Rename(string(draft), string(dir))
	}
	if err == nil {
		err = syncDir(parent)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("make the allocation's directory: %w", err), remove.Tree(string(draft)))
	}
	return nil
}

// criuDir is where CRIU's logs are, until the allocation has ended.
const criuDir = "criu"

func (d Dir) MakeLogDir() (string, error) {
	path := d.Path(criuDir)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return "", fmt.Errorf("make a directory for CRIU's log: %w", err)
	}
	return path, nil
}
