// Package fetch reads container images where their users have them: in registries,
// layouts, archives and files of squashfs. It runs as the user, with the user's credentials and rights, and
// what it answers is checked by whoever asked.
package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/gleaner-hpc/gleaner/oci/manifest"
	"github.com/gleaner-hpc/gleaner/oci/ref"
)

// source is a place that has images.
type source interface {
	// root answers the document that the name, or its digest, leads to.
	root(ctx context.Context) ([]byte, error)
	// document answers a manifest or a configuration.
	document(ctx context.Context, d v1.Descriptor, isConfig bool) ([]byte, error)
	// layer opens the bytes of one layer.
	layer(ctx context.Context, digest v1.Hash) (io.ReadCloser, error)
}

func open(r ref.Ref) (source, error) {
	switch r.Kind {
	case ref.Layout:
		return openLayout(r)
	case ref.Archive:
		return openArchive(r)
	case ref.SIF, ref.Squashfs:
		return openFile(r)
	}
	return openRegistry(r)
}

// Pin answers the image with the digest of what it is now. One that has a digest is not
// looked up.
func Pin(ctx context.Context, r ref.Ref) (ref.Ref, error) {
	if r.Digest != "" {
		return r, nil
	}
	from, err := open(r)
	if err != nil {
		return r, err
	}
	document, err := from.root(ctx)
	if err != nil {
		return r, err
	}
	r.Digest = manifest.SHA256(document).String()
	return r, nil
}

// Documents answers those of a pinned image, for an architecture.
func Documents(ctx context.Context, r ref.Ref, architecture string) (manifest.Documents, error) {
	from, err := open(r)
	if err != nil {
		return nil, err
	}
	document, err := from.root(ctx)
	if err != nil {
		return nil, err
	}
	documents := manifest.Documents{document}
	const deepest = 3 // index, manifest, configuration
	for r.Kind == ref.Registry || r.Kind == ref.Layout {
		next, isConfig, err := manifest.Next(document, architecture)
		if err != nil {
			return nil, err
		}
		if len(documents) == deepest {
			return nil, fmt.Errorf("%w: its index leads to another index", manifest.ErrBroken)
		}
		if next.Size > manifest.MaxBytes {
			return nil, fmt.Errorf("%w: it names a document of %d bytes, larger than %d", manifest.ErrBroken, next.Size, manifest.MaxBytes)
		}
		if document, err = from.document(ctx, next, isConfig); err != nil {
			return nil, err
		}
		if documents = append(documents, document); isConfig {
			break
		}
	}
	return documents, nil
}

// Layer writes the bytes of a layer.
func Layer(ctx context.Context, r ref.Ref, digest v1.Hash, to io.Writer) error {
	from, err := open(r)
	if err != nil {
		return err
	}
	layer, err := from.layer(ctx, digest)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, &untilSilent{from: layer, left: newWatch(ctx, layer)})
	return errors.Join(err, layer.Close())
}

// readAll reads a document, and no more than one may have.
func readAll(from io.Reader) ([]byte, error) {
	document, err := io.ReadAll(io.LimitReader(from, manifest.MaxBytes+1))
	if err == nil && len(document) > manifest.MaxBytes {
		err = fmt.Errorf("%w: a document of it is larger than %d bytes", manifest.ErrBroken, manifest.MaxBytes)
	}
	return document, err
}
