package acct

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// narrow is what else a job must have had to be wanted: conditions that sacct(1) has, and
// that are looked at here.
type narrow struct {
	nodes, cpus     bounds
	limitS          bounds
	reasons, wckeys []string
}

// bounds are a least and a most; nil = any.
type bounds = *[2]uint32

func within(s bounds, value uint32) bool { return s == nil || s[0] <= value && value <= s[1] }

func readNarrow(inv *option.Invocation) (n narrow, err error) {
	n.reasons, n.wckeys = inv.List("reason"), inv.List("wckeys")
	if n.nodes, err = readBounds(inv, "nnodes"); err != nil {
		return n, err
	}
	if n.cpus, err = readBounds(inv, "ncpus"); err != nil {
		return n, err
	}
	if !inv.Given("timelimit-min") { // timelimit-max alone says nothing, as in sacct
		return n, nil
	}
	least, err := spec.ParseTime(inv.Text("timelimit-min"))
	if err != nil {
		return n, inv.Fail("Invalid --timelimit-min specification: %w", err)
	}
	most := least
	if inv.Given("timelimit-max") {
		if most, err = spec.ParseTime(inv.Text("timelimit-max")); err != nil {
			return n, inv.Fail("Invalid --timelimit-max specification: %w", err)
		}
	}
	n.limitS = &[2]uint32{least, most}
	return n, nil
}

// readBounds reads "4" and "2-8".
func readBounds(inv *option.Invocation, long string) (bounds, error) {
	if !inv.Given(long) {
		return nil, nil
	}
	first, last, several := strings.Cut(inv.Text(long), "-")
	if !several {
		last = first
	}
	least, err := strconv.ParseUint(first, 10, 32)
	most, err2 := strconv.ParseUint(last, 10, 32)
	if err = cmp.Or(err, err2); err != nil || most < least {
		return nil, inv.Fail("Invalid --%s specification: %q: type a number, or the least and the most as in 2-8", long, inv.Text(long))
	}
	return &[2]uint32{uint32(least), uint32(most)}, nil
}

// wants reports whether a job fulfils all of them. What a job had is known once it has
// started.
func (n narrow) wants(job *pb.Job) bool {
	nodes, cpus := job.GetNodes(), job.GetCpus()
	if job.GetStartMs() == 0 {
		nodes, cpus = 0, 0
	}
	return within(n.nodes, nodes) && within(n.cpus, cpus) && within(n.limitS, job.GetTimeLimitS()) &&
		(len(n.reasons) == 0 || slices.ContainsFunc(n.reasons, func(word string) bool { return strings.EqualFold(word, job.GetReason()) })) &&
		(len(n.wckeys) == 0 || slices.Contains(n.wckeys, job.GetSpec().GetWckey()))
}
