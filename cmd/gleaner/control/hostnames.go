package control

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// errNoHosts are Slurm's words for an empty list. It is no failure: the exit
// status is 0, and scripts that read the output get nothing.
const errNoHosts = "host list is empty"

// showHostNames prints the names in a host list, one a line; without one,
// those of the job it runs in.
func showHostNames(c *controlRun, id string) error {
	if id == "" {
		if id = c.inv.Getenv("SLURM_JOB_NODELIST"); id == "" {
			id = c.inv.Getenv("SLURM_NODELIST")
		}
	}
	if id == "" {
		fmt.Fprintf(c.inv.Stderr, "%s: error: %s\n", c.inv.Command.Program(), errNoHosts)
		return nil
	}
	names, err := spec.ParseHostList(id)
	if err != nil {
		return c.inv.Fail("Invalid hostlist: %s\n%w", id, err)
	}
	out := bufio.NewWriter(c.inv.Stdout)
	for _, name := range names {
		fmt.Fprintln(out, name)
	}
	return out.Flush()
}

// showHostList prints the host list of names. Runs keep the order written:
// tux2,tux1 is not tux[1-2].
func showHostList(c *controlRun, id string) error { return c.hostList(id, false) }

func showHostListSorted(c *controlRun, id string) error { return c.hostList(id, true) }

func (c *controlRun) hostList(id string, sorted bool) error {
	if strings.TrimSpace(id) == "" {
		fmt.Fprintf(c.inv.Stderr, "%s: error: %s\n", c.inv.Command.Program(), errNoHosts)
		return nil
	}
	names, err := spec.ParseHostList(id)
	if err != nil {
		return c.inv.Fail("Invalid hostlist: %s\n%w", id, err)
	}
	text := spec.FormatHostList(names)
	if !sorted {
		text = inOrderWritten(names)
	}
	_, err = fmt.Fprintln(c.inv.Stdout, text)
	return err
}

// inOrderWritten compresses names without moving any: maximal runs that are
// already in their sorted order become one range each.
func inOrderWritten(names []string) string {
	var parts []string
	for len(names) > 0 {
		n := 1
		for n < len(names) && show.NaturalKey(names[n-1]) < show.NaturalKey(names[n]) {
			n++
		}
		parts = append(parts, spec.FormatHostList(names[:n]))
		names = names[n:]
	}
	return strings.Join(parts, ",")
}
