package roots

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/gleaner-hpc/gleaner/oci/manifest"
)

// prove makes sure that a layer that others brought comes for this user too. What comes
// is thrown away.
func (p *pull) prove(ctx context.Context, l manifest.Layer) error {
	p.say("checking the rights to", l)
	sum := sha256.New()
	fetching, err := p.fetcher(ctx, p.user, sum, "layer", p.ref.String(), l.Blob.String())
	if err != nil {
		return err
	}
	if err := fetching.wait(); err != nil {
		return p.fault(ctx, p.ref, err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != l.Blob.Hex {
		return &Error{p.ref.Place(), fmt.Errorf("%w: a layer should be sha256:%s and is sha256:%s", manifest.ErrBroken, l.Blob.Hex, got)}
	}
	return nil
}

// clippedDocuments keeps what documents may be at most, in base64.
type clippedDocuments struct{ bytes.Buffer }

// Write implements io.Writer.
func (c *clippedDocuments) Write(text []byte) (int, error) {
	const most = 3 * manifest.MaxBytes * 4 / 3
	if c.Len()+len(text) > most+1024 {
		return 0, errors.New("the documents of the image are too large")
	}
	return c.Buffer.Write(text)
}
