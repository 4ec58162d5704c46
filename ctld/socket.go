package ctld

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// listenUnix opens the socket for everyone on this host: who they are is the
// kernel's word. The socket of a dead controller is replaced, that of a live
// one is not.
func listenUnix(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("make directory of the socket: %w", err)
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s to users: %w", path, err), listener.Close())
	}
	return listener, nil
}

func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at socket: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is there and is not a socket: move it away, or give another --socket", path)
	}
	if conn, err := net.DialTimeout("unix", path, time.Second); err == nil {
		_ = conn.Close()
		return fmt.Errorf("another program answers on %s: stop it, or give another --socket", path)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove the socket of a controller that is gone: %w", err)
	}
	return nil
}

// peerName is the name of this controller: the one given, else the one its
// data directory was first used under, else the host's.
func peerName(config *Config) (string, error) {
	path := filepath.Join(config.DataDir, "name")
	if err := os.MkdirAll(config.DataDir, 0o700); err != nil {
		return "", fmt.Errorf("make data directory: %w", err)
	}
	kept, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read this controller's name: %w", err)
	}
	name := strings.TrimSpace(string(kept))
	if config.Name != "" || name == "" {
		name = config.Name
	}
	if name == "" {
		host, err := os.Hostname()
		if err != nil {
			return "", fmt.Errorf("find a name for this controller: %w", err)
		}
		name, _, _ = strings.Cut(host, ".")
	}
	if !validPeerName(name) {
		return "", fmt.Errorf("%w: name = %q: use 1 to 60 letters, digits, '-', '_' and '.'", ErrConfig, name)
	}
	if len(kept) == 0 {
		if err := os.WriteFile(path, []byte(name+"\n"), 0o600); err != nil {
			return "", fmt.Errorf("keep this controller's name: %w", err)
		}
	}
	return name, nil
}

func validPeerName(name string) bool {
	return name != "" && len(name) <= 60 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == ""
}
