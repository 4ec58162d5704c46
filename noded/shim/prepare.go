package shim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/noded/pid1"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// requestError is a fault of the job, not of the node: a path that does not
// exist or that its user may not open.
type requestError struct{ text string }

func (e *requestError) Error() string { return e.text }

func badRequest(format string, args ...any) error {
	return &requestError{fmt.Sprintf(format, args...)}
}

// reason answers the errno of err in strerror's words.
func reason(err error) string {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return err.Error()
	}
	text := errno.Error()
	return strings.ToUpper(text[:1]) + text[1:]
}

// prepare makes everything that the container needs, and answers its
// description and a function that closes what was opened for it.
func (p *part) prepare() (_ *container.Spec, _ func(), err error) {
	if p.user.UID == 0 && !p.order.RootAllowed {
		return nil, nil, badRequest("jobs of root are not allowed in partition %s: submit with --uid=USER, or let an administrator set allow_root_jobs", p.order.Partition)
	}
	s := p.settings
	spec := &container.Spec{
		ID: p.dir.id(), Dir: string(p.dir), User: p.user, HostName: p.order.Node,
		PrivateNetwork: p.order.Spec.GetNetwork() == pb.Network_NETWORK_PRIVATE,
		RunDir:         p.dir.path(runDir), InitPath: s.InitPath,
		Binds: s.Binds, HideDirs: append([]string{s.StateDir}, s.HideDirs...),
		Devices: s.devices(), Cgroup: p.group.Config(),
		Keep: append([]string{s.StateDir, s.TLSDir}, socketPaths(s.Controllers)...),
	}
	cleanup := func() {
		for _, f := range spec.Files {
			f.File.Close()
		}
		for _, dir := range append(spec.Dirs, spec.WorkDir) {
			if dir != nil {
				dir.File.Close()
			}
		}
	}
	defer func() {
		if err != nil {
			cleanup()
		}
	}()
	if err := p.makeRunDir(); err != nil {
		return nil, nil, err
	}
	if spec.Filter, err = s.filter(); err != nil {
		return nil, nil, err
	}
	spec.Orders = &pid1.Config{StepEnv: p.stepEnvironment()}
	if spec.WorkDir, err = p.openWorkDir(); err != nil {
		return nil, nil, err
	}
	if dir, err := p.openCheckpointDir(); err != nil {
		return nil, nil, err
	} else if dir != nil {
		spec.Dirs = append(spec.Dirs, dir)
	}
	if p.batch {
		if spec.Files, spec.Orders.Batch, err = p.prepareBatch(); err != nil {
			return nil, nil, err
		}
	}
	if err := p.serveJob(); err != nil {
		return nil, nil, err
	}
	return spec, cleanup, nil
}

// openWorkDir opens the work directory. A node that does not run the script
// may lack it: tasks of steps then start in /tmp, as in Slurm.
func (p *part) openWorkDir() (*container.WorkDir, error) {
	path := p.order.Spec.GetWorkDirectory()
	if !filepath.IsAbs(path) {
		return nil, badRequest("the work directory %q is not an absolute path", path)
	}
	dir, err := container.OpenWorkDir(p.user, filepath.Clean(path))
	if err == nil {
		return dir, nil
	}
	if !p.batch {
		p.log.Warn("the job's work directory cannot be opened here: its tasks start in /tmp", "directory", path, "error", err)
		return nil, nil
	}
	return nil, badRequest("couldn't chdir to `%s' on node %s: %s: choose a directory that exists there with --chdir", path, p.order.Node, reason(err))
}

// prepareBatch opens the script's files with the user's rights, and writes
// the script.
func (p *part) prepareBatch() ([]container.File, *pid1.Batch, error) {
	s := p.order.Spec
	if err := p.writeRunFile(pid1.ScriptFile, s.GetScript(), 0o700); err != nil {
		return nil, nil, err
	}
	batch := &pid1.Batch{
		Argv:  append([]string{pid1.Dir + "/" + pid1.ScriptFile}, s.GetArguments()...),
		Env:   p.batchEnvironment(),
		Umask: s.GetUmask(), Wait: p.order.Gang,
	}
	batch.Cwd = bytesOf(filepath.Clean(s.GetWorkDirectory()))
	var files []container.File
	closeAll := func() {
		for _, f := range files {
			f.File.Close()
		}
	}
	for _, f := range []struct {
		name, pattern, fallback string
		flags                   int
		inside                  *string
	}{
		{"stdin", s.GetStandardInput(), os.DevNull, os.O_RDONLY, &batch.Stdin},
		{"stdout", s.GetStandardOutput(), p.defaultOutput(), p.outputFlags(), &batch.Stdout},
		{"stderr", s.GetStandardError(), "", p.outputFlags(), &batch.Stderr},
	} {
		pattern := f.pattern
		if pattern == "" {
			pattern = f.fallback
		}
		if pattern == "" {
			continue // the same as standard output
		}
		path, err := p.expand(pattern)
		if err == nil && path == os.DevNull {
			*f.inside = os.DevNull
			continue
		}
		var file *os.File
		if err == nil {
			file, err = p.openStdio(f.name, path, f.flags)
		}
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		*f.inside = filepath.Join(pid1.Dir, pid1.StdioDir, f.name)
		files = append(files, container.File{File: file, Target: *f.inside})
		if err := p.writeRunFile(filepath.Join(pid1.StdioDir, f.name), nil, 0o600); err != nil {
			closeAll()
			return nil, nil, err
		}
	}
	return files, batch, nil
}

func (p *part) defaultOutput() string {
	if p.order.ArrayJobId != 0 {
		return "slurm-%A_%a.out"
	}
	return "slurm-%j.out"
}

// outputFlags: a requeued job's output is kept, unless truncation was asked
// for.
func (p *part) outputFlags() int {
	mode := p.order.Spec.GetOpenMode()
	// What a job wrote before it was saved is its output too.
	appends := p.order.Restore != nil || mode == pb.OpenMode_OPEN_MODE_APPEND || mode == pb.OpenMode_OPEN_MODE_UNSPECIFIED && p.order.RestartCount > 0
	if appends {
		return os.O_WRONLY | os.O_CREATE | os.O_APPEND
	}
	return os.O_WRONLY | os.O_CREATE | os.O_APPEND | os.O_TRUNC
}

// expand answers the path on the host that a pattern stands for.
func (p *part) expand(pattern string) (string, error) {
	path, err := spec.ExpandFileName(pattern, p.fileNames())
	if err != nil {
		return "", badRequest("file name %q: %v", pattern, err)
	}
	if !filepath.IsAbs(path) {
		// Not joined with filepath.Join: what ".." means after a link, and that
		// a name ends in a slash, is the kernel's to judge.
		path = strings.TrimSuffix(p.order.Spec.GetWorkDirectory(), "/") + "/" + path
	}
	return path, nil
}

// fileNames are what the symbols of patterns stand for in this part.
func (p *part) fileNames() spec.FileNames {
	return spec.FileNames{
		JobID: p.order.Part.Job, ArrayJobID: p.order.ArrayJobId, ArrayTask: p.order.GetId().GetArrayTask(),
		IsArray: p.order.ArrayJobId != 0, JobName: p.order.Spec.GetName(), User: p.user.Name,
		Node: p.order.Node, NodeIndex: uint32(p.index),
	}
}

// openStdio opens a file of the script on the host, with its user's rights
// and umask. It does not wait for the other end of a pipe.
func (p *part) openStdio(name, path string, flags int) (*os.File, error) {
	file, err := container.OpenAs(p.user, path, flags|unix.O_NONBLOCK, p.order.Spec.GetUmask())
	if err == nil {
		return file, nil
	}
	why := reason(err)
	switch {
	case errors.Is(err, container.ErrNotAFile):
		why = "It is " + strings.TrimPrefix(err.Error(), "open "+path+": ")
	case errors.Is(err, unix.ENXIO):
		why = "Nothing is at the other end of it"
	}
	long := map[string]string{"stdin": "standard input", "stdout": "standard output", "stderr": "standard error"}[name]
	return nil, badRequest("cannot open the job's %s %s on node %s: %s: choose a file that user %s can open there",
		long, path, p.order.Node, why, p.userName())
}

func (p *part) userName() string {
	if p.user.Name != "" {
		return p.user.Name
	}
	return fmt.Sprint(p.user.UID)
}

// socketPaths answers the paths of those controllers that are unix sockets.
func socketPaths(controllers []string) []string {
	var paths []string
	for _, controller := range controllers {
		if path, ok := strings.CutPrefix(controller, "unix://"); ok {
			paths = append(paths, path)
		}
	}
	return paths
}
