package fetch

import (
	"context"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/gleaner-hpc/gleaner/oci/ref"
)

// named is the annotation that has an image's tag in a layout.
const named = "org.opencontainers.image.ref.name"

// onDisk is an image layout.
type onDisk struct {
	ref  ref.Ref
	path layout.Path
}

func openLayout(r ref.Ref) (source, error) {
	path, err := layout.FromPath(r.Name)
	if err != nil {
		return nil, fmt.Errorf("%s is no OCI image layout, with index.json and blobs in it: %w", r.Name, err)
	}
	return &onDisk{r, path}, nil
}

func (l *onDisk) root(context.Context) ([]byte, error) {
	if l.ref.Digest != "" {
		hash, err := v1.NewHash(l.ref.Digest)
		if err != nil {
			return nil, err
		}
		return l.read(hash)
	}
	index, err := l.path.ImageIndex()
	if err != nil {
		return nil, err
	}
	images, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	var found []v1.Descriptor
	for _, d := range images.Manifests {
		if l.ref.Tag == "" || d.Annotations[named] == l.ref.Tag {
			found = append(found, d)
		}
	}
	switch {
	case len(found) == 1:
		return l.read(found[0].Digest)
	case l.ref.Tag != "":
		return nil, fmt.Errorf("layout %s has %d images with the tag %s", l.ref.Name, len(found), l.ref.Tag)
	}
	return nil, fmt.Errorf("layout %s has %d images: say which with oci:%s:TAG", l.ref.Name, len(found), l.ref.Name)
}

func (l *onDisk) read(hash v1.Hash) ([]byte, error) {
	file, err := l.path.Blob(hash)
	if err != nil {
		return nil, fmt.Errorf("layout %s: %w", l.ref.Name, err)
	}
	defer file.Close()
	return readAll(file)
}

func (l *onDisk) document(_ context.Context, d v1.Descriptor, _ bool) ([]byte, error) {
	return l.read(d.Digest)
}

func (l *onDisk) layer(_ context.Context, digest v1.Hash) (io.ReadCloser, error) {
	file, err := l.path.Blob(digest)
	if err != nil {
		return nil, fmt.Errorf("layout %s: %w", l.ref.Name, err)
	}
	return file, nil
}
