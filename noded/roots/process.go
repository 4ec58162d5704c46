package roots

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/noded/userpath"
	"github.com/gleaner-hpc/gleaner/oci/bound"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// User is who brings an image.
type User struct {
	userpath.Identity
	Name string
	Home string
	Env  []string // of the job
}

func (u *User) environment() []string {
	env := []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + u.Home, "USER=" + u.Name, "LOGNAME=" + u.Name, "GOMEMLIMIT=256MiB"}
	for _, entry := range u.Env {
		name, _, _ := strings.Cut(entry, "=")
		for _, p := range spec.RegistryVariables {
			if name == p {
				env = append(env, entry)
			}
		}
	}
	return env
}

// complaint is how much of what a process says is kept.
const complaint = 2048

// fetcher is goci as the user.
func (c *Cache) fetcher(ctx context.Context, u *User, out io.Writer, args ...string) (*process, error) {
	groups := append([]uint32{}, u.Groups...)
	return c.process(ctx, nil, out, u.environment(), &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: groups},
	}, nil, args)
}

// unpacker is goci as root of a user namespace, without a network, whose root will be
// dir.
func (c *Cache) unpacker(ctx context.Context, dir *os.File, in io.Reader, out io.Writer, args ...string) (*process, error) {
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: c.FirstID, Size: 65536}}
	return c.process(ctx, in, out, []string{"GOMEMLIMIT=512MiB"}, &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true,
		Credential: &syscall.Credential{},
	}, []*os.File{dir}, args)
}

// process is a goci that runs.
type process struct {
	ended chan error
	says  *clipped
}

// process starts goci from a descriptor: its path may lead through directories that are
// closed to whom it runs as. It ends with this process, and with ctx.
func (c *Cache) process(ctx context.Context, in io.Reader, out io.Writer, env []string, attr *syscall.SysProcAttr, files []*os.File, args []string) (*process, error) {
	program, err := os.Open(c.Program)
	if err != nil {
		return nil, fmt.Errorf("goci, which reads container images: %w: install it beside gnoded", err)
	}
	defer program.Close()
	const firstExtra = 3
	cmd := exec.CommandContext(ctx, fmt.Sprintf("/proc/self/fd/%d", firstExtra+len(files)), args...)
	cmd.Args[0] = "goci"
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout = "/", env, in, out
	cmd.ExtraFiles = append(files, program)
	attr.Pdeathsig, attr.Setsid = unix.SIGKILL, true
	cmd.SysProcAttr = attr
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) } // with a credential helper
	p := &process{ended: make(chan error, 1), says: &clipped{}}
	cmd.Stderr = p.says
	started := make(chan error)
	go func() {
		// The process ends with the thread that has started it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			if err = c.confine(cmd.Process.Pid); err != nil {
				_ = cmd.Cancel()
				_ = cmd.Wait()
			}
		}
		if started <- err; err == nil {
			err = cmd.Wait()
			c.release()
			p.ended <- err
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start goci: %w", err)
	}
	return p, nil
}

// wait answers how it ended, in its own words.
func (p *process) wait() error {
	err := <-p.ended
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	said := bound.Explain(strings.TrimSpace(p.says.String()))
	if said == "" {
		said = "goci ended: " + exit.Error()
	}
	return &saidError{said, exit.ExitCode()}
}

// saidError is what goci complained of.
type saidError struct {
	text   string
	status int
}

// Error implements error.
func (e *saidError) Error() string { return e.text }

// exitRoom is goci's status for a layer that is too large.
const exitRoom = 4

// clipped keeps the beginning of what is written.
type clipped struct{ bytes.Buffer }

// Write implements io.Writer.
func (c *clipped) Write(text []byte) (int, error) {
	if room := complaint - c.Len(); room > 0 {
		c.Buffer.Write(text[:min(room, len(text))])
	}
	return len(text), nil
}
