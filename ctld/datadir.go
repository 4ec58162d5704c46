package ctld

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/ctld/pki"
	"github.com/gleaner-hpc/gleaner/proto/tomlfile"
)

// nameFile holds the name of the controller, in its data directory. It is
// written after the log, so where it exists the log must exist too.
const nameFile = "name"

// maxNameFile bounds what is read of it.
const maxNameFile = 1 << 10

// checkDataDir makes the data directory, or refuses one that this controller
// cannot write, or that others can: a user who can replace the log can run jobs
// as anybody.
func checkDataDir(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("make data directory: %w: give another --data-dir", err)
	}
	return refuseDataDir(path)
}

// refuseDataDir says why a data directory that exists cannot be used.
func refuseDataDir(path string) error {
	var about unix.Stat_t
	if err := unix.Stat(path, &about); err != nil {
		return fmt.Errorf("look at data directory %s: %w", path, err)
	}
	if owner := int(about.Uid); owner != os.Geteuid() {
		return fmt.Errorf("data directory %s belongs to user %d and gctld runs as user %d: start it as that user, or chown -R it", path, owner, os.Geteuid())
	}
	if mode := about.Mode & 0o777; mode&0o022 != 0 {
		return fmt.Errorf("data directory %s has mode %04o: others may write to it: chmod 700 it after a look at what is in it", path, mode)
	}
	if err := unix.Access(path, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("data directory %s cannot be written (%w): make it writable, or give another --data-dir", path, err)
	}
	return nil
}

// peerName is the name of this controller: the one given, else the one its
// data directory was first used under, else the host's. existing says that the
// directory was used before.
func peerName(config *Config) (name string, existing bool, err error) {
	kept, err := tomlfile.Read(filepath.Join(config.DataDir, nameFile), maxNameFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", false, fmt.Errorf("read this controller's name: %w", err)
	}
	existing = err == nil
	name = strings.TrimSpace(string(kept))
	if existing && !validPeerName(name) {
		return "", false, fmt.Errorf("damaged file %s: it should hold the name of this controller: write the name into it, or put back a copy of the whole data directory", filepath.Join(config.DataDir, nameFile))
	}
	if name == "" {
		name = pki.Name(PKIDir(config.DataDir))
	}
	if config.Name != "" {
		name = config.Name
	}
	if name == "" {
		host, err := os.Hostname()
		if err != nil {
			return "", false, fmt.Errorf("find a name for this controller: %w", err)
		}
		name, _, _ = strings.Cut(host, ".")
	}
	if !validPeerName(name) {
		return "", false, fmt.Errorf("%w: the host's name %q is no name for a controller: give --name with 1 to 60 letters, digits, '-', '_' and '.'", ErrConfig, name)
	}
	return name, existing, nil
}

// keepName writes the name whole or not at all.
func keepName(dataDir, name string) error {
	draft := filepath.Join(dataDir, nameFile+".new")
	file, err := os.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("keep this controller's name: %w", err)
	}
	_, err = file.WriteString(name + "\n")
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(draft, filepath.Join(dataDir, nameFile))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("keep this controller's name: %w", err), os.Remove(draft))
	}
	return nil
}

func validPeerName(name string) bool {
	return name != "" && len(name) <= 60 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == ""
}
