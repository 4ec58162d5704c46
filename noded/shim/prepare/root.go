package prepare

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/noded/pid1"
	"github.com/gleaner-hpc/gleaner/noded/roots"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/userpath"
	"github.com/gleaner-hpc/gleaner/oci/ref"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// Roots is a node's cache of container images.
func Roots(s *bundle.Settings) *roots.Cache {
	return &roots.Cache{Dir: s.Roots.Dir, Program: s.Roots.Program, Limit: int64(s.Roots.LimitBytes), FirstID: container.HostIDBase, Group: imagesGroup(s)}
}

// ImagesGroup is the name of the group of what fetches and unpacks container images, beside
// those of allocations.
const ImagesGroup = "container-images"

// imagesGroup is its path.
func imagesGroup(s *bundle.Settings) string {
	if s.CgroupParent == "" {
		return ""
	}
	return path.Join(s.CgroupParent, ImagesGroup)
}

// RootUser is who brings a job's root.
func RootUser(order *pb.StartAlloc) *roots.User {
	u := userOf(order.Owner)
	return &roots.User{Identity: u.Identity(), Name: u.Name, Home: u.Home, Env: order.GetSpec().GetEnvironment()}
}

// openRoot brings the root that the job's user names; nil = the job has the node's own.
func (j *Job) openRoot(ctx context.Context) (*container.Root, error) {
	s := j.Order.Spec
	if s.GetImage() == "" {
		return nil, nil
	}
	named, err := ref.ParsePinned(s.Image)
	if err != nil {
		return nil, BadRequest("--image: %v", err)
	}
	cache := Roots(j.Settings)
	cache.Log = j.Log
	if err := j.checkImage(ctx, cache, named); err != nil {
		return nil, err
	}
	if j.root, err = cache.Root(ctx, j.rootUser(), named, j.tell); err != nil {
		return nil, j.rootFault(err)
	}
	j.tell("")
	if fromFile := named.Kind == ref.SIF || named.Kind == ref.Squashfs; fromFile && s.GetContainer().GetEntrypoint() && len(j.config().Entrypoint) == 0 {
		return nil, BadRequest("--container-entrypoint: %s has no /%s: leave the option out, or build the image with a %%runscript", named.Place(), ref.Runscript)
	}
	root := &container.Root{Layers: j.root.Layers, Digest: j.root.Digest, NoHome: s.GetContainer().GetNoHome(), Driver: j.Settings.Driver}
	if root.Programs, err = j.linkCommands(); err != nil {
		return nil, err
	}
	for _, m := range s.Mounts {
		dir, err := j.openMount(m)
		if err != nil {
			closeMounts(root)
			return nil, BadRequest("--container-mounts: cannot open %s on node %s: %s: name what user %s can open there", m.Source, j.Order.Node, reason(err), j.userName())
		}
		root.Mounts = append(root.Mounts, container.Mount{Directory: dir, Target: filepath.Clean(m.Target), ReadOnly: m.ReadOnly})
	}
	return root, nil
}

// ErrNotAdmitted is returned, wrapped, for an image that the node's owner does not admit.
var ErrNotAdmitted = errors.New("the owner of the node does not admit it")

// checkImage compares the job's image with the site's rules, and with those of the node's
// owner if the job is a guest.
func (j *Job) checkImage(ctx context.Context, cache *roots.Cache, named ref.Ref) error {
	image := j.Order.Spec.Image
	if problem := spec.ImageProblem(j.Order.ImageRules, spec.SiteRules, image); problem != "" {
		return BadRequest("--image: %s", problem)
	}
	if problem := spec.ImageProblem(j.Order.OwnerImageRules, spec.OwnerRules, image); problem != "" {
		return fmt.Errorf("--image: %w on node %s: %s", ErrNotAdmitted, j.Order.Node, problem)
	}
	root := j.Order.ImageRules.GetTrustedRoot()
	of := roots.Signers{Signers: spec.SignersOf(j.Order.ImageRules, image), Root: root, Of: spec.SiteRules}
	if err := cache.Signed(ctx, j.rootUser(), named, of, j.tell); err != nil {
		return j.rootFault(err)
	}
	of = roots.Signers{Signers: spec.SignersOf(j.Order.OwnerImageRules, image), Root: root, Of: spec.OwnerRules}
	err := cache.Signed(ctx, j.rootUser(), named, of, j.tell)
	if errors.Is(err, roots.ErrUnsigned) {
		return fmt.Errorf("--image: %w on node %s: %w", ErrNotAdmitted, j.Order.Node, err)
	}
	if err != nil {
		return j.rootFault(err)
	}
	return nil
}

// rootFault says whose fault an error about an image is.
func (j *Job) rootFault(err error) error {
	var fault *roots.Error
	if errors.As(err, &fault) {
		return BadRequest("%v, on node %s", err, j.Order.Node)
	}
	return err
}

// Ahead brings the container image of an order before a job needs it, as a job of the
// order's user would.
func Ahead(ctx context.Context, s *bundle.Settings, order *pb.StartAlloc, log *slog.Logger, tell func(string)) (*roots.Root, error) {
	j := &Job{Order: order, Settings: s, Log: log, User: userOf(order.Owner), Tell: tell}
	if err := j.CheckAccounts(ctx); err != nil {
		return nil, err
	}
	named, err := ref.ParsePinned(order.GetSpec().GetImage())
	if err != nil {
		return nil, err
	}
	cache := Roots(s)
	cache.Log = log
	if err := j.checkImage(ctx, cache, named); err != nil {
		return nil, err
	}
	return cache.Root(ctx, j.rootUser(), named, j.tell)
}

// rootUser is who brings the job's root, with the groups that the user has on this node.
func (j *Job) rootUser() *roots.User {
	u := RootUser(j.Order)
	u.Identity = j.User.Identity()
	return u
}

// openMount opens what the user wants to see in the image: a directory or a file.
func (j *Job) openMount(m *pb.Mount) (*userpath.Directory, error) {
	dir, err := userpath.OpenDirectory(j.User.Identity(), m.Source)
	if err == nil {
		return dir, nil
	}
	file, fileErr := userpath.OpenFile(j.User.Identity(), m.Source, os.O_RDONLY, 0)
	if fileErr != nil {
		return nil, err
	}
	return &userpath.Directory{Path: m.Source, File: file}, nil
}

func closeMounts(root *container.Root) {
	if root == nil {
		return
	}
	for _, m := range root.Mounts {
		m.File.Close()
	}
}

// DropRoot gives the image's layers back.
func (j *Job) DropRoot() {
	if j.root != nil {
		j.root.Close()
		j.root = nil
	}
}

func (j *Job) tell(text string) {
	if text != "" {
		j.Log.Info(text)
	}
	if j.Tell != nil {
		j.Tell(text)
	}
}

// linkCommands makes the commands that an image has not, where the job shares a directory
// with its supervisor, and answers the programs to be bound there; none = the node has none.
func (j *Job) linkCommands() ([]string, error) {
	path := j.findProgram(container.Program)
	if path == "" {
		j.Log.Warn("jobs with a container image have no commands in it: install gleaner on this node, or set container.commands")
		return nil, nil
	}
	programs := []string{path}
	if j.Order.GetStages() {
		path := j.findProgram(container.Stager)
		if path == "" {
			return nil, fmt.Errorf("stage files: node %s has no %s: install it beside gleaner", j.Order.Node, container.Stager)
		}
		programs = append(programs, path)
	}
	dir := j.Dir.Path(bundle.RunDir, filepath.Base(container.CommandsInside))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make a directory for the commands: %w", err)
	}
	for _, path := range programs {
		if err := j.writeRunFile(filepath.Join(filepath.Base(dir), filepath.Base(path)), nil, 0o755); err != nil {
			return nil, err
		}
	}
	if err := linkTo(container.Program, filepath.Dir(path), dir); err != nil {
		return nil, err
	}
	return programs, os.Lchown(dir, int(j.User.UID), int(j.User.GID))
}

// findProgram answers where a program of Gleaner's is on this node; "" = nowhere.
func (j *Job) findProgram(name string) string {
	for _, dir := range []string{j.Settings.CommandsDir, "/usr/local/bin", "/usr/bin"} {
		candidate := filepath.Join(dir, name)
		if info, err := os.Stat(candidate); dir != "" && err == nil && info.Mode().IsRegular() {
			return candidate
		}
	}
	return ""
}

// linkTo makes in a directory the links to a program that another directory has.
func linkTo(program, from, dir string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return fmt.Errorf("look for the commands: %w", err)
	}
	for _, entry := range entries {
		target, err := os.Readlink(filepath.Join(from, entry.Name()))
		if err == nil && filepath.Base(target) == program {
			if err := os.Symlink(program, filepath.Join(dir, entry.Name())); err != nil {
				return fmt.Errorf("link the commands: %w", err)
			}
		}
	}
	return nil
}

// config is what the image says of its programs; empty without one.
func (j *Job) config() v1.Config {
	if j.root == nil {
		return v1.Config{}
	}
	return j.root.Config
}

// inImage puts the image's variables over those of the submitter, except for those that the
// submitter wants to keep, as pyxis does; and the commands at the end of PATH.
func (j *Job) inImage(environment []string) []string {
	if j.root == nil {
		return environment
	}
	kept := j.Order.Spec.GetContainer().GetEnvironment()
	image := slices.DeleteFunc(slices.Clone(j.config().Env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(kept, name)
	})
	environment = pid1.Overlay(environment, image)
	driver := &j.Settings.Driver
	environment = pid1.Overlay(environment, driver.Environment)
	environment = alsoIn(environment, "LD_LIBRARY_PATH", driver.Libraries)
	return alsoIn(environment, "PATH", append(slices.Clone(driver.Programs), container.CommandsInside))
}

// alsoIn puts directories at the end of a search path, those that it has not.
func alsoIn(environment []string, name string, dirs []string) []string {
	at := slices.IndexFunc(environment, func(entry string) bool { return strings.HasPrefix(entry, name+"=") })
	var path []string
	if at >= 0 {
		path = filepath.SplitList(strings.TrimPrefix(environment[at], name+"="))
	}
	for _, dir := range dirs {
		if !slices.Contains(path, dir) {
			path = append(path, dir)
		}
	}
	switch entry := name + "=" + strings.Join(path, ":"); {
	case at >= 0:
		environment[at] = entry
	case len(path) > 0:
		environment = append(environment, entry)
	}
	return environment
}

// directoryInside is where the script starts.
func (j *Job) directoryInside() string {
	s := j.Order.Spec
	for _, dir := range []string{s.GetContainer().GetWorkDirectory(), j.config().WorkingDir} {
		if j.root != nil && filepath.IsAbs(dir) {
			return filepath.Clean(dir)
		}
	}
	return filepath.Clean(s.GetWorkDirectory())
}

// entrypoint goes before the script, if that was asked for.
func (j *Job) entrypoint() []string {
	if !j.Order.Spec.GetContainer().GetEntrypoint() {
		return nil
	}
	return j.config().Entrypoint
}
