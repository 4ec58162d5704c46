package container

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/runc/libcontainer/configs"
	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/cdi"
	"github.com/gleaner-hpc/gleaner/noded/pid1"
	"github.com/gleaner-hpc/gleaner/noded/userpath"
)

// Root is a root that the job's user brings, in place of the host's: the layers of a
// container image, each unpacked by a user namespace that maps MappedIDs ids to HostIDBase
// and up. Whoever made it may be an enemy of the machine.
type Root struct {
	Layers   []string // directories, the lowest first
	Digest   string   // of the image: two with the same one have the same bytes
	Mounts   []Mount  // what its user wants in it
	NoHome   bool     // without the user's home
	Programs []string // of Gleaner's, bound below CommandsInside
	Driver   cdi.Driver
}

// Mount is something of the user's at another path inside.
type Mount struct {
	*userpath.Directory // its File may be one that is none
	Target              string
	ReadOnly            bool
}

// CommandsInside is where a root of the user's has the commands, and the program to which
// they are links.
const CommandsInside = pid1.Dir + "/bin"

// imageRoot begins Manifest.Root of a container whose root is an image.
const imageRoot = "image "

// rootName is Manifest.Root.
func (s *Spec) rootName() string {
	if s.Root == nil {
		return hostRoot
	}
	return imageRoot + s.Root.Digest
}

// cloneUserRoot clones the layers. Their owners are right for everybody but the job's user
// and groups, whose numbers stay what they are: an idmapped mount cures that.
func (s *stage) cloneUserRoot(spec *Spec, c *cloned) error {
	uids, gids := fromUnpacked(s.uids), fromUnpacked(s.gids)
	ids, err := userNamespace(uids, gids, 0, nil)
	if err != nil {
		return err
	}
	defer ids.Close()
	for _, dir := range spec.Root.Layers {
		tree, err := s.clone(dir, nil, cloneOptions{idmapAs: ids, attr: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOSUID})
		if err != nil {
			return err
		}
		c.lowers = append(c.lowers, tree)
	}
	for _, path := range spec.Root.Programs {
		program, err := s.clone(path, nil, cloneOptions{attr: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID})
		if err != nil {
			return err
		}
		c.trees = append(c.trees, tree{file: program, target: filepath.Join(CommandsInside, filepath.Base(path))})
	}
	return nil
}

// fromUnpacked is the map of a mount whose files belong to the ids as which layers are
// unpacked.
func fromUnpacked(ids []configs.IDMap) []configs.IDMap {
	var result []configs.IDMap
	for _, e := range ids {
		if e.ContainerID < MappedIDs {
			size := min(e.Size, MappedIDs-e.ContainerID)
			result = append(result, configs.IDMap{ContainerID: HostIDBase + e.ContainerID, HostID: e.HostID, Size: size})
		}
	}
	return result
}

// mountUserRoot mounts the overlay over an image's layers, which are attached at these
// paths, and answers its path. It says of its own layer what is hidden by the attributes
// that the layers have (userxattr). Many layers have room only in mount(2)'s options.
func (s *stage) mountUserRoot(lowers []string, l layers) (string, error) {
	root := filepath.Join(s.path, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		return "", fmt.Errorf("make mount point: %w", err)
	}
	highest := slices.Clone(lowers)
	slices.Reverse(highest)
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s,userxattr,volatile", strings.Join(highest, ":"), l.upper, l.work)
	if len(options) >= os.Getpagesize() || strings.ContainsAny(l.upper+l.work, ",:\\") {
		return "", fmt.Errorf("overlay over %d layers of a container image: its options are too long, or state_dir has one of ,:\\ in it", len(lowers))
	}
	if err := unix.Mount("gleaner", root, "overlay", 0, options); err != nil {
		return "", fmt.Errorf("overlay over the layers of a container image, upper layer %s: %w", l.upper, err)
	}
	return root, nil
}

// supplyUserRoot clones what every image lacks: the accounts of the job's user, the names
// of hosts, and what the user wants to see in it.
func (s *stage) supplyUserRoot(spec *Spec, a *assembled) (supplied []layer, err error) {
	points, err := s.newPoints(a)
	if err != nil {
		return nil, err
	}
	defer points.close()
	files, err := accountFiles(spec, points.read)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(resolverPath); err == nil || spec.Resolver != nil {
		if files[resolverPath], err = copyResolver(spec); err != nil {
			return nil, err
		}
	}
	for target, path := range files {
		tree, err := s.clone(path, nil, cloneOptions{idmap: true, attr: unix.MOUNT_ATTR_RDONLY})
		if err != nil {
			return nil, err
		}
		supplied = append(supplied, layer{path: target, tree: tree, links: true})
	}
	slices.SortFunc(supplied, func(a, b layer) int { return cmp.Compare(a.path, b.path) })
	return supplied, nil
}

// copyResolver copies the job's own resolver settings, or the host's if it has none.
func copyResolver(spec *Spec) (string, error) {
	content := spec.Resolver
	if content == nil {
		var err error
		if content, err = readAccounts(resolverPath); err != nil {
			return "", fmt.Errorf("supply %s: %w", resolverPath, err)
		}
	}
	path := filepath.Join(spec.Dir, filepath.Base(resolverPath))
	if err := os.WriteFile(path, content, 0o644); err != nil {
		return "", fmt.Errorf("supply %s: %w", resolverPath, err)
	}
	return path, os.Chmod(path, 0o644)
}

// read reads a file of the root, which may be anything: nothing if it is no file.
func (p *mountPoints) read(path string) ([]byte, error) {
	found, err := p.find(path, 0, 0)
	if err != nil {
		return nil, nil
	}
	defer unix.Close(found)
	var stat unix.Stat_t
	if err := unix.Fstat(found, &stat); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, nil
	}
	file, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", found))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, maxAccountBytes))
}

// cloneChosen clones what the user wants to see in an image, by the rules for the
// directories of users.
func (s *stage) cloneChosen(spec *Spec, rules *ownRules, c *cloned) error {
	for _, m := range spec.Root.Mounts {
		place, err := userpath.Where(m.File)
		if err != nil {
			return chosen(m.Path, err)
		}
		if why := rules.refusesMount(m.Target, place); why != nil {
			return chosen(m.Path, why)
		}
		o := cloneOptions{idmap: !isNetwork(place.Type), attr: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, noAutomount: true}
		if m.ReadOnly {
			o.attr |= unix.MOUNT_ATTR_RDONLY
		}
		tree, err := s.clone(m.Path, m.File, o)
		if err != nil {
			return chosen(m.Path, err)
		}
		c.layers = slices.DeleteFunc(c.layers, func(l layer) bool { return l.path == m.Target })
		c.layers = append(c.layers, layer{path: m.Target, tree: tree, chosen: true, links: true})
	}
	return nil
}

// refusesMount says why something may not be shown at a target.
func (r *ownRules) refusesMount(target string, place userpath.Place) error {
	for _, dir := range []string{"/proc", "/sys", "/dev", "/run"} {
		if within(target, dir) || target == "/" {
			return fmt.Errorf("nothing of a user's is mounted at %s inside: choose another path", target)
		}
	}
	switch why := r.forbidden(target, place); {
	case slices.Contains([]string{"/tmp", "/var/tmp", "/dev/shm"}, place.Path):
		return errors.New("jobs have one of their own: name a directory in it")
	case r.isHidden(place.Path):
		return fmt.Errorf("it lies at %s, which jobs on this node do not see: choose another directory", place.Path)
	case slices.ContainsFunc(r.hidden, func(dir string) bool { return within(dir, place.Path) }):
		return fmt.Errorf("it lies at %s, above what jobs on this node do not see: choose a directory in it", place.Path)
	case why != "" && (why != ofSystem || r.user.UID == 0): // others see the system's directories with their own rights
		return fmt.Errorf("it lies at %s, which is %s: choose another directory", place.Path, why)
	}
	return nil
}

// outside answers where a path inside is on the host.
func (s *Spec) outside(path string) string {
	if s.Root == nil {
		return path
	}
	best := cdi.File{}
	consider := func(outside, inside string) {
		if within(path, inside) && len(inside) > len(best.Inside) {
			best = cdi.File{Outside: outside, Inside: inside}
		}
	}
	for _, m := range s.Root.Mounts {
		consider(m.Path, m.Target)
	}
	for _, f := range s.Root.Driver.Files {
		consider(f.Outside, f.Inside)
	}
	if best.Inside == "" {
		return path
	}
	return filepath.Join(best.Outside, strings.TrimPrefix(path, best.Inside))
}
