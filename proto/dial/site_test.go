package dial

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSite: what is said of a host's controllers is read, and what is not understood is
// refused with its line.
func TestSite(t *testing.T) {
	load := func(text string) (siteConfig, error) {
		path := filepath.Join(t.TempDir(), "client.toml")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return loadSite(path)
	}
	t.Setenv("HOME", "/home/ann")
	config, err := load("controllers = [\"c1.lab:6817\", \"unix:///run/x\"]\ntls_dir = \"~/.gleaner\"\n")
	if err != nil || !slices.Equal(config.Controllers, []string{"c1.lab:6817", "unix:///run/x"}) || config.tlsDir() != "/home/ann/.gleaner" {
		t.Errorf("read %v, %v", config, err)
	}
	if config, err := loadSite(filepath.Join(t.TempDir(), "none")); err != nil || len(config.Controllers) > 0 {
		t.Errorf("without a file: %v, %v", config, err)
	}
	for text, why := range map[string]string{
		"controlers = [\"c1:1\"]":    "controllers", // the key that was meant
		"controllers = [\"c1\"]":     "controllers",
		"controllers = \"c1:1\"":     ":1:",
		"tls_dir = \"gleaner\"":      "absolute",
		"tls_dir = \"~ann/gleaner\"": "absolute",
		"munge_socket = \"munge\"":   "munge_socket",
		"munge_sockt = \"/run/m\"":   "munge_socket",
		"\x00":                       ":1:",
	} {
		if _, err := load(text); !errors.Is(err, ErrSite) || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := loadSite(t.TempDir()); !errors.Is(err, ErrSite) {
		t.Errorf("a directory: %v", err)
	}
}

// TestHereTargets: commands find the sockets that are here, and otherwise name the usual one.
func TestHereTargets(t *testing.T) {
	dir := t.TempDir()
	controller, agent, file := filepath.Join(dir, "c"), filepath.Join(dir, "a"), filepath.Join(dir, "f")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if got := hereTargets(controller, agent, file); !slices.Equal(got, []string{DefaultTarget}) {
		t.Errorf("with no socket: %v", got)
	}
	for _, path := range []string{agent, controller} {
		listener, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
	}
	if got := hereTargets(controller, agent, file); !slices.Equal(got, []string{"unix://" + controller, "unix://" + agent}) {
		t.Errorf("with both: %v", got)
	}
}
