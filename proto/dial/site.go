package dial

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/gleaner-hpc/gleaner/proto/munge"
	"github.com/gleaner-hpc/gleaner/proto/tomlfile"
)

// SiteFile says where the controllers of this host's users are, for all commands and users.
const SiteFile = "/etc/gleaner/client.toml"

// AgentSocket is where the agent of a login host or node listens, in whose place users ask.
const AgentSocket = "/run/gleaner/agent.sock"

// ErrSite is returned when SiteFile cannot be used.
var ErrSite = errors.New("bad configuration of this host's commands")

// maxSite bounds SiteFile.
const maxSite = 64 << 10

// siteConfig is SiteFile. What a user says, by option or environment, goes first.
type siteConfig struct {
	// Controllers are targets, in order; none = the socket of a controller or agent here.
	Controllers []string `toml:"controllers"`
	// TLSDir holds the certificate of each user for targets over TCP; it begins with ~/ if
	// it lies in the user's home.
	TLSDir string `toml:"tls_dir"`
	// MungeSocket is where munged of this host listens, which says who asks where TLSDir has
	// the authority's ca.pem and no certificate; "" = munge.DefaultSocket, if it is there.
	MungeSocket string `toml:"munge_socket"`
}

// site is SiteFile, read once.
var site = sync.OnceValues(func() (siteConfig, error) { return loadSite(SiteFile) })

func loadSite(path string) (siteConfig, error) {
	var config siteConfig
	text, err := tomlfile.Read(path, maxSite)
	if errors.Is(err, fs.ErrNotExist) {
		return config, nil
	}
	if err != nil {
		return config, fmt.Errorf("%w: %w", ErrSite, err)
	}
	if err := tomlfile.Decode(text, &config); err != nil {
		return config, fmt.Errorf("%w: %s%w", ErrSite, path, err)
	}
	if err := config.check(); err != nil {
		return config, fmt.Errorf("%w: %s: %w", ErrSite, path, err)
	}
	return config, nil
}

func (c *siteConfig) check() error {
	if len(c.Controllers) > 0 {
		if _, _, err := parseAll(c.Controllers); err != nil {
			return fmt.Errorf("controllers: %w", err)
		}
	}
	if c.TLSDir != "" && !filepath.IsAbs(c.TLSDir) && !strings.HasPrefix(c.TLSDir, "~/") {
		return fmt.Errorf("tls_dir = %.80q must be an absolute path, or begin with ~/ for a folder in the home of each user", c.TLSDir)
	}
	if c.MungeSocket != "" && !filepath.IsAbs(c.MungeSocket) {
		return fmt.Errorf("munge_socket = %.80q must be an absolute path, as %s is", c.MungeSocket, munge.DefaultSocket)
	}
	return nil
}

// home puts the user's own in place of ~.
func (c *siteConfig) tlsDir() string {
	rest, inHome := strings.CutPrefix(c.TLSDir, "~/")
	if !inHome {
		return c.TLSDir
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, rest)
}

// TLSDir is where a user's certificate is: as the environment says, else as the host's
// configuration does; "" = nowhere.
func TLSDir() (string, error) {
	if dir := os.Getenv(EnvironmentTLSDir); dir != "" {
		return dir, nil
	}
	config, err := site()
	return config.tlsDir(), err
}

// MungeSocket is where munged of this host says who asks, for users without a certificate:
// as the environment says, else as the host's configuration does, else where it usually is;
// "" = nowhere.
func MungeSocket() (string, error) {
	if socket := os.Getenv(EnvironmentMunge); socket != "" {
		return socket, nil
	}
	config, err := site()
	if config.MungeSocket != "" || err != nil || !isSocket(munge.DefaultSocket) {
		return config.MungeSocket, err
	}
	return munge.DefaultSocket, nil
}

func isSocket(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Type() == fs.ModeSocket
}

// hereTargets are the sockets of this host: that of a controller first, which needs no
// other host.
func hereTargets(sockets ...string) []string {
	var targets []string
	for _, path := range sockets {
		if isSocket(path) {
			targets = append(targets, "unix://"+path)
		}
	}
	if len(targets) == 0 {
		return []string{DefaultTarget}
	}
	return targets
}
