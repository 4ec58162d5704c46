package control

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// scriptFailed begins each complaint about a script that cannot be had.
const scriptFailed = "job script retrieval failed"

// controlWrite is "write batch_script 12 [FILE]" (scontrol(1)): the script of a job, as it
// was submitted, goes into FILE, or to standard output for "-".
func controlWrite(c *controlRun, words []string) error {
	if len(words) == 0 {
		return c.tooFew("write")
	}
	switch entity := strings.ToLower(words[0]); {
	case entity == "config":
		return &option.LaterError{Name: "write config", Remedy: "the policy is what you keep in cluster.toml; gcontrol show config prints what is in force"}
	case entity == "" || !strings.HasPrefix("batch_script", entity):
		return c.noEntity(words[0], "write")
	case len(words) < 2:
		return c.tooFew("write")
	case len(words) > 3:
		return c.tooMany("write")
	}
	targets, err := spec.ParseJobTargets(words[1])
	if err != nil {
		return c.inv.Fail("%w", err)
	}
	if len(targets) != 1 {
		return c.inv.Fail("Invalid job id: %s: name one job", format.Printable(words[1]))
	}
	script, err := c.script(targets[0].Job)
	if err != nil {
		return err
	}
	// Nobody typed the name without FILE: whoever has the directory may have put a link there.
	name, links := "slurm-"+targets[0].String()+".sh", unix.O_NOFOLLOW
	if len(words) == 3 {
		name, links = words[2], 0
	}
	if name == "-" {
		_, err := c.inv.Stdout.Write(script)
		return err
	}
	if err := writeScript(name, script, links); err != nil {
		return c.inv.Fail("the script is not written: %w", err)
	}
	_, err = fmt.Fprintf(c.inv.Stdout, "batch script for job %s written to %s\n", targets[0], format.Printable(name))
	return err
}

func writeScript(name string, data []byte, flags int) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|flags, 0o666)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Close())
}

// script is what a job was submitted with.
func (c *controlRun) script(job uint32) ([]byte, error) {
	found, err := c.one(job, true)
	switch {
	case err != nil:
		return nil, client.LoadError(c.inv, scriptFailed, err)
	case found == nil:
		fmt.Fprintf(c.inv.Stderr, "%s: Invalid job id specified\n", scriptFailed)
		return nil, option.Exit(1)
	case len(found.GetSpec().GetScript()) == 0:
		fmt.Fprintf(c.inv.Stderr, "%s: Access/permission denied\n", scriptFailed)
		return nil, c.inv.Fail("only the owner of job %d, coordinators of its account, operators and administrators may read its script", job)
	}
	return found.Spec.Script, nil
}
