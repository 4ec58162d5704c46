package control

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/slurmconf"
)

// slurmConf is where Slurm's configuration usually is.
const slurmConf = "/etc/slurm/slurm.conf"

// controlImport prints the cluster.toml that a slurm.conf means, and the gnoded.toml of its
// nodes.
func controlImport(c *controlRun, words []string) error {
	path := slurmConf
	switch {
	case len(words) > 1:
		return c.tooMany("import-slurm")
	case c.json != show.JSONNone:
		return c.inv.Fail("import-slurm has no JSON; leave --json out")
	case len(words) == 1:
		path = words[0]
	}
	result, err := importSlurm(path)
	if err != nil {
		return option.Fail(1, "%w", err)
	}
	if dir := c.inv.Text("file"); dir != "" {
		return c.writeImported(dir, result)
	}
	return c.printImported(path, result)
}

// importSlurm reads a slurm.conf, and what lies beside it.
func importSlurm(path string) (*slurmconf.Result, error) {
	dir := filepath.Dir(path)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	open := func(name string) ([]byte, error) {
		if name == path {
			file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
			return readConf(file, err)
		}
		within := name
		if filepath.IsAbs(name) {
			rest, err := filepath.Rel(dir, name)
			if err != nil {
				return nil, err
			}
			within = rest
		}
		file, err := root.OpenFile(within, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		text, err := readConf(file, err)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w (only files below %s are read)", err, dir)
		}
		return text, err
	}
	conf, err := slurmconf.Read(path, open)
	if err != nil {
		return nil, err
	}
	beside := map[string][]slurmconf.Line{}
	for _, name := range []string{"gres.conf", "topology.conf"} {
		lines, err := slurmconf.Read(filepath.Join(dir, name), open)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		beside[name] = lines
	}
	return slurmconf.Convert(conf, beside["gres.conf"], beside["topology.conf"])
}

func readConf(file *os.File, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s is not a file", file.Name()))
	}
	return io.ReadAll(io.LimitReader(file, slurmconf.MaxBytes+1))
}

// printImported prints a cluster.toml, with the rest as comments of it.
func (c *controlRun) printImported(path string, result *slurmconf.Result) error {
	var out strings.Builder
	fmt.Fprintf(&out, "# The policy that %s means. See what it changes: gcontrol apply -f cluster.toml --dry-run\n", format.Printable(path))
	out.WriteString(leftOver(result))
	out.WriteString("\n" + result.Cluster)
	for _, node := range result.Nodes {
		fmt.Fprintf(&out, "\n# /etc/gleaner/gnoded.toml of %s:\n#\n", format.Printable(node.Hosts))
		for line := range strings.Lines(node.Text) {
			out.WriteString(strings.TrimRight("#   "+line, " \n") + "\n")
		}
	}
	_, err := io.WriteString(c.inv.Stdout, out.String())
	return err
}

// leftOver lists what could not be carried over, as comments: what changes what jobs may
// do first.
func leftOver(result *slurmconf.Result) string {
	var needs, nothing strings.Builder
	for _, left := range result.Left {
		to, why := &needs, left.Why
		if rest, settled := strings.CutPrefix(why, "needs nothing: "); settled {
			to, why = &nothing, rest
		}
		fmt.Fprintf(to, "#   %s: %s: %s\n", format.Printable(left.Place.String()), format.Printable(left.What), format.Printable(strings.ReplaceAll(why, "\n", "; ")))
	}
	text := "# Accounts and their limits: sacctmgr dump CLUSTER file=accounts.cfg, then gacctmgr load accounts.cfg, before the policy\n"
	if needs.Len() > 0 {
		text += "#\n# Not carried over:\n" + needs.String()
	}
	if nothing.Len() > 0 {
		text += "#\n# These need no setting here:\n" + nothing.String()
	}
	return text
}

// writeImported writes cluster.toml, and a file for each kind of nodes, into a directory.
// Nothing there is replaced.
func (c *controlRun) writeImported(dir string, result *slurmconf.Result) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return option.Fail(1, "%w", err)
	}
	type file struct{ name, text string }
	files := []file{{"cluster.toml", leftOver(result) + "\n" + result.Cluster}}
	for i, node := range result.Nodes {
		files = append(files, file{fmt.Sprintf("gnoded-%d.toml", i+1), "# Of " + format.Printable(node.Hosts) + "\n" + node.Text})
	}
	for _, one := range files {
		path := filepath.Join(dir, one.name)
		made, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return option.Fail(1, "%w: move it away, or name another directory", err)
		}
		_, err = made.WriteString(one.text)
		if err = errors.Join(err, made.Close()); err != nil {
			return option.Fail(1, "%w", err)
		}
		if !c.inv.Given("quiet") {
			fmt.Fprintln(c.inv.Stdout, format.Printable(path))
		}
	}
	return nil
}
