package fetch

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/gleaner-hpc/gleaner/oci/ref"
	"github.com/gleaner-hpc/gleaner/oci/sign"
)

// Signatures answers those that cosign has put beside a pinned image of a registry, and
// what refers to the image, as newer versions keep them.
func Signatures(ctx context.Context, r ref.Ref) ([]sign.Signed, error) {
	if r.Kind != ref.Registry {
		return nil, errors.New("only images of registries have signatures")
	}
	from, err := openRegistry(r)
	if err != nil {
		return nil, err
	}
	found := &found{registry: from.(*registry)}
	if err := found.beside(ctx); err != nil {
		return nil, err
	}
	if err := found.referring(ctx); err != nil {
		return nil, err
	}
	return found.all, nil
}

// found are an image's signatures, as many as are looked at.
type found struct {
	*registry
	all   []sign.Signed
	bytes int
}

// mayRead reports whether there is room for one more.
func (f *found) mayRead(size int64) bool {
	return len(f.all) < sign.MaxSignatures && size <= sign.MaxPayloadBytes && int64(f.bytes)+size <= sign.MaxBytes
}

func (f *found) add(s sign.Signed) {
	f.all = append(f.all, s)
	f.bytes += len(s.Bundle) + len(s.Payload) + len(s.Signature) + len(s.Certificate) + len(s.LogEntry) + len(s.Timestamp)
}

// beside reads the layers of the tag that is named after the image's digest.
func (f *found) beside(ctx context.Context) error {
	image, err := remote.Image(f.repository.Tag(sign.Tag(f.ref.Digest)), f.options(ctx)...)
	var answer *transport.Error
	if errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound {
		return nil
	}
	if err != nil {
		return explain(f.ref, err)
	}
	manifest, err := image.Manifest()
	if err != nil {
		return explain(f.ref, err)
	}
	for _, layer := range manifest.Layers {
		signature, err := base64.StdEncoding.DecodeString(layer.Annotations[sign.Annotation])
		if err != nil || !f.mayRead(layer.Size) {
			continue
		}
		payload, err := f.payload(ctx, layer)
		if err != nil {
			return err
		}
		f.add(sign.Signed{
			Payload: payload, Signature: signature, Certificate: layer.Annotations[sign.CertificateAnnotation],
			LogEntry: layer.Annotations[sign.LogAnnotation], Timestamp: layer.Annotations[sign.TimestampAnnotation],
		})
	}
	return nil
}

// referring reads the bundles among what refers to the image.
func (f *found) referring(ctx context.Context) error {
	index, err := remote.Referrers(f.repository.Digest(f.ref.Digest), f.options(ctx)...)
	if err != nil {
		return explain(f.ref, err)
	}
	list, err := index.IndexManifest()
	if err != nil {
		return explain(f.ref, err)
	}
	for _, refers := range list.Manifests {
		if !strings.HasPrefix(refers.ArtifactType, sign.BundleType) || !f.mayRead(0) {
			continue
		}
		image, err := remote.Image(f.repository.Digest(refers.Digest.String()), f.options(ctx)...)
		if err != nil {
			return explain(f.ref, err)
		}
		manifest, err := image.Manifest()
		if err != nil {
			return explain(f.ref, err)
		}
		for _, layer := range manifest.Layers {
			if !strings.HasPrefix(string(layer.MediaType), sign.BundleType) || !f.mayRead(layer.Size) {
				continue
			}
			bundle, err := f.payload(ctx, layer)
			if err != nil {
				return err
			}
			f.add(sign.Signed{Bundle: bundle})
		}
	}
	return nil
}

func (g *registry) payload(ctx context.Context, layer v1.Descriptor) ([]byte, error) {
	body, err := g.layer(ctx, layer.Digest)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	payload, err := io.ReadAll(io.LimitReader(body, sign.MaxPayloadBytes))
	if err != nil {
		return nil, fmt.Errorf("read a signature: %w", explain(g.ref, err))
	}
	return payload, nil
}
