package prepare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/noded/pid1"
	"github.com/gleaner-hpc/gleaner/noded/shim/bundle"
	"github.com/gleaner-hpc/gleaner/noded/userpath"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// RequestError is a fault of the job, not of the node: a path that does not
// exist or that its user may not open.
type RequestError struct{ text string }

// Error implements error.
func (e *RequestError) Error() string { return e.text }

// BadRequest is the error of a fault of the job.
func BadRequest(format string, args ...any) error {
	return &RequestError{fmt.Sprintf(format, args...)}
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

// Prepare makes everything that the container needs, and answers its description,
// but for its control group, and a function that closes what was opened for it.
func (j *Job) Prepare(ctx context.Context) (_ *container.Spec, _ func(), err error) {
	if j.User.UID == 0 && !j.Order.RootAllowed {
		return nil, nil, BadRequest("jobs of root are not allowed in partition %s: submit with --uid=USER, or let an administrator set allow_root_jobs", j.Order.Partition)
	}
	s := j.Settings
	spec := &container.Spec{
		ID: j.Dir.ID(), Dir: string(j.Dir), User: j.User, HostName: j.Order.Node,
		Nested: j.Order.NestedContainers, PrivateNetwork: j.Order.Spec.GetNetwork() == pb.Network_NETWORK_PRIVATE, Peers: j.peers(),
		LayerDir: j.Dir.Path(bundle.DiskDir), RunDir: j.Dir.Path(bundle.RunDir), InitPath: s.InitPath,
		CommandsDir: s.CommandsDir, SlurmDir: s.SlurmDir, Hosts: j.hosts(),
		Binds: s.Binds, HideDirs: append([]string{s.StateDir}, s.HideDirs...),
		Devices: Devices(s), OtherDevices: s.OtherDevices,
		Keep: append([]string{s.StateDir, s.TLSDir}, socketPaths(s.Controllers)...),
		Log:  j.Log,
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
		closeMounts(spec.Root)
	}
	defer func() {
		if err != nil {
			cleanup()
		}
	}()
	if err := j.makeDisk(ctx); err != nil {
		return nil, nil, err
	}
	if err := j.MakeRunDir(); err != nil {
		return nil, nil, err
	}
	if spec.Root, err = j.openRoot(ctx); err != nil {
		return nil, nil, err
	}
	if !j.DryRun {
		if spec.Filter, err = s.Filter(spec.Nests()); err != nil {
			return nil, nil, err
		}
	}
	spec.Orders = &pid1.Config{StepEnv: j.stepEnvironment(), Job: j.shared(), StepPort: s.StepPort, StepPorts: bundle.StepPorts, StepAddress: j.stepAddress()}
	if spec.WorkDir, err = j.openWorkDir(); err != nil {
		return nil, nil, err
	}
	if dir, err := j.openCheckpointDir(); err != nil {
		return nil, nil, err
	} else if dir != nil {
		spec.Dirs = append(spec.Dirs, dir)
	}
	if j.Batch {
		if spec.Files, spec.Orders.Batch, err = j.prepareBatch(); err != nil {
			return nil, nil, err
		}
	}
	return spec, cleanup, nil
}

// openWorkDir opens the work directory. A node that does not run the script
// may lack it: tasks of steps then start in /tmp, as in Slurm.
func (j *Job) openWorkDir() (*userpath.Directory, error) {
	path := j.Order.Spec.GetWorkDirectory()
	if !filepath.IsAbs(path) {
		return nil, BadRequest("the work directory %q is not an absolute path", path)
	}
	dir, err := userpath.OpenDirectory(j.User.Identity(), filepath.Clean(path))
	if err == nil {
		return dir, nil
	}
	if !j.Batch {
		j.Log.Warn("the job's work directory cannot be opened here: its tasks start in /tmp", "directory", path, "error", err)
		return nil, nil
	}
	return nil, BadRequest("couldn't chdir to `%s' on node %s: %s: choose a directory that exists there with --chdir", path, j.Order.Node, reason(err))
}

// prepareBatch opens the script's files with the user's rights, and writes
// the script.
func (j *Job) prepareBatch() ([]container.File, *pid1.Batch, error) {
	s := j.Order.Spec
	if err := j.writeRunFile(pid1.ScriptFile, s.GetScript(), 0o700); err != nil {
		return nil, nil, err
	}
	batch := &pid1.Batch{
		Argv:  slices.Concat(j.entrypoint(), []string{pid1.Dir + "/" + pid1.ScriptFile}, s.GetArguments()),
		Env:   j.batchEnvironment(),
		Umask: s.GetUmask(), Wait: j.Order.Gang,
	}
	batch.Cwd = bytesOf(j.directoryInside())
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
		{"stdout", s.GetStandardOutput(), spec.DefaultOutput(j.Order.ArrayJobId != 0), j.outputFlags(), &batch.Stdout},
		{"stderr", s.GetStandardError(), "", j.outputFlags(), &batch.Stderr},
	} {
		pattern := f.pattern
		if pattern == "" {
			pattern = f.fallback
		}
		if pattern == "" {
			continue // the same as standard output
		}
		path, err := j.expand(pattern)
		if err == nil && path == os.DevNull {
			*f.inside = os.DevNull
			continue
		}
		var file *os.File
		if err == nil {
			file, err = j.openStdio(f.name, path, f.flags)
		}
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		*f.inside = filepath.Join(pid1.Dir, pid1.StdioDir, f.name)
		files = append(files, container.File{File: file, Target: *f.inside})
		if err := j.writeRunFile(filepath.Join(pid1.StdioDir, f.name), nil, 0o600); err != nil {
			closeAll()
			return nil, nil, err
		}
	}
	return files, batch, nil
}

// outputFlags: a requeued job's output is kept, unless truncation was asked
// for.
func (j *Job) outputFlags() int {
	mode := j.Order.Spec.GetOpenMode()
	// What a job wrote before it was saved is its output too.
	appends := j.Order.Restore != nil || mode == pb.OpenMode_OPEN_MODE_APPEND || mode == pb.OpenMode_OPEN_MODE_UNSPECIFIED && j.Order.RestartCount > 0
	if appends {
		return os.O_WRONLY | os.O_CREATE | os.O_APPEND
	}
	return os.O_WRONLY | os.O_CREATE | os.O_APPEND | os.O_TRUNC
}

// expand answers the path on the host that a pattern stands for.
func (j *Job) expand(pattern string) (string, error) {
	path, err := spec.JobFile(pattern, j.Order.Spec.GetWorkDirectory(), j.fileNames())
	if err != nil {
		return "", BadRequest("file name %q: %v", pattern, err)
	}
	return path, nil
}

// fileNames are what the symbols of patterns stand for in this allocation.
func (j *Job) fileNames() spec.FileNames {
	return spec.FileNames{
		JobID: j.Order.Alloc.Job, ArrayJobID: j.Order.ArrayJobId, ArrayTask: j.Order.GetId().GetArrayTask(),
		IsArray: j.Order.ArrayJobId != 0, JobName: j.Order.Spec.GetName(), User: j.User.Name,
		Node: j.Order.Node, NodeIndex: uint32(j.Index),
	}
}

// openStdio opens a file of the script on the host, with its user's rights
// and umask. It does not wait for the other end of a pipe.
func (j *Job) openStdio(name, path string, flags int) (*os.File, error) {
	open := userpath.OpenFile
	if j.DryRun {
		open = j.lookAtFile
	}
	file, err := open(j.User.Identity(), path, flags|unix.O_NONBLOCK, j.Order.Spec.GetUmask())
	if err == nil {
		return file, nil
	}
	why := reason(err)
	switch {
	case errors.Is(err, userpath.ErrNotAFile):
		why = "It is " + strings.TrimPrefix(err.Error(), "open "+path+": ")
	case errors.Is(err, unix.ENXIO):
		why = "Nothing is at the other end of it"
	}
	long := map[string]string{"stdin": "standard input", "stdout": "standard output", "stderr": "standard error"}[name]
	return nil, BadRequest("cannot open the job's %s %s on node %s: %s: choose a file that user %s can open there",
		long, path, j.Order.Node, why, j.userName())
}

func (j *Job) userName() string {
	if j.User.Name != "" {
		return j.User.Name
	}
	return fmt.Sprint(j.User.UID)
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

// Devices are those that the job may use.
func Devices(s *bundle.Settings) []container.Device {
	devices := make([]container.Device, len(s.DeviceFiles))
	for i, d := range s.DeviceFiles {
		devices[i] = container.Device(d)
	}
	return devices
}
