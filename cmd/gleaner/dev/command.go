package dev

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
)

// Command runs a cluster on this machine in the foreground.
func Command() *option.Command {
	return &option.Command{
		Name:    "dev",
		Summary: "run a whole cluster on this machine, in the foreground",
		Description: []string{
			"Starts controllers and node daemons as child processes, the real ones, with everything they need in one directory: configurations, logs, state, and a file env to be sourced by a shell. It prints \"ready\" and what to type next. When it is interrupted it ends every job and every child and leaves no process, mount, namespace or cgroup.",
			"The nodes share the machine. They may promise more CPUs than exist, and say so in ginfo. Where there is no NVIDIA driver their GPUs are stand-ins: character devices that do nothing, to which the kernel applies the same rules as to real ones.",
			"It needs root, for containers and cgroups. Root's own jobs are allowed on it, and run as uid 0 without capabilities.",
		},
		Usage: "[options]",
		Options: []option.Option{
			{Long: "dir", Argument: "directory", Default: "./gleaner-dev", Help: "where everything goes; made if it is missing, kept afterwards"},
			{Long: "controllers", Argument: "n", Default: "1", Help: "how many controllers: 1, 3 or 5"},
			{Long: "nodes", Argument: "n", Default: "2", Help: "how many nodes"},
			{Long: "gpus-per-node", Argument: "n", Default: "4", Help: "stand-in GPUs of each node"},
			{Long: "unlike-gpus", Help: "give the stand-in GPUs of each node other names and another order than those of the nodes before it, as they have on unlike machines"},
			{Long: "cpus-per-node", Argument: "n", Default: "4", Help: "CPUs that each node promises"},
			{Long: "direct", Help: "let images of jobs go straight from node to node, over ports of 127.0.0.1 that are open for one transfer each"},
			{Long: "log-level", Argument: "level", Default: "info", Help: "of the daemons: debug, info, warn or error"},
		},
		Examples: []option.Example{
			{Text: "Two nodes with four GPUs each", Command: "sudo bin/gleaner dev --dir /var/tmp/gleaner"},
			{Text: "Three controllers, of which one may be killed: its process is in gctld.pid, gctld2.pid or gctld3.pid", Command: "sudo bin/gleaner dev --dir /var/tmp/gleaner --controllers 3"},
			{Text: "Use it from another terminal", Command: ". /var/tmp/gleaner/env; ginfo"},
			{Text: "Two labs on it, one with you in it", Command: "gacctmgr -i add account physics fairshare=60\ngacctmgr -i add account chemistry fairshare=40\ngacctmgr -i add user $USER account=physics"},
		},
		ExitStatus: []option.ExitStatus{
			{Status: "0", Help: "it was interrupted, and everything has ended"},
			{Status: "1", Help: "it could not start, a daemon kept dying, or something could not be cleaned up"},
		},
		SeeAlso: []string{"ginfo", "gsubmit"},
		Run:     runDev,
	}
}

func runDev(inv *option.Invocation) error {
	if len(inv.Operands) > 0 {
		return inv.Fail("unexpected word %q: gleaner dev takes options only", inv.Operands[0])
	}
	options := clusterOptions{Directory: inv.Text("dir"), LogLevel: inv.Text("log-level"), UnlikeGPUs: inv.Given("unlike-gpus"), Direct: inv.Given("direct")}
	if !inv.Given("dir") {
		options.Directory = "gleaner-dev"
	}
	for _, count := range []struct {
		name     string
		standard int
		target   *int
	}{
		{"controllers", 1, &options.Controllers},
		{"nodes", 2, &options.Nodes},
		{"gpus-per-node", 4, &options.GPUsPerNode},
		{"cpus-per-node", 4, &options.CPUsPerNode},
	} {
		var err error
		if *count.target, err = number(inv, count.name, count.standard); err != nil {
			return err
		}
	}
	var err error
	if options.Binaries, err = ownDirectory(); err != nil {
		return err
	}
	return runCluster(inv.Context, options, inv.Stdout)
}

// number is the value of a counting option, or its standard value.
func number(inv *option.Invocation, name string, standard int) (int, error) {
	if !inv.Given(name) {
		return standard, nil
	}
	n, err := strconv.Atoi(inv.Text(name))
	if err != nil {
		return 0, inv.Fail("--%s=%s: a whole number is wanted", name, inv.Text(name))
	}
	return n, nil
}

// ownDirectory is the directory of this program and of the daemons.
func ownDirectory() (string, error) {
	program, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the daemons in the directory of this program: %w", err)
	}
	if program, err = filepath.EvalSymlinks(program); err != nil {
		return "", fmt.Errorf("find the daemons in the directory of this program: %w", err)
	}
	return filepath.Dir(program), nil
}
