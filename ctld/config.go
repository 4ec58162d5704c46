package ctld

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gleaner-hpc/gleaner/ctld/api"
	"github.com/gleaner-hpc/gleaner/ctld/replica"
	"github.com/gleaner-hpc/gleaner/proto/dial"
	"github.com/gleaner-hpc/gleaner/proto/logs"
	"github.com/gleaner-hpc/gleaner/proto/munge"
	"github.com/gleaner-hpc/gleaner/proto/tomlfile"
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
	// Listen is HOST:PORT for users and nodes of other hosts, over TLS, mutual unless
	// MungeSocket is set; "" = none.
	Listen string `toml:"listen"`
	// MungeSocket is where munged of this host listens, which then says who asks on Listen
	// without a certificate; "" = certificates only.
	MungeSocket string `toml:"munge_socket"`
	// PeerListen is HOST:PORT for the other controllers, over mutual TLS; ""
	// = a cluster of one that has never been given an address.
	PeerListen string `toml:"peer_listen"`
	// PeerAdvertise is HOST:PORT the other controllers dial; "" = PeerListen.
	PeerAdvertise string `toml:"peer_advertise"`
	// Join says that an empty data directory waits to be added to a running
	// cluster (gcontrol peer add). It has no effect once it has been added.
	Join bool `toml:"join"`
	// Certificates is a directory that "gctld cert --controller" wrote for this
	// controller; it is copied into the data directory. "" = what is there.
	Certificates string `toml:"certificates"`
	// ElectionTimeout is how long a controller hears nothing from the leader
	// before it wants to lead itself, as in "1s".
	ElectionTimeout string `toml:"election_timeout"`
	// ClientTimeout is how long a client may leave an answer unread before it
	// is cut off, as in "90s" or "5m".
	ClientTimeout string `toml:"client_timeout"`
	// MetricsListen is HOST:PORT for Prometheus, over plain HTTP; "" = none.
	MetricsListen string `toml:"metrics_listen"`
	// FenceCommand switches a silent node off: the absolute path of a program and
	// its arguments, to which the node's name is added. Exit status 0 says that
	// the machine is off. Empty = none.
	FenceCommand []string `toml:"fence_command"`
	// BackupDir is where this controller keeps backups of the state, one every
	// BackupEvery, as in "1h", the newest BackupKeep of them; "" = none.
	BackupDir   string `toml:"backup_dir"`
	BackupEvery string `toml:"backup_every"`
	BackupKeep  int    `toml:"backup_keep"`
	// Audit is "on" (a line for each change and each read of another user's
	// script), "required" (and nothing is done that cannot be written there) or
	// "off". AuditFile is its path; "" = audit.log in the data directory.
	Audit     string `toml:"audit"`
	AuditFile string `toml:"audit_file"`
	// HistoryDays is for how many days after their end runs of jobs are kept in this
	// controller's database; 0 = forever. HistoryArchive is the directory to which they
	// are written before they are removed; "" = none.
	HistoryDays    int    `toml:"history_days"`
	HistoryArchive string `toml:"history_archive"`
	// HistoryDatabase is the address of a PostgreSQL database for the history, as in
	// postgres://gleaner@db.lab/gleaner; "" = a file in the data directory.
	HistoryDatabase string `toml:"history_database"`
	// LogLevel is debug, info, warn or error.
	LogLevel string `toml:"log_level"`
	// LogFormat is text or json.
	LogFormat string `toml:"log_format"`

	// Network is where it listens and dials; nil = the system's sockets.
	Network replica.Network `toml:"-"`
}

func (c *Config) network() replica.Network {
	if c.Network == nil {
		return &replica.Sockets{}
	}
	return c.Network
}

// listenSocket opens the socket for this host: a file of the system, or its
// equivalent in another network.
func (c *Config) listenSocket() (net.Listener, error) {
	if c.Network == nil {
		return dial.ListenUnix(c.Socket, "--socket")
	}
	return c.Network.Listen("unix", c.Socket)
}

// maxSocketPath is what unix(7) leaves for a path in sun_path: 108 bytes with
// the terminating zero.
const maxSocketPath = 107

// ErrConfig is returned when a configuration cannot be used.
var ErrConfig = errors.New("bad configuration")

// DefaultConfig is a controller alone on its host.
func DefaultConfig() Config {
	return Config{
		DataDir:  "/var/lib/gleaner/ctld",
		Socket:   "/run/gleaner/gctld.sock",
		LogLevel: "info",

		LogFormat: logs.Text,

		ClientTimeout:   api.DefaultUnreadLimit.String(),
		ElectionTimeout: "1s",

		BackupEvery: "1h",
		BackupKeep:  48,

		Audit: AuditOn,
	}
}

// LoadConfig reads a TOML file over the defaults. A key it does not know is
// an error that names its line, and the key that was meant.
func LoadConfig(path string) (Config, error) {
	config := DefaultConfig()
	text, err := tomlfile.Read(path, tomlfile.MaxBytes)
	if err != nil {
		return config, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if err := tomlfile.Decode(text, &config); err != nil {
		return config, fmt.Errorf("%w: %s%w", ErrConfig, path, err)
	}
	if err := config.Check(); err != nil {
		return config, fmt.Errorf("%w (%s)", err, path)
	}
	return config, nil
}

// Check refuses what cannot work, before anything is changed.
func (c *Config) Check() error {
	for _, path := range []struct{ key, value string }{{"data_dir", c.DataDir}, {"socket", c.Socket}} {
		if !filepath.IsAbs(path.value) {
			return fmt.Errorf("%w: %s = %q must be an absolute path", ErrConfig, path.key, path.value)
		}
	}
	if len(c.Socket) > maxSocketPath {
		return fmt.Errorf("%w: socket = %q has %d characters, and the kernel takes %d: give a shorter path", ErrConfig, c.Socket, len(c.Socket), maxSocketPath)
	}
	for _, address := range []struct{ key, value string }{{"listen", c.Listen}, {"peer_listen", c.PeerListen}, {"peer_advertise", c.PeerAdvertise}, {"metrics_listen", c.MetricsListen}} {
		if address.value == "" {
			continue
		}
		_, port, err := net.SplitHostPort(address.value)
		if _, portErr := strconv.ParseUint(port, 10, 16); err != nil || portErr != nil {
			return fmt.Errorf("%w: %s = %.80q must be HOST:PORT", ErrConfig, address.key, address.value)
		}
	}
	if err := c.checkMunge(); err != nil {
		return err
	}
	if len(c.FenceCommand) > 0 && !filepath.IsAbs(c.FenceCommand[0]) {
		return fmt.Errorf("%w: fence_command = [%.80q, …] must begin with the absolute path of a program", ErrConfig, c.FenceCommand[0])
	}
	if c.Name != "" && !validPeerName(c.Name) {
		return fmt.Errorf("%w: name = %.80q must be 1 to 60 letters, digits, '-', '_' and '.'", ErrConfig, c.Name)
	}
	if _, err := c.unreadLimit(); err != nil {
		return err
	}
	if _, err := c.electionTimeout(); err != nil {
		return err
	}
	if err := errors.Join(c.checkPeers(), c.checkBackups(), c.checkHistory()); err != nil {
		return err
	}
	if err := c.checkAudit(); err != nil {
		return err
	}
	if err := logs.CheckFormat(c.LogFormat); err != nil {
		return fmt.Errorf("%w: log_format: %w", ErrConfig, err)
	}
	_, err := c.Level()
	return err
}

func (c *Config) checkMunge() error {
	switch {
	case c.MungeSocket == "":
		return nil
	case !filepath.IsAbs(c.MungeSocket) || len(c.MungeSocket) > maxSocketPath:
		return fmt.Errorf("%w: munge_socket = %.120q must be an absolute path of at most %d characters, as %s is", ErrConfig, c.MungeSocket, maxSocketPath, munge.DefaultSocket)
	case c.Listen == "":
		return fmt.Errorf("%w: munge_socket is for clients of other hosts: set listen = \"HOST:PORT\", at which they reach this controller", ErrConfig)
	}
	return nil
}

func (c *Config) unreadLimit() (time.Duration, error) {
	limit, err := time.ParseDuration(c.ClientTimeout)
	if err != nil || limit < time.Second || limit > 24*time.Hour {
		return 0, fmt.Errorf("%w: client_timeout = %.80q must be from 1s to 24h, as in 90s or 5m", ErrConfig, c.ClientTimeout)
	}
	return limit, nil
}

// checkPeers refuses an address that the other controllers cannot dial.
func (c *Config) checkPeers() error {
	if c.PeerListen == "" {
		if c.Join || c.PeerAdvertise != "" {
			return fmt.Errorf("%w: a controller that is one of several needs peer_listen = \"HOST:PORT\", at which the others reach it", ErrConfig)
		}
		return nil
	}
	host, _, _ := net.SplitHostPort(cmp.Or(c.PeerAdvertise, c.PeerListen))
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return fmt.Errorf("%w: peer_listen = %q means every address of this host: set peer_advertise = \"HOST:PORT\" to the one at which the other controllers reach it", ErrConfig, c.PeerListen)
	}
	return nil
}

// peerAddress is the address that the others dial, as it was written: an
// address by name survives a change of its number. "" = the one that the kernel
// chose.
func (c *Config) peerAddress() string {
	if _, port, _ := net.SplitHostPort(c.PeerListen); c.PeerAdvertise == "" && port == "0" {
		return ""
	}
	return cmp.Or(c.PeerAdvertise, c.PeerListen)
}

// Bounds of an election timeout: below, a busy machine elects leaders again and
// again; above, nobody would wait.
const (
	minElection = 100 * time.Millisecond
	maxElection = time.Minute
)

func (c *Config) electionTimeout() (time.Duration, error) {
	limit, err := time.ParseDuration(c.ElectionTimeout)
	if err != nil || limit < minElection || limit > maxElection {
		return 0, fmt.Errorf("%w: election_timeout = %.80q must be from %v to %v, as in 1s", ErrConfig, c.ElectionTimeout, minElection, maxElection)
	}
	return limit, nil
}

// Level is the log level as slog takes it.
func (c *Config) Level() (slog.Level, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return level, fmt.Errorf("%w: log_level = %.80q must be debug, info, warn or error", ErrConfig, c.LogLevel)
	}
	return level, nil
}
