package control

import (
	"bufio"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/clusterfile"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// controlApply shows how a policy differs from the one in force, asks, and
// puts it in force.
func controlApply(c *controlRun, words []string) error {
	path := c.inv.Text("file")
	if path == "" && len(words) == 1 {
		path, words = words[0], nil
	}
	switch {
	case path == "":
		return c.inv.Fail("no policy given: type gcontrol apply -f cluster.toml")
	case len(words) > 0:
		return c.tooMany("apply")
	case c.json != show.JSONNone:
		return c.inv.Fail("apply has no JSON; leave --json out")
	}
	policy, err := c.readPolicy(path)
	if failure := (*option.Failure)(nil); errors.As(err, &failure) {
		return err
	}
	if err != nil {
		return c.inv.Fail("%w", err)
	}
	planned, err := c.applyPolicy(policy, true)
	if err != nil {
		return client.LoadError(c.inv, "slurm_update error", err)
	}
	if err := c.printChanges(planned); err != nil {
		return err
	}
	if len(planned) > 0 && c.inv.Given("replay") {
		if err := c.replayPolicy(policy, planned); err != nil {
			return err
		}
	}
	if len(planned) == 0 || c.inv.Given("dry-run") {
		return nil
	}
	word := "changes"
	if len(planned) == 1 {
		word = "change"
	}
	if err := c.confirm(fmt.Sprintf("Put %d %s in force?", len(planned), word), path == "-", "put it in force"); err != nil {
		return err
	}
	done, err := c.applyPolicy(policy, false)
	if err != nil {
		return client.LoadError(c.inv, "slurm_update error", err)
	}
	if !slices.EqualFunc(planned, done, func(a, b *pb.PolicyChange) bool { return proto.Equal(a, b) }) {
		fmt.Fprintln(c.inv.Stdout, "The policy had been changed in the meantime; what this has changed:")
		if err := c.printChanges(done); err != nil {
			return err
		}
	}
	if !c.inv.Given("quiet") {
		_, err = fmt.Fprintln(c.inv.Stdout, "in force")
	}
	return err
}

// readPolicy reads a file, or standard input for "-".
func (c *controlRun) readPolicy(path string) (*pb.Policy, error) {
	var text []byte
	var err error
	if path == "-" {
		text, err = console.ReadStream(c.inv.Context, c.inv.Stdin, clusterfile.MaxBytes)
	} else {
		text, err = console.ReadFile(c.inv.Context, path, clusterfile.MaxBytes)
	}
	if err != nil {
		return nil, err
	}
	if len(text) > clusterfile.MaxBytes {
		return nil, fmt.Errorf("%s is larger than %d bytes, which no policy is", path, clusterfile.MaxBytes)
	}
	policy, err := clusterfile.ParseWith(text, console.ReadBeside(c.inv.Context, path, clusterfile.MaxBytes))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return policy, nil
}

func (c *controlRun) applyPolicy(policy *pb.Policy, dryRun bool) ([]*pb.PolicyChange, error) {
	answer, err := client.Call(c.inv.Context, c.client, c.client.ApplyPolicy,
		&pb.ApplyPolicyRequest{RequestId: uuid.NewString(), Policy: policy, DryRun: dryRun})
	return answer.GetChanges(), err
}

// printChanges shows each difference on a line: path, before, after.
func (c *controlRun) printChanges(changes []*pb.PolicyChange) error {
	if len(changes) == 0 {
		_, err := fmt.Fprintln(c.inv.Stdout, "nothing to change: this policy is in force")
		return err
	}
	out := bufio.NewWriter(c.inv.Stdout)
	paths, before := 0, 0
	for _, change := range changes {
		paths = max(paths, utf8.RuneCountInString(change.Path))
		before = max(before, utf8.RuneCountInString(orAbsent(change.Before)))
	}
	for _, change := range changes {
		fmt.Fprintf(out, "%-*s  %-*s → %s\n", paths, format.Printable(change.Path), min(before, 60), orAbsent(change.Before), orAbsent(change.After))
	}
	return out.Flush()
}

// orAbsent is a value of the policy, or a dash for none.
func orAbsent(value string) string {
	if value == "" {
		return "-"
	}
	return format.Printable(value)
}

// confirm asks on a terminal. Where there is none, or standard input is in use,
// only --yes is an answer.
func (c *controlRun) confirm(question string, taken bool, deed string) error {
	if c.inv.Given("yes") {
		return nil
	}
	instead := "add --yes to " + deed + " without being asked"
	if taken {
		return c.inv.Fail("nothing was changed: %s", instead)
	}
	if yes, err := console.Confirm(c.inv, c.inv.Stderr, question+" [y/N] ", instead); yes || err != nil {
		return err
	}
	return option.Fail(1, "nothing was changed")
}
