package checkpoint

import (
	"fmt"
	"path"
	"strings"
	"unicode/utf8"
)

// Bounds of a manifest. What is larger was not made by this package.
const (
	MaxManifestBytes = 64 << 20
	MaxParts         = 1 << 17
	// MaxChunks is how many chunks all parts have together; a store makes
	// longer chunks for an image that would need more.
	MaxChunks = 1 << 19
	// MaxChunkBytes bounds a chunk that is not a hole: a reader needs that much
	// memory for it.
	MaxChunkBytes = 8 << 20

	maxImageBytes    = 1 << 50
	maxPathBytes     = 4096
	maxElementBytes  = 255
	maxNodeNameBytes = 255
)

// Check refuses a manifest with which a restore could write outside its
// directory, read a part that it does not name, or need unbounded memory; and
// one that would be read as something else than was meant.
func (m *Manifest) Check() error {
	if m.Version != ManifestVersion {
		return fmt.Errorf("%w: it is of version %d, and this program reads %d", ErrManifest, m.Version, ManifestVersion)
	}
	if m.Node == "" || m.Node == "." || m.Node == ".." || len(m.Node) > maxNodeNameBytes || !plain(m.Node) || strings.Contains(m.Node, "/") {
		return fmt.Errorf("%w: %q is no node's name", ErrManifest, m.Node)
	}
	names, err := m.checkParts()
	if err != nil {
		return err
	}
	for i := range m.Files {
		f := &m.Files[i]
		if !isPath(f.Path) || f.Size < 0 || f.Mode > 0o7777 {
			return fmt.Errorf("%w: %q is no file's path", ErrManifest, f.Path)
		}
		if f.Carried != "" && !names[f.Carried] {
			return fmt.Errorf("%w: file %s is said to be in part %q, which it does not have", ErrManifest, f.Path, f.Carried)
		}
	}
	for _, shared := range m.Shared {
		if !isPath(shared.Path) || shared.Size < 0 {
			return fmt.Errorf("%w: %q is no shared file's path", ErrManifest, shared.Path)
		}
	}
	for _, inside := range m.Mounts {
		if !isPath(inside) {
			return fmt.Errorf("%w: %q is no path of a mount", ErrManifest, inside)
		}
	}
	if err := m.checkHeld(); err != nil {
		return err
	}
	return m.checkDevices()
}

// checkParts answers the names of the parts.
func (m *Manifest) checkParts() (map[string]bool, error) {
	if len(m.Parts) > MaxParts {
		return nil, fmt.Errorf("%w: it has %d parts, and at most %d can be", ErrManifest, len(m.Parts), MaxParts)
	}
	names := make(map[string]bool, len(m.Parts))
	chunks, bytes := 0, int64(0)
	for i := range m.Parts {
		p := &m.Parts[i]
		if err := checkName(p.Name); err != nil {
			return nil, err
		}
		if i > 0 && m.Parts[i-1].Name >= p.Name {
			return nil, fmt.Errorf("%w: its parts are not in the order of their names, at %q", ErrManifest, p.Name)
		}
		if err := p.check(); err != nil {
			return nil, err
		}
		names[p.Name] = true
		chunks += len(p.Chunks)
		if bytes += p.Size; bytes > maxImageBytes || chunks > MaxChunks {
			return nil, fmt.Errorf("%w: it is larger than any image: %d bytes in %d chunks", ErrManifest, bytes, chunks)
		}
	}
	// A name cannot be both a file and a directory of other ones.
	for name := range names {
		for above := path.Dir(name); above != "."; above = path.Dir(above) {
			if names[above] {
				return nil, fmt.Errorf("%w: part %q would lie below part %q", ErrManifest, name, above)
			}
		}
	}
	return names, nil
}

func (p *Part) check() error {
	if p.Size < 0 || p.Size > maxImageBytes {
		return fmt.Errorf("%w: part %s has a size of %d", ErrManifest, p.Name, p.Size)
	}
	left := p.Size
	for _, c := range p.Chunks {
		if c.Size <= 0 || c.Size > left {
			return fmt.Errorf("%w: the chunks of part %s are not as long as the part", ErrManifest, p.Name)
		}
		if c.Size > MaxChunkBytes && !c.Hole() {
			return fmt.Errorf("%w: part %s has a chunk of %d bytes, and at most %d can be", ErrManifest, p.Name, c.Size, MaxChunkBytes)
		}
		left -= c.Size
	}
	if len(p.Chunks) > 0 && left != 0 {
		return fmt.Errorf("%w: the chunks of part %s are not as long as the part", ErrManifest, p.Name)
	}
	return nil
}

// checkName refuses a name that would lead out of the image's directory, or
// that no file can have.
func checkName(name string) error {
	bad := name == "" || name == "." || len(name) > maxPathBytes || path.IsAbs(name) || path.Clean(name) != name || !plain(name)
	for element := range strings.SplitSeq(name, "/") {
		bad = bad || element == ".." || len(element) > maxElementBytes
	}
	if bad {
		return fmt.Errorf("%w: %q is no part's name", ErrManifest, name)
	}
	return nil
}

// isPath says whether something inside can have this path.
func isPath(name string) bool {
	return path.IsAbs(name) && path.Clean(name) == name && len(name) <= maxPathBytes && utf8.ValidString(name) && !strings.ContainsRune(name, 0)
}

// plain says whether a word is UTF-8 without control characters: what can be
// shown and written into a log as it is.
func plain(word string) bool {
	return utf8.ValidString(word) && strings.IndexFunc(word, func(r rune) bool { return r < ' ' || r == 0x7f }) < 0
}
