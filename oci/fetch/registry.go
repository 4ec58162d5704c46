package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/gleaner-hpc/gleaner/oci/manifest"
	"github.com/gleaner-hpc/gleaner/oci/ref"
)

// registry is a repository, with the credentials that the user's config.json or its
// helpers have for it.
type registry struct {
	ref        ref.Ref
	repository name.Repository
}

func openRegistry(r ref.Ref) (source, error) {
	repository, err := name.NewRepository(r.Name)
	if err != nil {
		return nil, err
	}
	return &registry{ref: r, repository: repository}, nil
}

// retries: what a registry answers that is busy or restarts.
var retries = []int{http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}

func (g *registry) options(ctx context.Context) []remote.Option {
	return []remote.Option{
		remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithTransport(bounded{dialing()}),
		remote.WithUserAgent("gleaner"), remote.WithRetryStatusCodes(retries...),
		remote.WithRetryBackoff(remote.Backoff{Duration: time.Second, Factor: 3, Jitter: 0.1, Steps: 4}),
	}
}

// dialing gives up a server that does not answer.
func dialing() http.RoundTripper {
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 20 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout: 20 * time.Second, ResponseHeaderTimeout: Patience, ForceAttemptHTTP2: true, MaxResponseHeaderBytes: 1 << 20,
	}
}

// bounded bounds documents: a library that reads a manifest reads all of it.
type bounded struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(request)
	if err == nil && !strings.Contains(request.URL.Path, "/blobs/") && request.Response == nil {
		answer.Body = &limited{answer.Body, manifest.MaxBytes}
	}
	return answer, err
}

// limited fails where there is more than a document may have.
type limited struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader.
func (l *limited) Read(into []byte) (int, error) {
	n, err := l.ReadCloser.Read(into)
	if l.left -= n; l.left < 0 {
		return n, fmt.Errorf("%w: a document of it is larger than %d bytes", manifest.ErrBroken, manifest.MaxBytes)
	}
	return n, err
}

func (g *registry) root(ctx context.Context) ([]byte, error) {
	var at name.Reference = g.repository.Tag(g.ref.Tag)
	if g.ref.Digest != "" {
		at = g.repository.Digest(g.ref.Digest)
	}
	return g.get(ctx, at)
}

func (g *registry) get(ctx context.Context, at name.Reference) ([]byte, error) {
	found, err := remote.Get(at, g.options(ctx)...)
	if err != nil {
		return nil, explain(g.ref, err)
	}
	return found.Manifest, nil
}

func (g *registry) document(ctx context.Context, d v1.Descriptor, isConfig bool) ([]byte, error) {
	if !isConfig {
		return g.get(ctx, g.repository.Digest(d.Digest.String()))
	}
	body, err := g.layer(ctx, d.Digest)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	document, err := readAll(body)
	return document, explain(g.ref, err)
}

func (g *registry) layer(ctx context.Context, digest v1.Hash) (io.ReadCloser, error) {
	layer, err := remote.Layer(g.repository.Digest(digest.String()), g.options(ctx)...)
	if err != nil {
		return nil, explain(g.ref, err)
	}
	body, err := layer.Compressed()
	return body, explain(g.ref, err)
}

// explain says what an answer of a registry means for its user.
func explain(r ref.Ref, err error) error {
	var answer *transport.Error
	var dialed *net.OpError
	host, _, _ := strings.Cut(r.Name, "/")
	switch {
	case err == nil:
		return nil
	case errors.As(err, &answer) && (answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden):
		return fmt.Errorf("registry %s does not give %s to this user: log in there (docker login %s, podman login), so that ~/.docker/config.json has credentials that are in force: %w", host, r.Place(), host, err)
	case errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound:
		return fmt.Errorf("registry %s has no %s: see whether the name is right, and whether it was removed: %w", host, r.Place(), err)
	case errors.As(err, &answer) && answer.StatusCode == http.StatusTooManyRequests:
		return fmt.Errorf("registry %s gives no more for now: try again later, log in for a higher limit, or name a mirror: %w", host, err)
	case errors.As(err, &dialed):
		return fmt.Errorf("registry %s cannot be reached from here: see whether it is up, and whether this host may connect to it: %w", host, err)
	}
	return fmt.Errorf("registry %s: %w", host, err)
}
