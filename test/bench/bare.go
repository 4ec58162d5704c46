package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/cgroup"
	"github.com/gleaner-hpc/gleaner/noded/container"
	"github.com/gleaner-hpc/gleaner/noded/pid1"
	"github.com/gleaner-hpc/gleaner/noded/userpath"
)

// bareWord makes this program start containers and nothing else.
const bareWord = "containers"

// userName is the user whose jobs start, on every side: one that every Linux
// has, is not root, and owns nothing.
const userName = "daemon"

// jobUser is that user as this machine knows it.
func jobUser() (container.User, error) {
	known, err := user.Lookup(userName)
	if err != nil {
		return container.User{}, fmt.Errorf("jobs are to run as user %s: %w", userName, err)
	}
	uid, err := strconv.ParseUint(known.Uid, 10, 32)
	if err != nil {
		return container.User{}, err
	}
	gid, err := strconv.ParseUint(known.Gid, 10, 32)
	return container.User{
		UID: uint32(uid), GID: uint32(gid), Groups: []uint32{uint32(gid)}, Name: userName, Group: userName, Home: known.HomeDir, Shell: "/bin/sh",
	}, err
}

// bareMain starts one container for each line on standard input and says
// "over" when it has ended: "containers SCRIPT DIRECTORY STATE PARENT". The
// package that the node daemon uses describes them, so they have the same
// root, namespaces, mappings, mounts, filter, device rules and limits as jobs;
// but libcontainer alone starts them, in this one process, the script itself
// is process 1, and there is no supervisor, no daemon and no order.
func bareMain(script, directory, state, parent string) error {
	if err := container.Isolate(); err != nil {
		return err
	}
	unix.Umask(0o022)
	as, err := jobUser()
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	fmt.Println("ready")
	for i := 1; lines.Scan(); i++ {
		part := filepath.Join(state, fmt.Sprintf("%d.1", i))
		if err := runBare(as, script, directory, part, parent); err != nil {
			return err
		}
		fmt.Println("over")
	}
	return lines.Err()
}

// runBare starts one container and waits for its end.
func runBare(as container.User, script, directory, part, parent string) error {
	id := filepath.Base(part)
	runDir := filepath.Join(part, "run")
	if err := os.MkdirAll(runDir, 0o700); err != nil {
		return err
	}
	if err := os.Chown(runDir, int(as.UID), int(as.GID)); err != nil {
		return err
	}
	// Where process 1's program is bound.
	if err := os.WriteFile(filepath.Join(runDir, "ginit"), nil, 0o700); err != nil {
		return err
	}
	work, err := userpath.OpenDirectory(as.Identity(), directory)
	if err != nil {
		return err
	}
	defer work.File.Close()
	group := cgroup.New(parent+"/"+id, cgroup.Limits{
		CPUWeight: 1, MemoryBytes: 64 << 20, Pids: 4096, Devices: container.AllowedDevices(nil), DenyOtherDevices: true,
	})
	// The script is bound where process 1's program is in a job.
	_, err = container.Bare(&container.Spec{
		ID: id, Dir: part, LayerDir: part, User: as, HostName: hostName, RunDir: runDir, InitPath: script, WorkDir: work,
		HideDirs: []string{filepath.Dir(part)}, Cgroup: group.Config(), Keep: []string{part},
	}, filepath.Join(pid1.Dir, "ginit"))
	return err
}

// bare is a running process that starts containers when it is told to.
type bare struct {
	command *exec.Cmd
	life    io.WriteCloser
	said    *bufio.Reader
	parent  string
}

// startBareRunner starts it. Its containers write into directory and lie, like
// a node's, below state on the disk.
func startBareRunner(script, directory, state, parent string) (*bare, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := exec.Command(self, bareWord, script, directory, state, parent)
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Setpgid: true}
	command.Stderr = os.Stderr
	life, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	said, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start the runner of bare containers: %w", err)
	}
	b := &bare{command, life, bufio.NewReader(said), parent}
	if err := b.expect("ready"); err != nil {
		return nil, errors.Join(err, b.stop())
	}
	return b, nil
}

// expect waits for a word of the runner. A runner that ends says nothing more.
func (b *bare) expect(word string) error {
	line, err := b.said.ReadString('\n')
	if strings.TrimSpace(line) != word {
		return errors.Join(fmt.Errorf("the runner of bare containers did not say %q", word), err)
	}
	return nil
}

// order tells the runner to start a container.
func (b *bare) order() error {
	_, err := io.WriteString(b.life, "go\n")
	return err
}

// over waits for the end of the container and its clean-up.
func (b *bare) over() error { return b.expect("over") }

// stop ends the runner; its containers have ended before.
func (b *bare) stop() error {
	b.life.Close()
	err := b.command.Wait()
	if group, missing := cgroup.Open(b.parent); missing == nil {
		err = errors.Join(err, group.Remove())
	}
	return err
}
