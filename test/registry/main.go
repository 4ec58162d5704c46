// Command registry is a container registry on this machine, for tests and demonstrations,
// and makes images for it without any daemon.
//
//	registry serve ADDRESS             serves until it is killed; prints where
//	registry bucket                    serves S3 until it is killed, with the bucket "images";
//	                                   prints where, and the credentials
//	registry sign NAME FILE            signs an image with a new key, and writes the key's
//	                                   public half
//	registry push NAME [-e VAR=VALUE]... [-w DIRECTORY] [-x PROGRAM] [-d BYTES] PROGRAM...
//	                                   makes an image of programs of this machine, with
//	                                   the libraries that they need, and pushes it
package main

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/gleaner-hpc/gleaner/checkpoint/store/s3/s3test"
	handmade "github.com/gleaner-hpc/gleaner/test/registry/image"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "registry:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "serve":
		listener, err := net.Listen("tcp", args[1])
		if err != nil {
			return err
		}
		fmt.Println(listener.Addr())
		return http.Serve(listener, registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	case len(args) == 1 && args[0] == "bucket":
		server, err := s3test.Start()
		if err != nil {
			return err
		}
		fmt.Println(server.Endpoint, s3test.Key, s3test.Secret)
		select {}
	case len(args) > 2 && args[0] == "push":
		return push(args[1], args[2:])
	case len(args) == 3 && args[0] == "sign":
		return signImage(args[1], args[2])
	}
	return errors.New("type serve ADDRESS, bucket, sign NAME FILE, or push NAME [-e VAR=VALUE] [-w DIRECTORY] [-x PROGRAM] [-d BYTES] PROGRAM")
}

func signImage(image, file string) error {
	at, err := name.ParseReference(image)
	if err != nil {
		return err
	}
	found, err := remote.Head(at)
	if err != nil {
		return err
	}
	key, public, err := handmade.NewKey()
	if err != nil {
		return err
	}
	if err := handmade.Sign(at, found.Digest, key); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(public), 0o644)
}

// push makes an image and pushes it; "oci:DIRECTORY" is a layout.
func push(to string, args []string) error {
	made, err := handmade.Parse(args)
	if err != nil {
		return err
	}
	digest, err := made.Digest()
	if err != nil {
		return err
	}
	if dir, is := strings.CutPrefix(to, "oci:"); is {
		path, err := layout.Write(dir, empty.Index)
		if err == nil {
			err = path.AppendImage(made)
		}
		if err != nil {
			return err
		}
	} else {
		at, err := name.ParseReference(to)
		if err != nil {
			return err
		}
		if err := remote.Write(at, made); err != nil {
			return err
		}
	}
	fmt.Println(digest)
	return nil
}
