package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// Bounds of a manifest. What is larger was not made by this package.
const (
	MaxManifestBytes = 64 << 20
	maxNameBytes     = 4096
)

// ManifestVersion is the only one that is read.
const ManifestVersion = 1

// ErrManifest is returned, wrapped, for a manifest that is not whole or says
// what cannot be.
var ErrManifest = errors.New("not the manifest of an image")

// Digest is a SHA-256. It is written in hexadecimal.
type Digest [sha256.Size]byte

// String answers the digest in hexadecimal.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText implements encoding.TextMarshaler.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Digest) UnmarshalText(text []byte) error {
	raw, err := hex.DecodeString(string(text))
	if err != nil || len(raw) != len(d) {
		return fmt.Errorf("%q is no SHA-256 in hexadecimal", text)
	}
	copy(d[:], raw)
	return nil
}

// Manifest says what an image consists of and what a machine must have to go
// on with it. Its digest names the image: whoever has the digest from somebody
// he trusts can check everything else.
type Manifest struct {
	Version int    `json:"version"`
	Job     uint32 `json:"job"`
	Epoch   uint32 `json:"epoch"`
	Number  uint32 `json:"number"` // of the job's images
	Node    string `json:"node"`   // that made it
	SavedMS int64  `json:"saved_ms"`
	UID     uint32 `json:"uid"` // whose processes these are

	Machine Machine `json:"machine"`
	// Root is what the container's root is made of: "host", or an image's digest.
	Root string `json:"root"`
	// Files are those of the root, outside of shared file systems, that were
	// mapped or open. A restore needs the same bytes at the same paths, or
	// brings them along.
	Files []File `json:"files"`
	// Mounts are the paths inside at which something of the host was bound.
	// A restore needs something there.
	Mounts []string `json:"mounts"`
	// Parts are the image's own, in the order of their names.
	Parts []Part `json:"parts"`
}

// Machine is what CRIU and the drivers compare.
type Machine struct {
	Arch      string `json:"arch"`
	Kernel    string `json:"kernel"` // release
	CRIU      string `json:"criu"`   // version
	Processor string `json:"processor"`
	Cgroup    string `json:"cgroup"` // "v1" or "v2"
	GPUs      []GPU  `json:"gpus,omitempty"`
}

// GPU is a device whose memory the image holds, in the order in which the job
// sees them.
type GPU struct {
	UUID   string `json:"uuid"`
	Model  string `json:"model"`
	Driver string `json:"driver"`
}

// File is a file of the machine that the image refers to.
type File struct {
	Path   string `json:"path"` // inside
	Size   int64  `json:"size"`
	SHA256 Digest `json:"sha256"`
	// Carried names the part that holds its bytes, for a machine that has other
	// ones or none; "" = the machine must have it.
	Carried string `json:"carried,omitempty"`
}

// Part is one file of the image.
type Part struct {
	Name   string  `json:"name"` // with slashes, below the image's directory
	Size   int64   `json:"size"`
	SHA256 Digest  `json:"sha256"`
	Chunks []Chunk `json:"chunks,omitempty"` // in order; filled in by the store
}

// Chunk is a piece of a part as stores keep it: once, however many images
// have it.
type Chunk struct {
	Size   int64  `json:"size"` // before compression
	SHA256 Digest `json:"sha256"`
}

// Encode answers the manifest's bytes, which are the same for the same
// manifest, and their digest.
func (m *Manifest) Encode() ([]byte, Digest, error) {
	if err := m.Check(); err != nil {
		return nil, Digest{}, err
	}
	data, err := json.Marshal(m)
	if err != nil {
		return nil, Digest{}, fmt.Errorf("encode the image's manifest: %w", err)
	}
	return data, sha256.Sum256(data), nil
}

// DecodeManifest reads what Encode wrote. Unknown fields are refused: a field
// that is not understood could be a condition that is not kept.
func DecodeManifest(data []byte, want Digest) (*Manifest, error) {
	if len(data) > MaxManifestBytes {
		return nil, fmt.Errorf("%w: it has more than %d bytes", ErrManifest, MaxManifestBytes)
	}
	if got := Digest(sha256.Sum256(data)); got != want {
		return nil, fmt.Errorf("%w: its SHA-256 is %s, not %s", ErrManifest, got, want)
	}
	m := new(Manifest)
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: something follows it", ErrManifest)
	}
	return m, m.Check()
}

// Check refuses a manifest by which a restore could write outside of its
// directory, or read another part than it says.
func (m *Manifest) Check() error {
	if m.Version != ManifestVersion {
		return fmt.Errorf("%w: it is of version %d, and this program reads %d", ErrManifest, m.Version, ManifestVersion)
	}
	names := make(map[string]bool, len(m.Parts))
	for i := range m.Parts {
		p := &m.Parts[i]
		if err := checkName(p.Name); err != nil {
			return err
		}
		if i > 0 && m.Parts[i-1].Name >= p.Name {
			return fmt.Errorf("%w: its parts are not in the order of their names, at %q", ErrManifest, p.Name)
		}
		if err := p.check(); err != nil {
			return err
		}
		names[p.Name] = true
	}
	for i := range m.Files {
		f := &m.Files[i]
		if !path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path || len(f.Path) > maxNameBytes || f.Size < 0 {
			return fmt.Errorf("%w: %q is no file's path", ErrManifest, f.Path)
		}
		if f.Carried != "" && !names[f.Carried] {
			return fmt.Errorf("%w: file %s is said to be in part %q, which it does not have", ErrManifest, f.Path, f.Carried)
		}
	}
	return nil
}

func (p *Part) check() error {
	size := p.Size
	for _, c := range p.Chunks {
		if c.Size <= 0 || c.Size > size {
			return fmt.Errorf("%w: the chunks of part %s are not as long as the part", ErrManifest, p.Name)
		}
		size -= c.Size
	}
	if p.Size < 0 || len(p.Chunks) > 0 && size != 0 {
		return fmt.Errorf("%w: the chunks of part %s are not as long as the part", ErrManifest, p.Name)
	}
	return nil
}

// checkName refuses a name that would lead out of the image's directory.
func checkName(name string) error {
	if name == "" || len(name) > maxNameBytes || path.IsAbs(name) || path.Clean(name) != name ||
		name == "." || name == ".." || strings.HasPrefix(name, "../") || strings.ContainsRune(name, 0) {
		return fmt.Errorf("%w: %q is no part's name", ErrManifest, name)
	}
	return nil
}
