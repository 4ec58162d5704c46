package scenario

import (
	"io"
	"log"
	"net/http/httptest"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gleaner-hpc/gleaner/test/registry/image"
)

func init() {
	commands["registry"] = startRegistry
	commands["pushimage"] = pushImage
}

// startRegistry is `registry`: a container registry on this machine, in $REGISTRY, until
// the story ends.
func startRegistry(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: registry")
	}
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	ts.Defer(server.Close)
	ts.Setenv("REGISTRY", strings.TrimPrefix(server.URL, "http://"))
}

// pushImage is `pushimage NAME [flags] PROGRAM...`: see package image. $DIGEST is what it
// has become.
func pushImage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: pushimage NAME [flags] PROGRAM...")
	}
	made, err := image.Parse(args[1:])
	ts.Check(err)
	at, err := name.ParseReference(ts.Getenv("REGISTRY") + "/" + args[0])
	ts.Check(err)
	ts.Check(remote.Write(at, made))
	digest, err := made.Digest()
	ts.Check(err)
	ts.Setenv("DIGEST", digest.String())
}
