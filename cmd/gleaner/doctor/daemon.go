package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/proto/finding"
)

// daemon is a process of gctld or gnoded.
type daemon struct {
	pid     int
	program string
	config  string // absolute; "" = none was named
}

// daemons finds those that run on this host, by pid. Processes in containers
// show too, to root.
func daemons(proc string) (found []daemon) {
	entries, _ := os.ReadDir(proc)
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		line, err := os.ReadFile(filepath.Join(proc, entry.Name(), "cmdline"))
		if err != nil {
			continue
		}
		words := strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
		d := daemon{pid: pid, program: filepath.Base(words[0])}
		if d.program != programs[finding.Controller] && d.program != programs[finding.Node] || !readsAsDaemon(words[1:]) {
			continue
		}
		if d.config = configOf(words[1:]); d.config != "" && !filepath.IsAbs(d.config) {
			here, err := os.Readlink(filepath.Join(proc, entry.Name(), "cwd"))
			if err != nil {
				continue
			}
			d.config = filepath.Join(here, d.config)
		}
		found = append(found, d)
	}
	slices.SortFunc(found, func(a, b daemon) int { return a.pid - b.pid })
	return found
}

// readsAsDaemon reports whether the words after a program's name start the
// daemon, not one of its other commands ("gnoded shim", "gctld cert").
func readsAsDaemon(words []string) bool {
	for i := 0; i < len(words); i++ {
		if !strings.HasPrefix(words[i], "-") {
			return false
		}
		if !strings.Contains(words[i], "=") && i+1 < len(words) && !strings.HasPrefix(words[i+1], "-") {
			i++ // the option's value
		}
	}
	return true
}

func configOf(words []string) string {
	for i, word := range words {
		name, value, attached := strings.Cut(strings.TrimLeft(word, "-"), "=")
		if !strings.HasPrefix(word, "-") || name != "config" && name != "c" {
			continue
		}
		if attached {
			return value
		}
		if i+1 < len(words) {
			return words[i+1]
		}
	}
	return ""
}

// daemonChecks look at the daemon's process and unit.
func (s *site) daemonChecks() []finding.Check {
	if s.role == userRole {
		return nil
	}
	checks := []finding.Check{{Name: s.program() + " process", Run: s.checkProcess}, {Name: s.program() + " unit", Run: s.checkUnit}}
	if s.role == finding.Node {
		checks = append(checks, finding.Check{Name: "listening", Run: s.checkListening})
	}
	return checks
}

// leastFiles is how many files a daemon of a large cluster has open.
const leastFiles = 4096

func (s *site) checkProcess(context.Context) []finding.Finding {
	name := s.program()
	if s.running == 0 {
		means := "no job is started here"
		if s.role == finding.Controller {
			means = "this controller answers nobody"
		}
		return []finding.Finding{finding.Doubtful(name, "it does not run", means, "systemctl start "+name+"; journalctl -u "+name+" -n 50 says why it ended")}
	}
	files, err := openFiles(s.running)
	switch {
	case err != nil:
		return []finding.Finding{finding.Good(name, fmt.Sprintf("process %d runs", s.running))}
	case files < leastFiles:
		return []finding.Finding{finding.Doubtful(name, fmt.Sprintf("process %d may have %d files open", s.running, files),
			"with many jobs, nodes or users at once connections are refused", "put LimitNOFILE=65536 into the [Service] part of its unit: systemctl edit "+name)}
	}
	return []finding.Finding{finding.Good(name, fmt.Sprintf("process %d runs, and may have %d files open", s.running, files))}
}

// openFiles reads the soft limit of a process.
func openFiles(pid int) (uint64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "Max open files"); ok {
			if fields := strings.Fields(rest); len(fields) > 0 {
				if fields[0] == "unlimited" {
					return 1 << 30, nil
				}
				return strconv.ParseUint(fields[0], 10, 64)
			}
		}
	}
	return 0, errors.New("no limit of open files is told")
}

// checkUnit looks at the systemd unit, where systemd runs and the daemon is
// the one that a unit would start.
func (s *site) checkUnit(ctx context.Context) []finding.Finding {
	name := s.program() + " unit"
	if _, err := os.Stat("/run/systemd/system"); err != nil || s.config != "" && s.config != standard[s.role] {
		return nil // another init, or a daemon that somebody starts by hand
	}
	unit := s.program() + ".service"
	out, err := exec.CommandContext(ctx, "systemctl", "show", "--property=LoadState,UnitFileState,ActiveState", unit).Output()
	if err != nil {
		return []finding.Finding{finding.Unseen(name, fmt.Sprintf("systemctl: %v", err))}
	}
	return []finding.Finding{judgeUnit(name, unit, string(out))}
}

func judgeUnit(name, unit, shown string) finding.Finding {
	values := map[string]string{}
	for line := range strings.Lines(shown) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[key] = value
	}
	switch {
	case values["LoadState"] != "loaded":
		return finding.Doubtful(name, unit+" is not installed", "the daemon is not back after a restart of the machine",
			"install -D -m 644 contrib/systemd/"+unit+" /etc/systemd/system/"+unit+" && systemctl daemon-reload && systemctl enable --now "+unit)
	case values["ActiveState"] != "active":
		return finding.Doubtful(name, unit+" is "+values["ActiveState"], "the daemon is not kept running", "systemctl start "+unit+"; journalctl -u "+unit+" -n 50")
	case !strings.HasPrefix(values["UnitFileState"], "enabled"):
		return finding.Doubtful(name, unit+" is "+values["UnitFileState"], "the daemon is not back after a restart of the machine", "systemctl enable "+unit)
	}
	return finding.Good(name, unit+" is enabled and active")
}

// checkListening looks whether the node daemon listens on a network: it must
// not.
func (s *site) checkListening(context.Context) []finding.Finding {
	const name = "listening"
	if s.running == 0 {
		return nil
	}
	ports, err := listening(s.running)
	switch {
	case err != nil:
		return []finding.Finding{finding.Unseen(name, fmt.Sprintf("what gnoded listens on is shown to root only: %v", err))}
	case len(ports) > 0:
		return []finding.Finding{finding.Bad(name, "the process of gnoded listens on "+strings.Join(ports, ", "), "a node must dial out only: this is no gnoded of Gleaner's, or something was loaded into it",
			fmt.Sprintf("see what it is: ls -l /proc/%d/exe; ss -ltnp", s.running))}
	}
	return []finding.Finding{finding.Good(name, "gnoded listens on no port")}
}

// listening returns the TCP ports that a process listens on.
func listening(pid int) (ports []string, err error) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	sockets := map[string]bool{}
	for _, entry := range entries {
		target, err := os.Readlink(filepath.Join(dir, entry.Name()))
		if inode, ok := strings.CutPrefix(target, "socket:["); err == nil && ok {
			sockets[strings.TrimSuffix(inode, "]")] = true
		}
	}
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			continue // no IPv6
		}
		for line := range strings.Lines(string(text)) {
			// sl local_address rem_address st … inode, see proc_net_tcp(5).
			fields := strings.Fields(line)
			const listen = "0A"
			if len(fields) > 9 && fields[3] == listen && sockets[fields[9]] {
				_, hex, _ := strings.Cut(fields[1], ":")
				port, _ := strconv.ParseUint(hex, 16, 16)
				ports = append(ports, fmt.Sprintf("%s port %d", table, port))
			}
		}
	}
	return ports, nil
}
