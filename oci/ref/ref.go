// Package ref reads and writes what names a container image: a registry's reference, a
// layout's directory, an archive's file or one of squashfs, and the digest that pins its bytes. It opens
// nothing.
package ref

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// Kind says where an image is.
type Kind string

// The kinds, as the words before the colon.
const (
	Registry Kind = "docker"         // docker://HOST/NAME:TAG, or without a word
	Layout   Kind = "oci"            // oci:DIRECTORY[:TAG], an image layout of the OCI
	Archive  Kind = "docker-archive" // docker-archive:FILE[:NAME:TAG], what docker save writes
	SIF      Kind = "sif"            // sif:FILE, or FILE.sif: what Apptainer builds
	Squashfs Kind = "squashfs"       // squashfs:FILE, FILE.sqsh or FILE.squashfs: a root as Enroot keeps it
)

// Runscript is what Apptainer starts in an image of its own, from the root.
const Runscript = ".singularity.d/runscript"

// MaxBytes bounds a name, with its digest.
const MaxBytes = 1024

// ErrName is returned, wrapped, for what names no image.
var ErrName = errors.New("not the name of a container image")

// Ref is an image.
type Ref struct {
	Kind   Kind
	Name   string // host/repository, or an absolute path
	Tag    string // "" = a layout's only image, an archive's only one
	Digest string // "sha256:…"; "" = it is not pinned
}

var (
	digestPattern = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	tagPattern    = regexp.MustCompile(`^[\w][\w.-]{0,127}$`)
	noTag         = regexp.MustCompile(`^[^\s\S]`) // of a file that has one image
	nameInArchive = regexp.MustCompile(`^[\w][\w./-]*(:[\w][\w.-]*)?$`)
)

// Parse reads a name as its user types it: nvcr.io/nvidia/pytorch:24.05-py3,
// docker://ubuntu, oci:DIR:TAG, docker-archive:FILE, FILE.sif, FILE.sqsh, and pyxis'
// HOST#NAME. A relative path is taken from directory.
func Parse(text, directory string) (Ref, error) {
	switch {
	case text == "":
		return Ref{}, fmt.Errorf("%w: it is empty", ErrName)
	case len(text) > MaxBytes:
		return Ref{}, fmt.Errorf("%w: it is longer than %d bytes", ErrName, MaxBytes)
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return Ref{}, fmt.Errorf("%w: it has control characters", ErrName)
	}
	word, rest, _ := strings.Cut(text, ":")
	switch Kind(word) {
	case Layout:
		return parsePath(Layout, rest, directory, tagPattern)
	case Archive:
		return parsePath(Archive, rest, directory, nameInArchive)
	case SIF, Squashfs:
		return parsePath(Kind(word), rest, directory, noTag)
	}
	plain, _, _ := strings.Cut(text, "@sha256:")
	switch {
	case strings.Contains(plain, "://"): // of a registry, whatever it ends in
	case strings.HasSuffix(plain, ".sif"):
		return parsePath(SIF, text, directory, noTag)
	case strings.HasSuffix(plain, ".sqsh"), strings.HasSuffix(plain, ".squashfs"):
		return parsePath(Squashfs, text, directory, noTag)
	case strings.HasPrefix(text, "/"), strings.HasPrefix(text, "./"), strings.HasPrefix(text, "../"):
		return Ref{}, fmt.Errorf("%w: it is a path: type sif:FILE, squashfs:FILE, oci:DIRECTORY or docker-archive:FILE", ErrName)
	}
	return parseRegistry(strings.TrimPrefix(text, "docker://"))
}

func parseRegistry(text string) (Ref, error) {
	text = strings.Replace(text, "#", "/", 1)
	r := Ref{Kind: Registry}
	text, r.Digest, _ = strings.Cut(text, "@")
	if r.Digest != "" && !digestPattern.MatchString(r.Digest) {
		return Ref{}, fmt.Errorf("%w: a digest is sha256: and 64 hexadecimal digits", ErrName)
	}
	tag, err := name.NewTag(text)
	if err != nil {
		return Ref{}, fmt.Errorf("%w: %v: type HOST/NAME:TAG, oci:DIRECTORY, docker-archive:FILE or FILE.sif", ErrName, err)
	}
	r.Name, r.Tag = tag.Context().Name(), tag.TagStr()
	if r.Digest != "" && !strings.HasSuffix(text, ":"+r.Tag) {
		r.Tag = ""
	}
	return r, nil
}

// parsePath reads PATH[:TAG][@DIGEST]. What follows the first colon of the last
// component is the tag.
func parsePath(kind Kind, text, directory string, tags *regexp.Regexp) (Ref, error) {
	r := Ref{Kind: kind}
	if i := strings.LastIndex(text, "@sha256:"); i >= 0 {
		if text, r.Digest = text[:i], text[i+1:]; !digestPattern.MatchString(r.Digest) {
			return Ref{}, fmt.Errorf("%w: a digest is sha256: and 64 hexadecimal digits", ErrName)
		}
	}
	path, tag, tagged := strings.Cut(text, ":")
	if tagged && !tags.MatchString(tag) {
		return Ref{}, fmt.Errorf("%w: %q is no tag", ErrName, tag)
	}
	if path == "" {
		return Ref{}, fmt.Errorf("%w: type %s:PATH", ErrName, kind)
	}
	if !filepath.IsAbs(path) {
		if directory == "" {
			return Ref{}, fmt.Errorf("%w: %q is not an absolute path", ErrName, path)
		}
		path = filepath.Join(directory, path)
	}
	r.Name, r.Tag = filepath.Clean(path), tag
	return r, nil
}

// ParsePinned reads what String wrote of a pinned image.
func ParsePinned(text string) (Ref, error) {
	r, err := Parse(text, "")
	if err == nil && r.Digest == "" {
		err = fmt.Errorf("%w: it is not pinned by a digest", ErrName)
	}
	if err == nil && r.String() != text {
		err = fmt.Errorf("%w: it is written %s", ErrName, r)
	}
	return r, err
}

// String is the name with all that is known.
func (r Ref) String() string {
	text := string(r.Kind) + ":" + r.Place()
	if r.Kind == Registry {
		text = string(r.Kind) + "://" + r.Place()
	}
	if r.Digest != "" {
		text += "@" + r.Digest
	}
	return text
}

// Place is the name without kind and digest.
func (r Ref) Place() string {
	if r.Tag == "" {
		return r.Name
	}
	return r.Name + ":" + r.Tag
}
