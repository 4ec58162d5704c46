package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gleaner-hpc/gleaner/proto/finding"
)

// site is something of the cluster that this host is, or is to be.
type site struct {
	role    string
	config  string // the daemon's file; "" = none
	running int    // process id of the daemon; 0 = it does not run, or is not seen
}

// standard says where the daemons' configurations are.
var standard = map[string]string{
	finding.Controller: "/etc/gleaner/gctld.toml",
	finding.Node:       "/etc/gleaner/gnoded.toml",
}

var programs = map[string]string{finding.Controller: "gctld", finding.Node: "gnoded"}

func (s *site) program() string { return programs[s.role] }

// errOptions is returned for options that do not go together.
var errOptions = errors.New("bad options")

// findSites returns what is examined, controllers first, and a hint at what
// could be.
func findSites(o examination) (sites []*site, hint string, err error) {
	running := daemons("/proc")
	if o.Config != "" {
		s, err := siteOf(o, running)
		return []*site{s}, "", err
	}
	for _, role := range []string{finding.Controller, finding.Node} {
		if len(o.Roles) > 0 && !slices.Contains(o.Roles, role) {
			continue
		}
		sites = append(sites, sitesOf(role, running, slices.Contains(o.Roles, role))...)
	}
	if slices.Contains(o.Roles, userRole) || len(sites) == 0 {
		sites = append(sites, &site{role: userRole})
	}
	if len(o.Roles) == 0 && len(sites) == 1 && sites[0].role == userRole {
		hint = "No daemon of Gleaner is set up on this host; gdoctor --role=node, or --role=controller, says whether one could run."
	}
	return sites, hint, nil
}

// sitesOf are the daemons of a role that run, or are set up, or are wanted.
func sitesOf(role string, running []daemon, wanted bool) (sites []*site) {
	for _, d := range running {
		if d.program == programs[role] {
			sites = append(sites, &site{role: role, config: d.config, running: d.pid})
		}
	}
	if len(sites) > 0 {
		return sites
	}
	if _, err := os.Lstat(standard[role]); err == nil {
		return []*site{{role: role, config: standard[role]}}
	}
	if wanted {
		return []*site{{role: role}}
	}
	return nil
}

// siteOf is the one that --config names.
func siteOf(o examination, running []daemon) (*site, error) {
	path, err := filepath.Abs(o.Config)
	if err != nil {
		return nil, err
	}
	s := &site{config: path}
	switch base := filepath.Base(path); {
	case len(o.Roles) == 1 && o.Roles[0] != userRole:
		s.role = o.Roles[0]
	case len(o.Roles) > 0:
		return nil, fmt.Errorf("%w: --config is one daemon's: give --role=node or --role=controller with it", errOptions)
	case strings.HasPrefix(base, programs[finding.Node]):
		s.role = finding.Node
	case strings.HasPrefix(base, programs[finding.Controller]):
		s.role = finding.Controller
	default:
		return nil, fmt.Errorf("%w: whose configuration is %q? Give --role=node or --role=controller with it", errOptions, o.Config)
	}
	for _, d := range running {
		if d.program == s.program() && d.config == path {
			s.running = d.pid
		}
	}
	return s, nil
}

// programDirs are where daemons are installed, in addition to the caller's
// PATH.
var programDirs = []string{"/usr/local/sbin", "/usr/sbin", "/usr/local/bin", "/usr/bin"}

// findProgram finds a daemon's program: in the directory of this one, or
// installed.
func findProgram(name string) (string, error) {
	if self, err := os.Executable(); err == nil {
		// gdoctor may be a link to gleaner.
		if self, err = filepath.EvalSymlinks(self); err == nil {
			programDirs := append([]string{filepath.Dir(self)}, programDirs...)
			for _, dir := range programDirs {
				path := filepath.Join(dir, name)
				if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
					return path, nil
				}
			}
		}
	}
	return exec.LookPath(name)
}

// ask runs the daemon's own examination.
func (s *site) ask(ctx context.Context, quick bool) (*finding.Report, []finding.Finding) {
	program, err := findProgram(s.program())
	if err != nil {
		return nil, []finding.Finding{finding.Unseen(s.program(), fmt.Sprintf("the program is not installed, so what this host needs to be a %s was not looked at: install it to /usr/local/sbin", s.role))}
	}
	args := []string{"doctor"}
	if s.config != "" {
		args = append(args, "--config", s.config)
	}
	if quick && s.role == finding.Node {
		args = append(args, "--quick")
	}
	report, err := askProgram(ctx, program, args)
	if err != nil {
		return nil, []finding.Finding{finding.Bad(s.program(), fmt.Sprintf("%s: %v", strings.Join(append([]string{program}, args...), " "), err),
			"what this host needs was not looked at", "see that "+program+" is of the same version as gdoctor: gdoctor --version; "+program+" --version")}
	}
	return report, nil
}

// reportBytes bounds what a daemon's program may answer.
const reportBytes = 4 << 20

// askProgram reads one JSON value, and does not insist on the program's end:
// a thread of it may hang in the kernel.
func askProgram(ctx context.Context, program string, args []string) (*finding.Report, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second
	var complaints bytes.Buffer
	cmd.Stderr = &limited{&complaints, 64 << 10}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	answer := make(chan error, 1)
	report := &finding.Report{}
	go func() { answer <- json.NewDecoder(io.LimitReader(out, reportBytes)).Decode(report) }()
	ended := make(chan error, 1)
	select {
	case err = <-answer:
	case <-ctx.Done():
		err = ctx.Err()
	}
	_ = out.Close()
	go func() { ended <- cmd.Wait() }()
	select {
	case <-ended:
	case <-time.After(2 * time.Second):
		_ = cmd.Process.Kill()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(complaints.String()))
	}
	return report, nil
}

// limited keeps the first bytes that are written to it.
type limited struct {
	buffer *bytes.Buffer
	most   int
}

func (l *limited) Write(p []byte) (int, error) {
	if room := l.most - l.buffer.Len(); room > 0 {
		l.buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
