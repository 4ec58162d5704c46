// Package image makes container images of programs of this machine, without any daemon,
// for tests and demonstrations.
package image

import (
	"archive/tar"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/gleaner-hpc/gleaner/oci/sign"
)

// Parse makes the image that is asked for: flags, then programs.
//
//	[-e VAR=VALUE]... [-w DIRECTORY] [-x PROGRAM]... [-d BYTES] PROGRAM...
func Parse(args []string) (v1.Image, error) {
	config := v1.Config{Env: []string{"PATH=/usr/bin:/bin"}}
	var programs []string
	filler := 0
	for len(args) > 0 {
		flag := args[0]
		if !strings.HasPrefix(flag, "-") {
			programs, args = append(programs, flag), args[1:]
			continue
		}
		if len(args) < 2 {
			return nil, fmt.Errorf("%s needs a value", flag)
		}
		value := args[1]
		switch args = args[2:]; flag {
		case "-e":
			config.Env = append(config.Env, value)
		case "-w":
			config.WorkingDir = value
		case "-x":
			config.Entrypoint = append(config.Entrypoint, value)
		case "-d":
			n, err := strconv.Atoi(value)
			if err != nil {
				return nil, err
			}
			filler = n
		default:
			return nil, fmt.Errorf("%s is no flag", flag)
		}
	}
	return Build(programs, filler, config)
}

// Build makes an image of two layers: the files of a system, and the programs.
func Build(programs []string, filler int, config v1.Config) (v1.Image, error) {
	base, err := system(filler)
	if err != nil {
		return nil, err
	}
	top, err := withLibraries(programs)
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, base, top)
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", runtime.GOARCH, config
	return mutate.ConfigFile(image, file)
}

// Sign puts a signature beside an image, where cosign has it.
func Sign(at name.Reference, digest v1.Hash, key *ecdsa.PrivateKey) error {
	signed, err := sign.Sign(at.Context().Name(), digest.String(), key)
	if err != nil {
		return err
	}
	return PutBeside(at, digest, signed)
}

// PutBeside puts signatures beside an image, where cosign has them.
func PutBeside(at name.Reference, digest v1.Hash, all ...sign.Signed) error {
	var layers []mutate.Addendum
	for _, signed := range all {
		annotations := map[string]string{sign.Annotation: base64.StdEncoding.EncodeToString(signed.Signature)}
		if signed.Certificate != "" {
			annotations[sign.CertificateAnnotation] = signed.Certificate
		}
		if signed.LogEntry != "" {
			annotations[sign.LogAnnotation] = signed.LogEntry
		}
		if signed.Timestamp != "" {
			annotations[sign.TimestampAnnotation] = signed.Timestamp
		}
		layers = append(layers, mutate.Addendum{Layer: static.NewLayer(signed.Payload, sign.MediaType), Annotations: annotations})
	}
	signatures, err := mutate.Append(empty.Image, layers...)
	if err != nil {
		return err
	}
	return remote.Write(at.Context().Tag(sign.Tag(digest.String())), signatures)
}

// Refer puts a bundle into the registry that refers to an image, as newer versions of
// cosign do.
func Refer(at name.Reference, digest v1.Hash, bundle []byte) error {
	subject, err := remote.Head(at.Context().Digest(digest.String()))
	if err != nil {
		return err
	}
	const bundleType = sign.BundleType + ".v0.3+json"
	referrer, err := mutate.Append(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), bundleType), mutate.Addendum{Layer: static.NewLayer(bundle, bundleType)})
	if err != nil {
		return err
	}
	referrer, isImage := mutate.Subject(referrer, *subject).(v1.Image)
	if !isImage {
		return fmt.Errorf("%s: what refers to it is no image", at)
	}
	own, err := referrer.Digest()
	if err != nil {
		return err
	}
	return remote.Write(at.Context().Digest(own.String()), referrer)
}

// NewKey makes a key, and its public half in PEM.
func NewKey() (*ecdsa.PrivateKey, string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, "", err
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	return key, string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})), err
}

// archive collects the files of a layer.
type archive struct {
	bytes.Buffer
	*tar.Writer
	there map[string]bool
}

func newArchive() *archive {
	a := &archive{there: map[string]bool{}}
	a.Writer = tar.NewWriter(&a.Buffer)
	return a
}

func (a *archive) layer() (v1.Layer, error) {
	if err := a.Close(); err != nil {
		return nil, err
	}
	content := a.Bytes()
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil })
}

// add adds a file, and the directories above it.
func (a *archive) add(path string, mode int64, content []byte) error {
	path = strings.TrimPrefix(path, "/")
	if a.there[path] {
		return nil
	}
	if above := filepath.Dir(path); above != "." {
		if err := a.directory(above); err != nil {
			return err
		}
	}
	a.there[path] = true
	if err := a.WriteHeader(&tar.Header{Name: path, Mode: mode, Size: int64(len(content))}); err != nil {
		return err
	}
	_, err := a.Write(content)
	return err
}

// links are those of this machine between the directories of its programs.
func (a *archive) links() error {
	for _, path := range []string{"/bin", "/lib", "/lib32", "/lib64", "/sbin"} {
		target, err := os.Readlink(path)
		if err != nil {
			continue
		}
		if err := a.WriteHeader(&tar.Header{Name: path[1:], Typeflag: tar.TypeSymlink, Linkname: target, Mode: 0o777}); err != nil {
			return err
		}
	}
	return nil
}

func (a *archive) directory(path string) error {
	if a.there[path] {
		return nil
	}
	if above := filepath.Dir(path); above != "." {
		if err := a.directory(above); err != nil {
			return err
		}
	}
	a.there[path] = true
	return a.WriteHeader(&tar.Header{Name: path + "/", Mode: 0o755, Typeflag: tar.TypeDir})
}

// Write is the archive's, not that of its buffer.
func (a *archive) Write(p []byte) (int, error) { return a.Writer.Write(p) }

func system(filler int) (v1.Layer, error) {
	a := newArchive()
	files := map[string]string{
		"etc/os-release": "ID=demo\nPRETTY_NAME=\"an image of a demonstration\"\n",
		"etc/passwd":     "root:x:0:0:root:/root:/bin/sh\n",
		"etc/group":      "root:x:0:\n",
	}
	for _, path := range []string{"etc/os-release", "etc/passwd", "etc/group"} {
		if err := a.add(path, 0o644, []byte(files[path])); err != nil {
			return nil, err
		}
	}
	for _, dir := range []string{"tmp", "var/tmp", "proc", "sys", "dev", "root"} {
		if err := a.directory(dir); err != nil {
			return nil, err
		}
	}
	const each = 1 << 20
	random := mathrand.NewChaCha8([32]byte{1})
	for i := 0; i < filler; i += each {
		content := make([]byte, min(each, filler-i))
		_, _ = random.Read(content[:len(content)/2]) // half of it compresses
		if err := a.add(fmt.Sprintf("opt/data/%d", i/each), 0o644, content); err != nil {
			return nil, err
		}
	}
	return a.layer()
}

// withLibraries has programs of this machine, at their own paths, with what ldd says that
// they need.
func withLibraries(programs []string) (v1.Layer, error) {
	a := newArchive()
	if err := a.links(); err != nil {
		return nil, err
	}
	for _, program := range programs {
		path, err := exec.LookPath(program)
		if err != nil {
			return nil, err
		}
		files := []string{path}
		out, _ := exec.Command("ldd", path).Output() // fails for a static program
		for word := range strings.FieldsSeq(string(out)) {
			if strings.HasPrefix(word, "/") && !slices.Contains(files, word) {
				files = append(files, word)
			}
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			dir, err := filepath.EvalSymlinks(filepath.Dir(file))
			if err != nil {
				return nil, err
			}
			if err := a.add(filepath.Join(dir, filepath.Base(file)), 0o755, content); err != nil {
				return nil, err
			}
		}
	}
	return a.layer()
}
