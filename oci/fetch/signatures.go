package fetch

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/gleaner-hpc/gleaner/oci/ref"
	"github.com/gleaner-hpc/gleaner/oci/sign"
)

// Signatures answers those that cosign has put beside a pinned image of a registry.
func Signatures(ctx context.Context, r ref.Ref) ([]sign.Signed, error) {
	if r.Kind != ref.Registry {
		return nil, errors.New("only images of registries have signatures")
	}
	from, err := openRegistry(r)
	if err != nil {
		return nil, err
	}
	g := from.(*registry)
	image, err := remote.Image(g.repository.Tag(sign.Tag(r.Digest)), g.options(ctx)...)
	var answer *transport.Error
	if errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, explain(r, err)
	}
	manifest, err := image.Manifest()
	if err != nil {
		return nil, explain(r, err)
	}
	var all []sign.Signed
	for i, layer := range manifest.Layers {
		if i == sign.MaxSignatures {
			break
		}
		signature, err := base64.StdEncoding.DecodeString(layer.Annotations[sign.Annotation])
		if err != nil || layer.Size > sign.MaxPayloadBytes {
			continue
		}
		payload, err := g.payload(ctx, layer)
		if err != nil {
			return nil, err
		}
		all = append(all, sign.Signed{Payload: payload, Signature: signature})
	}
	return all, nil
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
