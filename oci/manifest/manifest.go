// Package manifest follows the documents of a container image from the digest that pins
// it: index, manifest and configuration, each the bytes that the one before it names. It
// opens nothing, and trusts nothing that has no digest.
package manifest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	// MaxBytes bounds a document.
	MaxBytes = 4 << 20
	// MaxLayers is how many layers an image may have: as many as Docker allows.
	MaxLayers = 127
	// maxListed bounds how many images an index names.
	maxListed = 1024
)

var (
	// ErrBroken is returned, wrapped, for documents that are not what their digests say,
	// or not those of an image.
	ErrBroken = errors.New("the container image is broken")
	// ErrPlatform is returned, wrapped, for an image that is for other machines.
	ErrPlatform = errors.New("the container image is not for this machine")
)

// Layer is one layer, as it is kept, and what is in it.
type Layer struct {
	Blob   v1.Hash `json:"blob"`    // of the bytes as they are kept; of an archive, DiffID
	Size   int64   `json:"size"`    // of them; 0 = unknown
	DiffID v1.Hash `json:"diff_id"` // of the tar in them
}

// Image is what is known of an image before its layers are read.
type Image struct {
	Config *v1.ConfigFile
	Layers []Layer // lowest first
}

// Documents are an image's: an index if it was pinned by one, the manifest, and the
// configuration. An archive has only the configuration.
type Documents [][]byte

// SHA256 is the digest of a document.
func SHA256(document []byte) v1.Hash {
	sum := sha256.Sum256(document)
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}
}

// kinds are what a document may be, as far as it says.
type kinds struct {
	MediaType types.MediaType   `json:"mediaType"`
	Config    json.RawMessage   `json:"config"`
	Layers    []json.RawMessage `json:"layers"`
	Manifests []json.RawMessage `json:"manifests"`
	RootFS    json.RawMessage   `json:"rootfs"`
	FSLayers  []json.RawMessage `json:"fsLayers"`
}

// Next answers what a document that leads to others names next: the manifest for an
// architecture, or the configuration.
func Next(document []byte, architecture string) (next v1.Descriptor, isConfig bool, err error) {
	k, err := kindOf(document)
	switch {
	case err != nil:
		return next, false, err
	case k.Manifests != nil:
		index, err := v1.ParseIndexManifest(bytes.NewReader(document))
		if err != nil {
			return next, false, fmt.Errorf("%w: its index cannot be read: %w", ErrBroken, err)
		}
		next, err := choose(index, architecture)
		return next, false, err
	}
	m, err := v1.ParseManifest(bytes.NewReader(document))
	if err != nil {
		return next, false, fmt.Errorf("%w: its manifest cannot be read: %w", ErrBroken, err)
	}
	if len(m.Layers) > MaxLayers {
		return next, false, fmt.Errorf("%w: it has %d layers, more than the %d that an image may have", ErrBroken, len(m.Layers), MaxLayers)
	}
	return m.Config, true, nil
}

func kindOf(document []byte) (k kinds, err error) {
	if len(document) > MaxBytes {
		return k, fmt.Errorf("%w: a document of %d bytes is larger than %d", ErrBroken, len(document), MaxBytes)
	}
	if err := json.Unmarshal(document, &k); err != nil {
		return k, fmt.Errorf("%w: it is no JSON: %w", ErrBroken, err)
	}
	switch {
	case k.FSLayers != nil:
		return k, fmt.Errorf("%w: its manifest is of the first version, which has no digests of what is in it: push it again with a program of this decade", ErrBroken)
	case (k.Manifests != nil) == (k.Config != nil):
		return k, fmt.Errorf("%w: it is neither an index nor a manifest", ErrBroken)
	case len(k.Manifests) > maxListed:
		return k, fmt.Errorf("%w: its index names %d images, more than %d", ErrBroken, len(k.Manifests), maxListed)
	}
	return k, nil
}

// choose answers the image of an index for an architecture.
func choose(index *v1.IndexManifest, architecture string) (v1.Descriptor, error) {
	var others []string
	for _, d := range index.Manifests {
		switch {
		case d.Platform == nil && len(index.Manifests) == 1:
			return d, nil
		case d.Platform == nil, d.Platform.OS == "unknown": // attestations
			continue
		case d.Platform.OS == "linux" && d.Platform.Architecture == architecture:
			return d, nil
		}
		others = append(others, d.Platform.String())
	}
	return v1.Descriptor{}, fmt.Errorf("%w: it is for %s and not for linux/%s: name an image that is, or nodes that can run it", ErrPlatform, others, architecture)
}

// Follow checks documents against the digest that pins them.
func Follow(documents Documents, pinned, architecture string) (*Image, error) {
	want, err := v1.NewHash(pinned)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	var manifest *v1.Manifest
	for i, document := range documents {
		if got := SHA256(document); got != want {
			return nil, fmt.Errorf("%w: a document of it should be %s and is %s", ErrBroken, want, got)
		}
		if i == len(documents)-1 {
			return finish(document, manifest, architecture)
		}
		next, isConfig, err := Next(document, architecture)
		if err != nil {
			return nil, err
		}
		if want = next.Digest; isConfig {
			if manifest, err = v1.ParseManifest(bytes.NewReader(document)); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrBroken, err)
			}
		}
		if isConfig != (i == len(documents)-2) {
			return nil, fmt.Errorf("%w: it has a manifest too few or too many", ErrBroken)
		}
	}
	return nil, fmt.Errorf("%w: it has no configuration", ErrBroken)
}

// finish reads the configuration; manifest is nil of an archive.
func finish(document []byte, manifest *v1.Manifest, architecture string) (*Image, error) {
	config, err := v1.ParseConfigFile(bytes.NewReader(document))
	if err != nil {
		return nil, fmt.Errorf("%w: its configuration cannot be read: %w", ErrBroken, err)
	}
	if config.OS != "linux" || config.Architecture != architecture {
		return nil, fmt.Errorf("%w: it is for %s/%s and not for linux/%s: name an image that is, or nodes that can run it", ErrPlatform, config.OS, config.Architecture, architecture)
	}
	ids := config.RootFS.DiffIDs
	switch {
	case len(ids) == 0 || len(ids) > MaxLayers:
		return nil, fmt.Errorf("%w: it has %d layers, and an image has 1 to %d", ErrBroken, len(ids), MaxLayers)
	case manifest != nil && len(manifest.Layers) != len(ids):
		return nil, fmt.Errorf("%w: its manifest has %d layers and its configuration %d", ErrBroken, len(manifest.Layers), len(ids))
	}
	image := &Image{Config: config, Layers: make([]Layer, len(ids))}
	for i, id := range ids {
		image.Layers[i] = Layer{Blob: id, DiffID: id}
		if manifest != nil {
			image.Layers[i].Blob, image.Layers[i].Size = manifest.Layers[i].Digest, manifest.Layers[i].Size
		}
		for _, h := range []v1.Hash{id, image.Layers[i].Blob} {
			if h.Algorithm != "sha256" || len(h.Hex) != hex.EncodedLen(sha256.Size) {
				return nil, fmt.Errorf("%w: a layer of it has the digest %s, and only SHA-256 is known", ErrBroken, h)
			}
		}
	}
	return image, nil
}
