package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

// ManifestVersion is the only one that is read.
const ManifestVersion = 1

// ErrManifest is returned, wrapped, for a manifest that is not whole or says
// something impossible.
var ErrManifest = errors.New("not the manifest of an image")

// Digest is a SHA-256, or the BLAKE3 of a chunk. It is written in hexadecimal.
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

// Manifest says what an image consists of and what a machine must have to resume
// it. Its digest names the image: whoever has the digest from a trusted source can
// check everything else.
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
	// TmpBytes is the size of the disk that holds what the job has written into
	// its root and its private directories. After a restore, the disk is as large. 0 = no
	// bound.
	TmpBytes uint64 `json:"tmp_bytes,omitempty"`
	// Files are those of the root, outside shared file systems, that were
	// mapped or open. A restore needs the same bytes at the same paths, or
	// the image carries them.
	Files []File `json:"files"`
	// Mounts are the paths inside at which something of the host was bound.
	// A restore needs something at each of them.
	Mounts []string `json:"mounts"`
	// Devices are the container's own, in order: what the job has seen since its
	// first start, and sees after a restore.
	Devices []Device `json:"devices,omitempty"`
	// Shared are files of shared file systems that were open. They are not
	// part of the image.
	Shared []SharedFile `json:"shared,omitempty"`
	// Parts are the image's own, in the order of their names.
	Parts []Part `json:"parts"`
	// Held is what processes used in file systems that are not part of the image.
	Held []Held `json:"held,omitempty"`
	// IDs are the users and groups of the container's user namespace.
	IDs IDs `json:"ids,omitzero"`
	// Locks: its processes hold locks on files. While they do, nobody else gets these
	// locks, not even the processes that are restored from the image.
	Locks bool `json:"locks,omitempty"`
	// Memory is how many bytes the processes had, and what they share only once; 0 = it is
	// not known.
	Memory int64 `json:"memory,omitempty"`
	// Needs are what its processes use of the kernel.
	Needs Needs `json:"needs,omitzero"`
	// Data is how many bytes the parts have without their holes, if only the facts of
	// the image are known.
	Data int64 `json:"data,omitempty"`
}

// IDs are the maps of a user namespace, as the kernel tells them: see user_namespaces(7).
type IDs struct {
	Users  string `json:"users"`
	Groups string `json:"groups"`
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
	Mode   uint32 `json:"mode,omitempty"` // permission bits; only of what is carried
	// Carried names the part that holds its bytes, for a machine where the file is
	// another one or missing; "" = the machine must have it.
	Carried string `json:"carried,omitempty"`
}

// SharedFile is an open file outside of the image.
type SharedFile struct {
	Path string `json:"path"` // inside
	Size int64  `json:"size"` // when it was saved
	// Exact: a job that ran on after it was saved needs this very size. A file that is
	// only appended to may have another one.
	Exact bool `json:"exact"`
	// Written: it was open for writing.
	Written bool `json:"written"`
}

// Part is one file of the image. Whoever makes an image fills in names and
// sizes; the store fills in the chunks, whose sums stand for the part's: hashing
// a part as a whole would be a second pass, on only one processor.
type Part struct {
	Name   string `json:"name"` // with slashes, below the image's directory
	Size   int64  `json:"size"`
	Chunks Chunks `json:"chunks,omitempty"` // in order, and together the whole part
}

// Bytes answers how many bytes the parts have, holes included.
func (m *Manifest) Bytes() int64 {
	n := int64(0)
	for i := range m.Parts {
		n += m.Parts[i].Size
	}
	return n
}

// DataBytes answers how many bytes the parts have without their holes, if their
// chunks are known.
func (m *Manifest) DataBytes() int64 {
	n := m.Data
	for i := range m.Parts {
		n += m.Parts[i].DataBytes()
	}
	return n
}

// DataBytes answers how many bytes a part has without its holes, if its chunks are
// known.
func (p *Part) DataBytes() int64 {
	n := int64(0)
	for _, c := range p.Chunks {
		if !c.Hole() {
			n += c.Size
		}
	}
	return n
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
	// So JSON writes what is not UTF-8: it would be read as something else.
	if bytes.Contains(data, []byte(`\ufffd`)) {
		return nil, Digest{}, fmt.Errorf("%w: a name or a path in it is not UTF-8", ErrManifest)
	}
	if len(data) > MaxManifestBytes {
		return nil, Digest{}, fmt.Errorf("%w: it would have more than %d bytes", ErrManifest, MaxManifestBytes)
	}
	return data, sha256.Sum256(data), nil
}

// DecodeManifest reads what Encode wrote, and nothing else: an unknown field
// could be a condition that would not be kept, and what can be
// written in two ways can be read in two ways.
func DecodeManifest(data []byte, want Digest) (*Manifest, error) {
	if len(data) > MaxManifestBytes {
		return nil, fmt.Errorf("%w: it has more than %d bytes", ErrManifest, MaxManifestBytes)
	}
	if got := Digest(sha256.Sum256(data)); got != want {
		return nil, fmt.Errorf("%w: its SHA-256 is %s, not %s", ErrManifest, got, want)
	}
	m := new(Manifest)
	if err := json.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	again, _, err := m.Encode()
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(again, data) { // an unknown field is not in it
		return nil, fmt.Errorf("%w: %w", ErrManifest, whyOther(data))
	}
	return m, nil
}

// whyOther says what of a manifest would be written otherwise.
func whyOther(data []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(new(Manifest)); err != nil {
		return err
	}
	return errors.New("it is not written as this program writes it")
}
