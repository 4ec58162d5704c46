package noded

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/gleaner-hpc/gleaner/noded/gpu"
	"github.com/gleaner-hpc/gleaner/proto/dial"
	"github.com/gleaner-hpc/gleaner/proto/tomlfile"
)

// Defaults of the configuration.
const (
	DefaultConfigPath = "/etc/gleaner/gnoded.toml"
	DefaultStateDir   = "/var/lib/gleaner/noded"
	DefaultSocket     = "/run/gleaner/gnoded.sock"
	// NoSocket as the socket's path: the owner is not served on the node.
	NoSocket = ""
	// noAgent is agent_socket where users do not ask through the node.
	noAgent = "none"
)

// Bounds of the configuration: far above any machine, low enough that a
// misprint does no harm.
const (
	maxCPUs        = 65536
	maxListed      = 1024 // GPUs, features, directories, controllers
	leastProcesses = 64   // process 1 alone has some threads
)

// ErrConfig is returned for a configuration that cannot be used.
var ErrConfig = errors.New("bad configuration")

// Config is what a node's configuration file says, with defaults filled in.
type Config struct {
	Name         string    // node name, unique in the cluster
	Controllers  []string  // targets, tried in turn
	TLSDir       string    // holds ca.pem, cert.pem and key.pem; "" = not needed
	StateDir     string    // where allocations of jobs live
	Socket       string    // on which the node's owner is served; NoSocket = nobody is
	AgentSocket  string    // on which the node's users ask the controllers; NoSocket = they do not
	MinFreeBytes uint64    // that must be free in StateDir for a job to start
	TmpDiskBytes uint64    // that jobs may write there; 0 = what is free, less a reserve
	DefTmpPerCPU uint64    // bytes of it for each CPU of a job that does not ask; 0 = half of an even share
	TmpUnbounded bool      // a job may fill the disk
	Init         string    // path of ginit, process 1 of the containers
	CPUs         int       // that jobs may be given; 0 = those that exist
	MemoryBytes  uint64    // that jobs may be given; 0 = what exists, less a reserve
	Features     []string  // labels for --constraint
	Address      string    // host name or address other nodes reach this one by
	StepPorts    PortRange // at which tasks of steps may meet
	CgroupParent string    // below which the groups of allocations are made
	Bind         []string  // host directories bound into containers, at the same path
	Hide         []string  // host directories that containers do not see
	CommandsDir  string    // linked in /usr/local/bin of containers; "" = the commands are there, or somewhere as good
	Roots        RootsConfig
	SlurmDir     string // has the commands under Slurm's names, before everything else in PATH of jobs; "" = they are not to be there
	MaxProcesses int64  // processes and threads of one allocation, at most its share by its CPUs; 0 = that share
	// MaxTotalProcesses is of all allocations; 0 = the kernel's room less a reserve.
	MaxTotalProcesses int64
	GPUs              []gpu.Configured
	DetectGPUs        bool // ask the NVIDIA driver; false when GPUs are named
	LogLevel          slog.Level
	LogFormat         string // of package logs; supervisors write alike
	Checkpoint        CheckpointConfig
	Network           NetworkConfig
}

// configFile is the configuration file's shape.
type configFile struct {
	Name         string   `toml:"name"`
	Controllers  []string `toml:"controllers"`
	TLSDir       string   `toml:"tls_dir"`
	StateDir     string   `toml:"state_dir"`
	Socket       string   `toml:"socket"`
	AgentSocket  string   `toml:"agent_socket"`
	MinFreeDisk  string   `toml:"min_free_disk"`
	TmpDisk      string   `toml:"tmp_disk"`
	DefTmpPerCPU string   `toml:"def_tmp_per_cpu"`
	Init         string   `toml:"ginit"`
	CPUs         int      `toml:"cpus"`
	Memory       string   `toml:"memory"`
	Features     []string `toml:"features"`
	Address      string   `toml:"address"`
	StepPorts    string   `toml:"step_ports"`
	CgroupParent string   `toml:"cgroup_parent"`
	DetectGPUs   *bool    `toml:"detect_gpus"`
	LogLevel     string   `toml:"log_level"`
	LogFormat    string   `toml:"log_format"`
	Container    struct {
		Bind []string `toml:"bind"`
		Hide []string `toml:"hide"`

		Commands string `toml:"commands"`
		Slurm    string `toml:"slurm"`

		ImageCache string `toml:"image_cache"`
		Goci       string `toml:"goci"`

		CDISpecDirs []string `toml:"cdi_spec_dirs"`

		MaxProcesses      int64 `toml:"max_processes"`
		MaxTotalProcesses int64 `toml:"max_total_processes"`
	} `toml:"container"`
	Checkpoint checkpointFile `toml:"checkpoint"`
	Network    networkFile    `toml:"network"`
	GPUs       []struct {
		ID            string   `toml:"id"`
		Model         string   `toml:"model"`
		Path          string   `toml:"path"`
		ContainerPath string   `toml:"container_path"`
		Memory        string   `toml:"memory"`
		Links         []string `toml:"links"`
	} `toml:"gpu"`
}

// LoadConfig reads the configuration file at path. A missing file is an error
// unless path is DefaultConfigPath: then all is default.
func LoadConfig(path string) (Config, error) {
	text, err := tomlfile.Read(path, tomlfile.MaxBytes)
	if errors.Is(err, fs.ErrNotExist) && path == DefaultConfigPath {
		text, err = nil, nil
	}
	if err != nil {
		return Config{}, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	config, err := ParseConfig(text)
	if err != nil {
		return Config{}, fmt.Errorf("%w: %s%w", ErrConfig, path, err)
	}
	return config, nil
}

// ParseConfig reads a configuration, fills in the defaults and checks it.
// Errors begin with ":LINE:COLUMN: " if the place is known, otherwise with ": ",
// so that a file's name goes before them.
func ParseConfig(text []byte) (Config, error) {
	var file configFile
	if err := tomlfile.Decode(text, &file); err != nil {
		return Config{}, err
	}
	config, err := file.config()
	if err != nil {
		return Config{}, fmt.Errorf(": %w", err)
	}
	return config, nil
}

var (
	namePattern    = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)
	idPattern      = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	modelPattern   = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*$`)
	featurePattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
)

// config checks the file's contents and fills in the defaults.
func (f *configFile) config() (Config, error) {
	c := Config{
		Name: f.Name, Controllers: f.Controllers, TLSDir: f.TLSDir, StateDir: f.StateDir, Socket: f.Socket, AgentSocket: f.AgentSocket, Init: f.Init,
		CPUs: f.CPUs, Features: f.Features, Address: f.Address, CgroupParent: f.CgroupParent,
		Bind: f.Container.Bind, Hide: f.Container.Hide, CommandsDir: f.Container.Commands, SlurmDir: f.Container.Slurm, MaxProcesses: f.Container.MaxProcesses, MaxTotalProcesses: f.Container.MaxTotalProcesses,
	}
	if err := c.fillDefaults(); err != nil {
		return Config{}, err
	}
	for _, step := range []func(*Config) error{
		f.checkName, f.checkControllers, f.checkPaths, f.checkResources, f.checkTmpDisk, f.checkRoots, f.checkFeatures, f.checkStepPorts, f.checkGPUs, f.checkLog, f.checkCheckpoint, f.checkNetwork,
	} {
		if err := step(&c); err != nil {
			return Config{}, err
		}
	}
	return c, nil
}

func (c *Config) fillDefaults() error {
	if c.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("name is not set and the host has none: %w", err)
		}
		c.Name, _, _ = strings.Cut(host, ".")
	}
	if len(c.Controllers) == 0 {
		c.Controllers = dial.DaemonTargets()
	}
	if c.TLSDir == "" {
		c.TLSDir = os.Getenv(dial.EnvironmentTLSDir)
	}
	if c.StateDir == "" {
		c.StateDir = DefaultStateDir
	}
	if c.Socket == "" {
		c.Socket = DefaultSocket
	}
	switch {
	case c.AgentSocket == noAgent, len(dial.Remote(c.Controllers)) == 0: // users reach a controller of this host themselves
		c.AgentSocket = NoSocket
	case c.AgentSocket == "":
		c.AgentSocket = dial.AgentSocket
	}
	if c.Init == "" {
		executable, err := os.Executable()
		if err != nil {
			return fmt.Errorf("ginit is not set and this program's own path is unknown: %w", err)
		}
		c.Init = filepath.Join(filepath.Dir(executable), "ginit")
	}
	if c.Address == "" {
		c.Address = c.Name
	}
	if c.CgroupParent == "" {
		c.CgroupParent = "/gleaner/" + c.Name
	}
	return nil
}

// shorten keeps a hostile value from filling a message.
func shorten(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
