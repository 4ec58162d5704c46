package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/checkpoint"
)

// GNU tar makes and unpacks archives; CRIU needs it on every node
// too. It keeps what an overlay's layer is made of: numbers of owners, extended
// attributes of root (trusted.overlay.*), whiteouts, hard links, holes. It leaves
// sockets out: whoever listened on one binds it again.
var (
	tarCreate  = []string{"--create", "--format=posix", "--sparse", "--acls", "--xattrs", "--xattrs-include=*", "--numeric-owner", "--one-file-system", "--warning=no-file-ignored"}
	tarExtract = []string{"--extract", "--acls", "--xattrs", "--xattrs-include=*", "--numeric-owner", "--same-owner", "--preserve-permissions", "--delay-directory-restore"}
)

// pack archives what the job has written into its root and its private
// directories.
func (c *Container) pack(ctx context.Context, dir string) error {
	for part, from := range map[string]string{
		upperPart: filepath.Join(c.spec.LayerDir, "upper"), tmpPart: filepath.Join(c.spec.LayerDir, "tmp"),
		varTmpPart: filepath.Join(c.spec.LayerDir, "var-tmp"), runPart: c.spec.RunDir,
	} {
		if err := archive(ctx, from, filepath.Join(dir, part)); err != nil {
			return err
		}
	}
	return nil
}

// archive writes all that is in a directory, and its own owner and mode. The job is
// frozen, but CRIU makes directories for a moment where it looks at mounts. So what has
// changed while it was read is read again.
func archive(ctx context.Context, dir, file string) (err error) {
	for range archiveTries {
		err = tar(ctx, append(tarCreate, "--file="+file, "--directory="+dir, "."))
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != tarChanged {
			break
		}
	}
	return err
}

const (
	archiveTries = 3
	// tarChanged is the exit status of tar when a file changed as it was read, and all
	// else went well (tar(1), "RETURN VALUE").
	tarChanged = 1
)

// unarchive writes an archive into a directory that exists.
func unarchive(ctx context.Context, file, dir string) error {
	return tar(ctx, append(tarExtract, "--file="+file, "--directory="+dir))
}

func tar(ctx context.Context, args []string) error {
	cmd := exec.CommandContext(ctx, "tar", args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "TAR_OPTIONS=")
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	err := cmd.Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		first, _, _ := strings.Cut(strings.TrimSpace(complaints.String()), "\n")
		return fmt.Errorf("tar %s: %w", first, err)
	}
	return nil
}

// copyFile makes a new file, readable by nobody but its owner, and answers the
// permissions of the one that it copies.
func copyFile(from, to string) (mode uint32, err error) {
	source, err := os.Open(from)
	if err != nil {
		return 0, fmt.Errorf("copy a file of the container: %w", err)
	}
	defer source.Close()
	info, err := source.Stat()
	if err != nil {
		return 0, fmt.Errorf("copy a file of the container: %w", err)
	}
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, fmt.Errorf("copy a file of the container: %w", err)
	}
	_, err = target.ReadFrom(source)
	if err := errors.Join(err, target.Close()); err != nil {
		return 0, fmt.Errorf("copy a file of the container to %s: %w", to, err)
	}
	return uint32(info.Mode().Perm()), nil
}

// LayerBytes is about how much an image writes into the layers of its container.
func LayerBytes(m *checkpoint.Manifest) (n int64) {
	for i := range m.Parts {
		if part := &m.Parts[i]; slices.Contains([]string{upperPart, tmpPart, varTmpPart, runPart}, part.Name) {
			n += part.Size
		}
	}
	return n
}
