package noded

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/noded/gpu"
	"github.com/gleaner-hpc/gleaner/noded/memory"
	"github.com/gleaner-hpc/gleaner/proto/logs"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

func (f *configFile) checkName(c *Config) error {
	if len(c.Name) > spec.MaxHostNameBytes || !namePattern.MatchString(c.Name) || strings.EqualFold(c.Name, "ALL") {
		return fmt.Errorf("name %q: a node's name is made of letters, digits, '-', '_' and '.', at most %d, and is not ALL",
			shorten(c.Name), spec.MaxHostNameBytes)
	}
	if len(c.Address) > spec.MaxHostNameBytes || strings.ContainsAny(c.Address, " ,/\t\n") {
		return fmt.Errorf("address %q: give one host name or IP address, without port", shorten(c.Address))
	}
	return nil
}

func (f *configFile) checkControllers(c *Config) error {
	if len(c.Controllers) > maxListed {
		return fmt.Errorf("controllers: %d are too many", len(c.Controllers))
	}
	for _, target := range c.Controllers {
		if socket, isUnix := strings.CutPrefix(target, "unix://"); isUnix {
			if !path.IsAbs(socket) {
				return fmt.Errorf("controllers: %q: a socket's path is absolute: unix:///run/gleaner/gctld.sock", target)
			}
			continue
		}
		host, port, err := net.SplitHostPort(target)
		number, portErr := strconv.ParseUint(port, 10, 16)
		if err != nil || portErr != nil || host == "" || number == 0 {
			return fmt.Errorf("controllers: %q: give unix:///PATH or HOST:PORT", target)
		}
		if c.TLSDir == "" {
			return fmt.Errorf("controllers: %q is reached over TLS: set tls_dir to the directory with ca.pem, cert.pem and key.pem", target)
		}
	}
	return nil
}

func (f *configFile) checkPaths(c *Config) error {
	absolute := map[string]string{"state_dir": c.StateDir, "socket": c.Socket, "ginit": c.Init, "cgroup_parent": c.CgroupParent}
	if c.TLSDir != "" {
		absolute["tls_dir"] = c.TLSDir
	}
	if c.AgentSocket != NoSocket {
		absolute["agent_socket"] = c.AgentSocket
	}
	for _, key := range slices.Sorted(maps.Keys(absolute)) {
		if err := checkAbsolute(key, absolute[key]); err != nil {
			return err
		}
	}
	if strings.Count(c.CgroupParent, "/") < 2 {
		return fmt.Errorf("cgroup_parent %q: give at least two levels, like /gleaner/%s", c.CgroupParent, c.Name)
	}
	for key, list := range map[string][]string{"container.bind": c.Bind, "container.hide": c.Hide} {
		if len(list) > maxListed {
			return fmt.Errorf("%s: %d directories are too many: at most %d", key, len(list), maxListed)
		}
		for _, directory := range list {
			if err := checkAbsolute(key, directory); err != nil {
				return err
			}
		}
	}
	if c.CommandsDir != "" {
		if err := checkAbsolute("container.commands", c.CommandsDir); err != nil {
			return err
		}
		if info, err := os.Stat(path.Join(c.CommandsDir, "gleaner")); err != nil || info.IsDir() {
			return fmt.Errorf("container.commands %q: it has no program gleaner: name the directory that has, or leave the key out", c.CommandsDir)
		}
	}
	if err := c.findSlurmDir(); err != nil {
		return err
	}
	for _, directory := range c.Bind {
		if slices.Contains([]string{"/dev", "/proc", "/run", "/sys"}, directory) {
			return fmt.Errorf("container.bind %q: jobs have one of their own: name what is needed in it", directory)
		}
		if _, err := os.Stat(directory); err != nil {
			return fmt.Errorf("container.bind: %w: make it or take it out of the list", err)
		}
	}
	return nil
}

func checkAbsolute(key, value string) error {
	if len(value) > spec.MaxPathBytes || !path.IsAbs(value) || path.Clean(value) != value || value == "/" ||
		strings.ContainsAny(value, "\x00\n") {
		return fmt.Errorf("%s %q: give an absolute path, without '..' or a '/' at its end", key, shorten(value))
	}
	return nil
}

func (f *configFile) checkResources(c *Config) error {
	if c.CPUs < 0 || c.CPUs > maxCPUs {
		return fmt.Errorf("cpus %d: give 0 for those that exist, or up to %d", c.CPUs, maxCPUs)
	}
	if c.MaxProcesses != 0 && c.MaxProcesses < leastProcesses {
		return fmt.Errorf("container.max_processes %d: give 0 for each job's share by its CPUs, or at least %d", c.MaxProcesses, leastProcesses)
	}
	if c.MaxTotalProcesses != 0 && c.MaxTotalProcesses < leastProcesses {
		return fmt.Errorf("container.max_total_processes %d: give 0 for what the kernel has room for, less a reserve, or at least %d", c.MaxTotalProcesses, leastProcesses)
	}
	c.MinFreeBytes = defaultMinFree
	var err error
	if f.MinFreeDisk != "" {
		if c.MinFreeBytes, err = parseMemory("min_free_disk", f.MinFreeDisk); err != nil {
			return err
		}
	}
	if f.Memory == "" {
		return nil
	}
	if c.MemoryBytes, err = parseMemory("memory", f.Memory); err != nil {
		return err
	}
	exists, err := memory.Total()
	if err != nil {
		return err
	}
	if c.MemoryBytes > exists {
		return fmt.Errorf("memory %q is more than the %s of this machine: leave it out to offer what there is",
			f.Memory, spec.FormatSize(exists))
	}
	return nil
}

// parseMemory reads a size in MiB unless it has a unit.
func parseMemory(key, text string) (uint64, error) {
	bytes, err := spec.ParseSize(text, mebibyte)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", key, err)
	}
	if bytes == 0 {
		return 0, fmt.Errorf("%s %q: give a size above zero, such as 64G", key, text)
	}
	return bytes, nil
}

func (f *configFile) checkFeatures(c *Config) error {
	if len(c.Features) > maxListed {
		return fmt.Errorf("features: %d are too many: at most %d", len(c.Features), maxListed)
	}
	for _, feature := range c.Features {
		if len(feature) > spec.MaxNameBytes || !featurePattern.MatchString(feature) {
			return fmt.Errorf("features: %q: a feature is made of letters, digits, '_', '.' and '-'", shorten(feature))
		}
	}
	c.Features = slices.Compact(slices.Sorted(slices.Values(c.Features)))
	return nil
}

func (f *configFile) checkGPUs(c *Config) error {
	if len(f.GPUs) > maxListed {
		return fmt.Errorf("gpu: %d are too many: at most %d", len(f.GPUs), maxListed)
	}
	ids, paths, shown := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i, g := range f.GPUs {
		at := fmt.Sprintf("gpu %d", i+1)
		if len(g.ID) > spec.MaxNameBytes || !idPattern.MatchString(g.ID) {
			return fmt.Errorf("%s: id %q: give each GPU an id made of letters, digits, '.', '_' and '-'", at, shorten(g.ID))
		}
		if len(g.Model) > spec.MaxNameBytes || !modelPattern.MatchString(g.Model) {
			return fmt.Errorf("%s: model %q: give one word in lower case, such as a100", at, shorten(g.Model))
		}
		if err := checkAbsolute(at+": path", g.Path); err != nil {
			return err
		}
		inContainer := cmp.Or(g.ContainerPath, gpu.InContainer(g.Path))
		if err := checkAbsolute(at+": container_path", inContainer); err != nil {
			return err
		}
		if !strings.HasPrefix(inContainer, "/dev/") {
			return fmt.Errorf("%s: container_path %q: give a path below /dev, where containers have their devices", at, inContainer)
		}
		if ids[g.ID] || paths[g.Path] || shown[inContainer] {
			return fmt.Errorf("%s: id %q, path %q, container_path %q: another GPU has one of them already",
				at, g.ID, g.Path, inContainer)
		}
		ids[g.ID], paths[g.Path], shown[inContainer] = true, true, true
		configured := gpu.Configured{ID: g.ID, Model: g.Model, Path: g.Path, ContainerPath: inContainer, Links: g.Links}
		if g.Memory != "" {
			var err error
			if configured.MemoryBytes, err = parseMemory(at+": memory", g.Memory); err != nil {
				return err
			}
		}
		c.GPUs = append(c.GPUs, configured)
	}
	for i, g := range c.GPUs {
		for _, link := range g.Links {
			if !ids[link] || link == g.ID {
				return fmt.Errorf("gpu %d: links: %q is not the id of another GPU of this node", i+1, shorten(link))
			}
		}
	}
	c.DetectGPUs = len(c.GPUs) == 0
	if f.DetectGPUs != nil {
		if *f.DetectGPUs && len(c.GPUs) > 0 {
			return errors.New("detect_gpus = true and [[gpu]] exclude each other: name all GPUs or none")
		}
		c.DetectGPUs = *f.DetectGPUs
	}
	return nil
}

func (f *configFile) checkLog(c *Config) error {
	if err := logs.CheckFormat(f.LogFormat); err != nil {
		return fmt.Errorf("log_format: %w", err)
	}
	c.LogFormat = f.LogFormat
	if f.LogLevel == "" {
		c.LogLevel = slog.LevelInfo
		return nil
	}
	if err := c.LogLevel.UnmarshalText([]byte(f.LogLevel)); err != nil {
		return fmt.Errorf("log_level %q: give debug, info, warn or error", shorten(f.LogLevel))
	}
	return nil
}

// installedSlurmDir is where make install puts the commands under Slurm's names.
const installedSlurmDir = "/usr/local/lib/gleaner/slurm"

// noSlurmDir is the setting that keeps these names out of jobs.
const noSlurmDir = "none"

// findSlurmDir chooses the directory of the commands under Slurm's names: the one
// named, that below the other commands, or the one installed, if it is there.
func (c *Config) findSlurmDir() error {
	named := c.SlurmDir
	switch {
	case named == noSlurmDir:
		c.SlurmDir = ""
		return nil
	case named != "":
		if err := checkAbsolute("container.slurm", named); err != nil {
			return err
		}
	case c.CommandsDir != "":
		c.SlurmDir = path.Join(c.CommandsDir, "slurm")
	default:
		c.SlurmDir = installedSlurmDir
	}
	if _, err := os.Stat(path.Join(c.SlurmDir, "sbatch")); err == nil {
		return nil
	}
	if named != "" {
		return fmt.Errorf("container.slurm %q: it has no sbatch: name the directory that has, or %q for none", named, noSlurmDir)
	}
	c.SlurmDir = ""
	return nil
}
