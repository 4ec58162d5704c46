package jobspec

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/oci/bound"
	"github.com/gleaner-hpc/gleaner/oci/ref"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// This file has the options of a job that brings its own root, under pyxis' names too.

const (
	OptImage           = "image"
	optContainerMounts = "container-mounts"
	optContainerDir    = "container-workdir"
	optContainerEnv    = "container-env"
	optEntrypoint      = "container-entrypoint"
	optNoEntrypoint    = "no-container-entrypoint"
	optMountHome       = "container-mount-home"
	optNoMountHome     = "no-container-mount-home"
)

func containerOptions() []option.Option {
	return []option.Option{
		{Long: OptImage, Aliases: []string{"container-image"}, Argument: "image", InScript: true, Environment: variables("IMAGE"), Help: "run in this container image in place of the node's own root: HOST/NAME:TAG of a registry, oci:DIRECTORY[:TAG], docker-archive:FILE, FILE.sif or FILE.sqsh. What it is now is what every node and every restart of the job gets"},
		{Long: optContainerMounts, Argument: "source:target[:ro][,...]", InScript: true, Environment: variables("CONTAINER_MOUNTS"), Help: "show these directories and files of yours at other paths in the image; without a target at their own"},
		{Long: optContainerDir, Argument: "directory", InScript: true, Environment: variables("CONTAINER_WORKDIR"), Help: "directory in the image in which the script starts", Default: "the image's, else that of --chdir"},
		{Long: optContainerEnv, Argument: "name[,...]", InScript: true, Environment: variables("CONTAINER_ENV"), Help: "variables of yours that keep their values where the image sets them too"},
		{Long: optEntrypoint, InScript: true, Help: "start the script by the image's entry point"},
		{Long: optNoEntrypoint, InScript: true, Help: "start the script itself (the default)"},
		{Long: optMountHome, InScript: true, Help: "show your home in the image (the default)"},
		{Long: optNoMountHome, InScript: true, Help: "do not show your home in the image"},
	}
}

// container reads them. directory is the current one.
func (b *Builder) container(directory string) {
	v := b.Values
	if !v.Given(OptImage) {
		for _, long := range []string{optContainerMounts, optContainerDir, optContainerEnv, optEntrypoint, optNoMountHome} {
			if v.Given(long) {
				b.Fail(1, "--%s needs a container image: name one with --%s", long, OptImage)
			}
		}
		return
	}
	r, err := ref.Parse(v.Text(OptImage), directory)
	if err != nil {
		b.Fail(1, "Invalid --%s specification: %w", OptImage, err)
		return
	}
	b.spec.Image = r.String()
	o := &pb.ContainerOptions{WorkDirectory: v.Text(optContainerDir), Entrypoint: v.Given(optEntrypoint), NoHome: v.Given(optNoMountHome)}
	if o.WorkDirectory != "" && !filepath.IsAbs(o.WorkDirectory) {
		b.Fail(1, "Invalid --%s specification: %q is no absolute path", optContainerDir, o.WorkDirectory)
	}
	o.Environment = strings.FieldsFunc(v.Text(optContainerEnv), func(r rune) bool { return r == ',' })
	b.spec.Container = o
	if v.Given(optContainerMounts) {
		mounts, err := spec.ParseMounts(v.Text(optContainerMounts))
		if err != nil {
			b.Fail(1, "Invalid --%s specification: %w", optContainerMounts, err)
		}
		for _, m := range mounts {
			b.spec.Mounts = append(b.spec.Mounts, &pb.Mount{Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly})
		}
	}
}

// Pin asks where the job's image is for the digest of what it is now, with the user's own
// credentials. It runs goci, which is installed beside this program.
func Pin(job *pb.JobSpec) error {
	if job.GetImage() == "" {
		return nil
	}
	pinned, err := PinImage(job.Image)
	if err != nil {
		return option.Fail(1, "--%s: %w", OptImage, err)
	}
	job.Image = pinned
	return nil
}

// PinImage does that for the name of an image.
func PinImage(image string) (string, error) {
	if _, err := ref.ParsePinned(image); err == nil {
		return image, nil
	}
	program, err := findGoci()
	if err != nil {
		return "", err
	}
	cmd := exec.Command(program, "pin", image)
	var said bytes.Buffer
	cmd.Stderr = &said
	pinned, err := cmd.Output()
	if err != nil {
		why := bound.Explain(strings.TrimSpace(said.String()))
		if why == "" {
			why = err.Error()
		}
		return "", errors.New(why)
	}
	return strings.TrimSpace(string(pinned)), nil
}

// findGoci looks beside this program, whatever link led to it, and where packages have
// it.
func findGoci() (string, error) {
	own, err := os.Executable()
	if err != nil {
		return "", err
	}
	for _, dir := range []string{filepath.Dir(own), "/usr/local/bin", "/usr/bin"} {
		path := filepath.Join(dir, "goci")
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path, nil
		}
	}
	return "", fmt.Errorf("goci, which reads container images, is not beside %s: install it there, or name the image by its digest, HOST/NAME@sha256:…", own)
}
