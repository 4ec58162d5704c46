package store

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// Facts answers what the node at the other end says about an image, for a machine
// that is asked whether it could resume it: see checkpoint.Manifest.Facts.
// They are not checked against the image's digest.
func (r *Remote) Facts(ctx context.Context, image checkpoint.Digest) (facts *checkpoint.Manifest, err error) {
	i := &remoteImage{remote: r, digest: image}
	defer i.hangUp()
	err = i.persist(ctx, func() (bool, error) {
		data, err := i.hail(ctx, factsMagic, frameFacts)
		if err != nil {
			return false, err
		}
		encoded, err := expandManifest(data)
		if err == nil {
			facts, err = checkpoint.DecodeFacts(encoded)
		}
		if err != nil {
			return false, mine{fmt.Errorf("the facts that the other node sent: %w", err)}
		}
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("get the facts of an image from another node: %w", err)
	}
	return facts, nil
}

// ServeFacts tells whoever is at the other end the facts of one image, and sends
// nothing else of it. Otherwise it is as Serve.
func ServeFacts(ctx context.Context, stream io.ReadWriteCloser, from Reader, image checkpoint.Digest) error {
	return serveWith(ctx, stream, from, image, serveFacts)
}

func serveFacts(ctx context.Context, conn io.ReadWriter, from Reader, image checkpoint.Digest) error {
	out := bufio.NewWriterSize(conn, 64<<10)
	if err := greeted(conn, out, factsMagic, image); err != nil {
		return err
	}
	manifest, err := from.Manifest(ctx, image)
	if err != nil {
		return refuse(out, err)
	}
	encoded, _, err := manifest.Facts().Encode()
	if err != nil {
		return refuse(out, err)
	}
	if err := writeFrame(out, frameFacts, compressManifest(encoded)); err != nil {
		return err
	}
	return out.Flush()
}
