package ctld

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Config is what one controller needs to know about itself. Everything about
// the cluster is policy, which is replicated and changed while it runs.
type Config struct {
	// Name of this controller among the cluster's; "" = the name the data
	// directory was first used under, or the host's.
	Name string `toml:"name"`
	// DataDir holds the log, the snapshots and the certificates.
	DataDir string `toml:"data_dir"`
	// Socket is the unix socket for users and nodes of this host.
	Socket string `toml:"socket"`
	// Listen is HOST:PORT for users and nodes of other hosts, over mutual
	// TLS; "" = none.
	Listen string `toml:"listen"`
	// PeerListen is HOST:PORT for the other controllers, over mutual TLS; ""
	// = a cluster of one that has never been given an address.
	PeerListen string `toml:"peer_listen"`
	// PeerAdvertise is HOST:PORT the other controllers dial; "" = PeerListen.
	PeerAdvertise string `toml:"peer_advertise"`
	// LogLevel is debug, info, warn or error.
	LogLevel string `toml:"log_level"`
}

// ErrConfig is returned when a configuration can not be used.
var ErrConfig = errors.New("bad configuration")

// DefaultConfig is a controller alone on its host.
func DefaultConfig() Config {
	return Config{
		DataDir:  "/var/lib/gleaner/ctld",
		Socket:   "/run/gleaner/gctld.sock",
		LogLevel: "info",
	}
}

// maxConfigBytes bounds the file: it holds a handful of lines.
const maxConfigBytes = 1 << 20

// LoadConfig reads a TOML file over the defaults. A key it does not know is
// an error that names its line.
func LoadConfig(path string) (Config, error) {
	config := DefaultConfig()
	info, err := os.Stat(path)
	if err != nil {
		return config, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if info.Size() > maxConfigBytes {
		return config, fmt.Errorf("%w: %s is larger than %d bytes", ErrConfig, path, maxConfigBytes)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return config, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if err := parseConfig(text, &config); err != nil {
		return config, fmt.Errorf("%w: %s: %w", ErrConfig, path, err)
	}
	return config, nil
}

func parseConfig(text []byte, config *Config) error {
	err := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(config)
	var unknown *toml.StrictMissingError
	if errors.As(err, &unknown) && len(unknown.Errors) > 0 {
		first := unknown.Errors[0]
		line, _ := first.Position()
		return fmt.Errorf("line %d: unknown key %q; known are name, data_dir, socket, listen, peer_listen, peer_advertise, log_level", line, strings.Join(first.Key(), "."))
	}
	var bad *toml.DecodeError
	if errors.As(err, &bad) {
		line, column := bad.Position()
		return fmt.Errorf("line %d, column %d: %s", line, column, bad.Error())
	}
	return err
}

// Check refuses what can not work, before anything is touched.
func (c *Config) Check() error {
	for _, path := range []struct{ key, value string }{{"data_dir", c.DataDir}, {"socket", c.Socket}} {
		if !filepath.IsAbs(path.value) {
			return fmt.Errorf("%w: %s = %q must be an absolute path", ErrConfig, path.key, path.value)
		}
	}
	if len(c.Socket) > 100 {
		return fmt.Errorf("%w: socket = %q is longer than the 100 characters the kernel takes", ErrConfig, c.Socket)
	}
	for _, address := range []struct{ key, value string }{{"listen", c.Listen}, {"peer_listen", c.PeerListen}, {"peer_advertise", c.PeerAdvertise}} {
		if address.value == "" {
			continue
		}
		if _, port, err := net.SplitHostPort(address.value); err != nil || port == "" {
			return fmt.Errorf("%w: %s = %q must be HOST:PORT", ErrConfig, address.key, address.value)
		}
	}
	if _, err := c.Level(); err != nil {
		return err
	}
	return nil
}

// Level is the log level as slog takes it.
func (c *Config) Level() (slog.Level, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return level, fmt.Errorf("%w: log_level = %q must be debug, info, warn or error", ErrConfig, c.LogLevel)
	}
	return level, nil
}
