package fetch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/gleaner-hpc/gleaner/oci/bound"
	"github.com/gleaner-hpc/gleaner/oci/ref"
	"github.com/gleaner-hpc/gleaner/oci/squash"
)

// file is one of squashfs. A configuration that is made for it pins it: that names the
// digest of the tar of all that is in it.
type file struct{ ref ref.Ref }

func openFile(r ref.Ref) (source, error) { return &file{r}, bound.Memory() }

func (f *file) root(ctx context.Context) ([]byte, error) {
	from, err := squash.Open(f.ref.Name)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	sum := sha256.New()
	content, err := from.Tar(ctx, sum)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.ref.Name, err)
	}
	config := v1.ConfigFile{OS: "linux", Architecture: from.Architecture}
	if config.Architecture == "" {
		config.Architecture = runtime.GOARCH // a bare file system does not say
	}
	config.RootFS = v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{{Algorithm: "sha256", Hex: hex.EncodeToString(sum.Sum(nil))}}}
	if content.Runscript {
		config.Config.Entrypoint = []string{"/" + ref.Runscript}
	}
	return json.Marshal(config)
}

func (f *file) document(context.Context, v1.Descriptor, bool) ([]byte, error) {
	return nil, errors.New("a file of squashfs has one document")
}

func (f *file) layer(ctx context.Context, _ v1.Hash) (io.ReadCloser, error) {
	from, err := squash.Open(f.ref.Name)
	if err != nil {
		return nil, err
	}
	out, in := io.Pipe()
	go func() {
		defer from.Close()
		_, err := from.Tar(ctx, in)
		if err != nil {
			err = fmt.Errorf("%s: %w", f.ref.Name, err)
		}
		in.CloseWithError(err)
	}()
	return out, nil
}
