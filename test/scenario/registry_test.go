package scenario

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/sylabs/sif/v2/pkg/sif"

	"github.com/gleaner-hpc/gleaner/oci/sign"
	"github.com/gleaner-hpc/gleaner/test/registry/image"
	"github.com/gleaner-hpc/gleaner/test/registry/sigstore"
)

func init() {
	commands["registry"] = startRegistry
	commands["pushimage"] = pushImage
	commands["sif"] = makeSIF
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

// pushImage is `pushimage [-signed | -keyless SUBJECT ISSUER] NAME [flags] PROGRAM...`: see
// package image. $DIGEST is what it has become. -signed signs it with a new key, whose public
// half is in cosign.pub, -keyless as somebody for whom an issuer has vouched, with a new
// Sigstore, whose root is in trusted_root.json.
func pushImage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: pushimage NAME [flags] PROGRAM...")
	}
	put := func(name.Reference, v1.Hash) {} // a signature
	switch {
	case args[0] == "-signed":
		put, args = func(at name.Reference, digest v1.Hash) { signWithKey(ts, at, digest) }, args[1:]
	case args[0] == "-keyless" && len(args) > 4:
		by := sigstore.Signer{Subject: args[1], Issuer: args[2], At: time.Now().Add(-24 * time.Hour)}
		put, args = func(at name.Reference, digest v1.Hash) { signKeyless(ts, at, digest, by) }, args[3:]
	}
	made, err := image.Parse(args[1:])
	ts.Check(err)
	at, err := name.ParseReference(ts.Getenv("REGISTRY") + "/" + args[0])
	ts.Check(err)
	ts.Check(remote.Write(at, made))
	digest, err := made.Digest()
	ts.Check(err)
	ts.Setenv("DIGEST", digest.String())
	put(at, digest)
}

func signWithKey(ts *testscript.TestScript, at name.Reference, digest v1.Hash) {
	key, public, err := image.NewKey()
	ts.Check(err)
	ts.Check(image.Sign(at, digest, key))
	ts.Check(os.WriteFile(ts.MkAbs("cosign.pub"), []byte(public), 0o644))
}

func signKeyless(ts *testscript.TestScript, at name.Reference, digest v1.Hash, by sigstore.Signer) {
	site, err := sigstore.New(time.Now())
	ts.Check(err)
	bundle, err := site.Attest(by, digest.String(), sign.SignaturePredicate)
	ts.Check(err)
	ts.Check(image.Refer(at, digest, bundle.Bundle))
	root, err := site.Root()
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs("trusted_root.json"), root, 0o644))
}

// makeSIF is `sif FILE [flags] PROGRAM...`: an image as Apptainer keeps it.
func makeSIF(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: sif FILE [flags] PROGRAM...")
	}
	made, err := image.Parse(args[1:])
	ts.Check(err)
	root := mutate.Extract(made)
	defer root.Close()
	file := ts.MkAbs("root.sqsh")
	command := exec.Command("mksquashfs", "-", file, "-tar", "-noappend", "-quiet", "-no-progress")
	command.Stdin = root
	if out, err := command.CombinedOutput(); err != nil {
		ts.Fatalf("mksquashfs, which make setup installs: %v: %s", err, out)
	}
	content, err := os.Open(file)
	ts.Check(err)
	defer content.Close()
	d, err := sif.NewDescriptorInput(sif.DataPartition, content, sif.OptPartitionMetadata(sif.FsSquash, sif.PartPrimSys, runtime.GOARCH))
	ts.Check(err)
	container, err := sif.CreateContainerAtPath(args[0], sif.OptCreateWithDescriptors(d), sif.OptCreateWithLaunchScript("#!/usr/bin/env run-singularity\n"))
	ts.Check(err)
	ts.Check(container.UnloadContainer())
	ts.Check(os.Chmod(args[0], 0o644))
}
