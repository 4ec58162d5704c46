// Command goci reads container images, as the user who named one, and unpacks their
// layers, as root of a user namespace and of nothing else. Commands and supervisors run
// it; nobody needs to type it.
//
//	goci pin NAME                        the name with the digest of what it is now
//	goci documents NAME@DIGEST ARCH      its documents, as JSON
//	goci signatures NAME@DIGEST          its signatures by cosign, as JSON
//	goci verify                          whether an identity has signed an image: question
//	                                     and answer are JSON of package sign
//	goci layer NAME@DIGEST DIGEST        the bytes of a layer
//	goci unpack BLOB DIFF-ID BYTES FILES a layer from standard input, into the directory
//	                                     that is open as descriptor 3
//	goci sum                             what identifies all that is in that directory
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/oci/fetch"
	"github.com/gleaner-hpc/gleaner/oci/manifest"
	"github.com/gleaner-hpc/gleaner/oci/ref"
	"github.com/gleaner-hpc/gleaner/oci/sign"
	"github.com/gleaner-hpc/gleaner/oci/sign/keyless"
	"github.com/gleaner-hpc/gleaner/oci/unpack"
)

// Exit statuses besides 0 and 1.
const (
	exitImage = 3 // the image is at fault
	exitRoom  = 4 // it is too large
)

func main() {
	// What a credential helper is, it may be, but no more than its user.
	if _, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errno != 0 {
		fmt.Fprintln(os.Stderr, "give up privileges:", errno)
		os.Exit(1)
	}
	logrus.SetOutput(io.Discard) // of a library
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(status(err))
	}
}

func status(err error) int {
	switch {
	case errors.Is(err, unpack.ErrRoom):
		return exitRoom
	case errors.Is(err, unpack.ErrBroken), errors.Is(err, unpack.ErrHostile), errors.Is(err, manifest.ErrBroken), errors.Is(err, manifest.ErrPlatform):
		return exitImage
	}
	return 1
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 2 && args[0] == "pin":
		directory, err := os.Getwd()
		if err != nil {
			return err
		}
		r, err := ref.Parse(args[1], directory)
		if err != nil {
			return err
		}
		if r, err = fetch.Pin(ctx, r); err != nil {
			return err
		}
		_, err = fmt.Println(r)
		return err
	case len(args) == 3 && args[0] == "documents":
		r, err := ref.ParsePinned(args[1])
		if err != nil {
			return err
		}
		documents, err := fetch.Documents(ctx, r, args[2])
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(documents)
	case len(args) == 2 && args[0] == "signatures":
		r, err := ref.ParsePinned(args[1])
		if err != nil {
			return err
		}
		signatures, err := fetch.Signatures(ctx, r)
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(signatures)
	case len(args) == 3 && args[0] == "layer":
		r, err := ref.ParsePinned(args[1])
		if err != nil {
			return err
		}
		digest, err := v1.NewHash(args[2])
		if err != nil {
			return err
		}
		return fetch.Layer(ctx, r, digest, os.Stdout)
	case len(args) == 5 && args[0] == "unpack":
		return unpackHere(ctx, args[1:])
	case len(args) == 1 && args[0] == "sum":
		return sumHere()
	case len(args) == 1 && args[0] == "verify":
		return verifyHere()
	}
	return errors.New("goci: pin NAME, documents NAME@DIGEST ARCH, signatures NAME@DIGEST, verify, layer NAME@DIGEST DIGEST, unpack BLOB DIFF-ID BYTES FILES or sum")
}

// directoryFd is the directory of a layer.
const directoryFd = 3

// enterLayer makes the layer's directory the root of this process.
func enterLayer() error {
	if err := errors.Join(unix.Fchdir(directoryFd), unix.Chroot("."), unix.Chdir("/")); err != nil {
		return fmt.Errorf("make the layer's directory the root: %w", err)
	}
	return nil
}

// sumHere writes what identifies all that is in the layer.
func sumHere() error {
	if err := enterLayer(); err != nil {
		return err
	}
	sum, err := unpack.Sum("/")
	if err != nil {
		return err
	}
	_, err = fmt.Println(sum)
	return err
}

// maxQuestion bounds what is read of a question: signatures in base64, and what comes with
// them.
const maxQuestion = 2 * sign.MaxBytes

// verifyHere answers a question. The directory is empty, so that nothing of this machine is
// in reach of what strangers have signed.
func verifyHere() error {
	if err := enterLayer(); err != nil {
		return err
	}
	var question sign.Question
	if err := json.NewDecoder(io.LimitReader(os.Stdin, maxQuestion)).Decode(&question); err != nil {
		return fmt.Errorf("read the signatures: %w", err)
	}
	return json.NewEncoder(os.Stdout).Encode(keyless.Verify(&question))
}

// unpackHere makes the layer's directory the root of this process first.
func unpackHere(ctx context.Context, args []string) error {
	bytes, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return err
	}
	files, err := strconv.ParseInt(args[3], 10, 64)
	if err != nil {
		return err
	}
	if err := enterLayer(); err != nil {
		return err
	}
	unix.Umask(0)
	size, err := unpack.Layer(ctx, os.Stdin, "/", unpack.Want{Blob: args[0], DiffID: args[1]}, unpack.Limits{Bytes: bytes, Files: files})
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(size)
}
