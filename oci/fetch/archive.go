package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/gleaner-hpc/gleaner/oci/ref"
)

// archive is a file that docker save wrote. Its configuration pins it: that names what is
// in its layers, and its manifest has no digest.
type archive struct {
	ref   ref.Ref
	image v1.Image
}

func openArchive(r ref.Ref) (source, error) {
	var tag *name.Tag
	if r.Tag != "" {
		t, err := name.NewTag(r.Tag)
		if err != nil {
			return nil, err
		}
		tag = &t
	}
	image, err := tarball.ImageFromPath(r.Name, tag)
	if err != nil {
		return nil, fmt.Errorf("%s is no image that docker save wrote, or has several: name one with docker-archive:FILE:NAME:TAG: %w", r.Name, err)
	}
	return &archive{r, image}, nil
}

func (a *archive) root(context.Context) ([]byte, error) { return a.image.RawConfigFile() }

func (a *archive) document(context.Context, v1.Descriptor, bool) ([]byte, error) {
	return nil, errors.New("an archive has one document")
}

func (a *archive) layer(_ context.Context, digest v1.Hash) (io.ReadCloser, error) {
	layer, err := a.image.LayerByDiffID(digest)
	if err != nil {
		return nil, fmt.Errorf("archive %s: %w", a.ref.Name, err)
	}
	return layer.Uncompressed()
}
