package checkpoint

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// ListParts answers the files below dir as parts of an image, in the order of
// their names. It refuses what is neither a file nor a directory.
func ListParts(dir string) ([]Part, error) {
	var parts []Part
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(strings.TrimPrefix(path, dir), "/")
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is no regular file", name)
		}
		parts = append(parts, Part{Name: name, Size: info.Size()})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the image's parts: %w", err)
	}
	slices.SortFunc(parts, func(a, b Part) int { return strings.Compare(a.Name, b.Name) })
	return parts, nil
}

// Verify makes sure that dir holds the parts of the image except those in without,
// each as long as it was, and nothing else. The store that unpacked them has compared
// their bytes: reading a large image twice would double the time of a restore.
// Its errors name the part, and wrap ErrManifest.
func (m *Manifest) Verify(dir string, without map[string]bool) error {
	have, err := ListParts(dir)
	if err != nil {
		return err
	}
	found := make(map[string]int64, len(have))
	for _, p := range have {
		found[p.Name] = p.Size
	}
	for _, want := range m.Parts {
		size, ok := found[want.Name]
		switch {
		case !ok && without[want.Name]:
		case !ok:
			return fmt.Errorf("%w: its part %s is missing", ErrManifest, want.Name)
		case size != want.Size:
			return fmt.Errorf("%w: its part %s has %d bytes and not %d", ErrManifest, want.Name, size, want.Size)
		}
		delete(found, want.Name)
	}
	for name := range found {
		return fmt.Errorf("%w: %s is none of its parts", ErrManifest, name)
	}
	return nil
}
