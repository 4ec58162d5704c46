package simulate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/replay"
	"github.com/gleaner-hpc/gleaner/proto/snapshotfile"
	"github.com/gleaner-hpc/gleaner/proto/spec"
	"github.com/gleaner-hpc/gleaner/sched/sim"
	"github.com/gleaner-hpc/gleaner/sched/sim/trace"
)

// question is what one call asks.
type question struct {
	trace       string           // its path
	recorded    *replay.Recorded // nil = it is not a snapshot
	roundLimits bool
	fromS       int64 // which part of the trace
	untilS      int64
	cluster     sim.Cluster
	moves       []trace.Move
	asked       []scenario
	lends       bool // ways to lend are compared
	cut         int  // how many jobs are left out
}

// scenario is one replay.
type scenario struct {
	policy  sim.Policy
	cluster sim.Cluster
}

// read reads what was asked, but for the jobs of a trace.
func read(inv *option.Invocation) (*question, error) {
	if len(inv.Operands) > 0 {
		return nil, inv.Fail("gleaner simulate takes no arguments, only options: what is %q?", inv.Operands[0])
	}
	if !inv.Given("trace") {
		return nil, inv.Fail("say which trace is replayed: --trace FILE")
	}
	asked := &question{trace: inv.Text("trace"), roundLimits: inv.Given("round-limits")}
	for _, step := range []func(*option.Invocation) error{asked.readPart, asked.readSnapshot, asked.readCluster, asked.readPolicies, asked.readLending} {
		if err := step(inv); err != nil {
			return nil, err
		}
	}
	return asked, nil
}

// readPart reads which part of the trace is meant.
func (asked *question) readPart(inv *option.Invocation) error {
	asked.untilS = math.MaxInt64
	for name, field := range map[string]*int64{"from": &asked.fromS, "until": &asked.untilS} {
		if !inv.Given(name) {
			continue
		}
		seconds, err := spec.ParseWall(inv.Text(name))
		if err != nil {
			return inv.Fail("--%s: %w", name, err)
		}
		*field = int64(seconds)
	}
	if asked.fromS >= asked.untilS {
		return inv.Fail("--from is not before --until")
	}
	return nil
}

// readSnapshot reads the trace if it is a snapshot of a cluster.
func (asked *question) readSnapshot(inv *option.Invocation) error {
	is, err := isSnapshot(asked.trace)
	if err != nil || !is {
		return nil // reading the trace says why
	}
	recording, err := readTrace(asked.trace, snapshotfile.ReadRecording)
	if err == nil {
		asked.recorded, err = replay.FromRecording(recording)
	}
	switch {
	case err != nil:
		return inv.Fail("%s: %w", asked.trace, err)
	case inv.Given("processors") || inv.Given("cluster"):
		return inv.Fail("a snapshot has nodes of its own; leave --processors and --cluster out")
	case asked.roundLimits:
		return inv.Fail("the jobs of a snapshot have time limits; leave --round-limits out")
	}
	asked.cluster, asked.cut = asked.recorded.Cluster, asked.recorded.LeftOut
	return nil
}

func (asked *question) readCluster(inv *option.Invocation) error {
	if asked.recorded != nil {
		return nil
	}
	if inv.Given("processors") == inv.Given("cluster") {
		return inv.Fail("say what the jobs run on: either --processors N or --cluster FILE")
	}
	if inv.Given("processors") {
		number, err := strconv.ParseUint(inv.Text("processors"), 10, 32)
		if err != nil {
			return inv.Fail("--processors: %q is no number of processors", inv.Text("processors"))
		}
		if asked.cluster, err = sim.Pool(uint32(number)); err != nil {
			return inv.Fail("--processors: %w; describe a larger cluster by its nodes, with --cluster", err)
		}
		return nil
	}
	var err error
	if asked.cluster, err = readCluster(inv.Context, inv.Text("cluster")); err != nil {
		return inv.Fail("%s: %w", inv.Text("cluster"), err)
	}
	return nil
}

func (asked *question) readPolicies(inv *option.Invocation) error {
	words := []string{cmp.Or(inv.Text("policy"), "easy")}
	if asked.recorded != nil && !inv.Given("policy") {
		words[0] = ""
	}
	if inv.Given("compare") {
		words = append(words, inv.Text("compare"))
	}
	for _, word := range words {
		of, err := asked.scenario(inv.Context, word)
		if err != nil {
			return inv.Fail("%w", err)
		}
		asked.asked = append(asked.asked, of)
	}
	return nil
}

// scenario is a policy by its name or its file; "" is that of the snapshot.
func (asked *question) scenario(ctx context.Context, word string) (scenario, error) {
	if word == "" {
		return scenario{replay.Policy("in force", asked.recorded.Policy), asked.cluster}, nil
	}
	policy, file, err := readPolicy(ctx, word)
	if err != nil || file == nil || asked.recorded == nil {
		return scenario{policy, asked.cluster}, err
	}
	cluster, err := asked.recorded.Under(file)
	if err != nil {
		return scenario{}, fmt.Errorf("%s: %w", word, err)
	}
	asked.recorded.Keep(cluster)
	asked.cut = asked.recorded.LeftOut
	return scenario{policy, cluster}, nil
}

// readLending makes a policy of each way to lend.
func (asked *question) readLending(inv *option.Invocation) error {
	for _, name := range []string{"lending", "lending-times", "departures"} {
		if inv.Given(name) && len(asked.cluster.Owners) == 0 {
			return inv.Fail("--%s is about nodes with owners; write owner = \"ACCOUNT\" into a [[node]] of the file of --cluster", name)
		}
	}
	asked.lends = inv.Given("lending") || inv.Given("departures") || len(asked.cluster.Owners) > 0 && asked.recorded == nil
	if !asked.lends {
		return nil
	}
	if inv.Given("compare") {
		return inv.Fail("--compare is not for nodes with owners; compare ways to lend with --lending=isolated,kill,park")
	}
	lending, err := replay.ParseLending(inv.Text("lending"), inv.Text("lending-times"))
	if err != nil {
		return inv.Fail("%w", err)
	}
	of := asked.asked[0]
	asked.asked = nil
	for _, way := range lending {
		of.policy.Name, of.policy.Lending = way.Name, way.Lending
		asked.asked = append(asked.asked, of)
	}
	if path := inv.Text("departures"); path != "" {
		if asked.moves, err = readTrace(path, trace.ReadMoves); err != nil {
			return inv.Fail("--departures: %s: %w", path, err)
		}
	}
	return nil
}
