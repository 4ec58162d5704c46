package setup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
)

// Deadlines of the steps. A node compiles its system-call filter and tries a container
// before it takes jobs.
const (
	serviceLimit = 2 * time.Minute
	readyLimit   = 2 * time.Minute
	pollEvery    = 250 * time.Millisecond
	maxTold      = 4 << 10 // bytes of what a failed command has printed
)

// host is where things are on this machine; tests have another one.
type host struct {
	configs string // of the daemons
	running string // exists while systemd runs
	examine []string
}

var here = host{
	configs: "/etc/gleaner", running: "/run/systemd/system",
	examine: []string{"/etc/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"},
}

// step is one thing to do, in words and in deeds.
type step struct {
	words string
	do    func() error
}

func runSetup(inv *option.Invocation) error {
	if len(inv.Operands) > 0 {
		return inv.Fail("gleaner setup takes options only: what is %q?", inv.Operands[0])
	}
	if err := here.check(); err != nil {
		return option.Fail(1, "%w", err)
	}
	if !inv.Given("dry-run") && os.Geteuid() != 0 {
		return option.Fail(1, "only root starts services: type sudo gleaner setup")
	}
	for _, s := range here.steps(inv) {
		if inv.Given("dry-run") {
			fmt.Fprintf(inv.Stdout, "would %s\n", s.words)
			continue
		}
		fmt.Fprintf(inv.Stdout, "%s\n", s.words)
		if err := s.do(); err != nil {
			return option.Fail(1, "%s: %w", s.words, err)
		}
	}
	if inv.Given("dry-run") {
		return nil
	}
	_, err := fmt.Fprintln(inv.Stdout, "This host is a cluster. Try, as a user:\n    gsubmit --wrap hostname\n    gqueue\nOther nodes and login hosts: docs/install.md; what is wrong on a host: sudo gdoctor")
	return err
}

// check refuses a host on which the daemons cannot become services.
func (h host) check() error {
	if _, err := os.Stat(h.running); err != nil {
		return errors.New("systemd does not run here, which would run the daemons. Start them by other means:\n    gctld --config /etc/gleaner/gctld.toml\n    gnoded --config /etc/gleaner/gnoded.toml\nand then type gcontrol apply -f /etc/gleaner/cluster.toml. A cluster to try things: gleaner dev")
	}
	for unit, from := range map[string]string{"gctld": "gleaner-ctld", "gnoded": "gleaner-node"} {
		if !h.hasUnit(unit) {
			return fmt.Errorf("%s.service is not installed: apt install ./%s_*.deb, or make install", unit, from)
		}
	}
	return nil
}

func (h host) hasUnit(name string) bool {
	for _, directory := range h.examine {
		if _, err := os.Stat(filepath.Join(directory, name+".service")); err == nil {
			return true
		}
	}
	return false
}

func (h host) steps(inv *option.Invocation) []step {
	var steps []step
	for _, file := range files {
		path := filepath.Join(h.configs, file.name)
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			steps = append(steps, step{"write " + path, func() error { return write(path, file.text) }})
		}
	}
	return append(steps,
		step{"start gctld", func() error { return run(inv.Context, "systemctl", "enable", "--now", "gctld") }},
		step{"wait until the controller answers", func() error { return awaitController(inv) }},
		step{"put " + filepath.Join(h.configs, "cluster.toml") + " in force, if no policy is", func() error { return h.applyPolicy(inv) }},
		step{"start gnoded", func() error { return run(inv.Context, "systemctl", "enable", "--now", "gnoded") }},
		step{"wait until the node takes jobs", func() error { return awaitNode(inv) }},
	)
}

// write makes a file that must not be there.
func write(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}

// run runs a command and returns what it said if it failed.
func run(ctx context.Context, name string, words ...string) error {
	ctx, cancel := context.WithTimeout(ctx, serviceLimit)
	defer cancel()
	command := exec.CommandContext(ctx, name, words...)
	out, err := command.CombinedOutput()
	if err == nil {
		return nil
	}
	said := strings.TrimSpace(format.PrintableLines(string(out[:min(len(out), maxTold)])))
	return fmt.Errorf("%s: %w\n%s", strings.Join(command.Args, " "), err, said)
}
