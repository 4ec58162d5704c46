package reclaim

import (
	"bufio"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/local"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// maxWithinS is the latest deadline that the controllers take.
const maxWithinS = 24 * 3600

// run is one call of greclaim.
type run struct {
	inv     *option.Invocation
	server  server
	view    *show.View
	json    show.JSONShape
	request *pb.ReclaimNodesRequest
	nodes   []*pb.Node // with their reclaims, as they were heard of last
}

// reclaimNodes is greclaim.
func reclaimNodes(inv *option.Invocation) error {
	shape, err := show.JSONShapeOf(inv)
	if err != nil {
		return err
	}
	request, err := requestOf(inv)
	if err != nil {
		return err
	}
	to, err := connect(inv, request.Names)
	if err != nil {
		return err
	}
	defer to.Close()
	r := &run{inv: inv, server: to, view: show.NewView(inv.Getenv, console.Clock()), json: shape, request: request}
	return r.run()
}

func (r *run) run() error {
	answer, err := r.server.Reclaim(r.inv.Context, r.request)
	if err != nil {
		return option.Fail(1, "Reclaim error: %s", client.Describe(err))
	}
	answered := time.Now() // the deadline is counted from an earlier moment
	r.nodes = answer.GetNodes()
	show.SortNodes(r.nodes)
	if r.says() {
		if err := r.announce(); err != nil {
			return console.Output(err)
		}
	}
	if r.waits() {
		err = r.watch(answered.Add(r.longest()))
	}
	if r.json != show.JSONNone {
		if failed := r.printJSON(); failed != nil {
			return failed
		}
	}
	return err
}

// longest is the time until the last deadline, at most: each is counted from an earlier
// moment than this.
func (r *run) longest() time.Duration {
	longest := int64(0)
	for _, node := range r.nodes {
		longest = max(longest, node.GetReclaim().GetDeadlineMs()-node.GetReclaim().GetAtMs())
	}
	return time.Duration(min(longest, maxWithinS*1000)) * time.Millisecond
}

// says reports whether anything but errors is printed as text.
func (r *run) says() bool { return r.json == show.JSONNone && !r.inv.Given("quiet") }

// waits reports whether the guests are watched until they have left.
func (r *run) waits() bool {
	if r.request.DryRun || r.inv.Given("no-wait") {
		return false
	}
	return r.inv.Given("wait") || console.AtTerminal(r.inv.Stdout)
}

// requestOf is what the command line asks for.
func requestOf(inv *option.Invocation) (*pb.ReclaimNodesRequest, error) {
	named := nodesOf
	if inv.Given("local") {
		named = local.Names
	}
	names, err := named(inv)
	if err != nil {
		return nil, err
	}
	gpus, model, err := gpusOf(inv)
	if err != nil {
		return nil, err
	}
	request := &pb.ReclaimNodesRequest{
		Gpus: gpus, Model: model,
		RequestId: uuid.NewString(), Names: names, Kill: inv.Given("kill"), DryRun: inv.Given("dry-run"),
	}
	if inv.Given("wait") && (inv.Given("no-wait") || request.DryRun) {
		return nil, inv.Fail("--wait goes neither with --no-wait nor with --dry-run: leave one out")
	}
	if inv.Given("within") {
		if request.WithinS, err = spec.ParseDuration(inv.Text("within")); err != nil {
			return nil, inv.Fail("--within: %w", err)
		}
		if request.WithinS > maxWithinS {
			return nil, inv.Fail("--within=%s: at most 24h; without a deadline, gcontrol update NodeName=%s State=DRAIN lets the jobs there end", inv.Text("within"), names)
		}
	}
	return request, requestEnd(inv, request)
}

// nodesOf is the nodes that are named; "" = all that the caller may reclaim. GPUs may be
// on any of those.
func nodesOf(inv *option.Invocation) (string, error) {
	if inv.Given("gpus") && len(inv.Operands) == 0 {
		return "", nil
	}
	return console.NodesOrMine(inv)
}

// gpusOf is how many GPUs of which model are taken back; 0 = whole nodes.
func gpusOf(inv *option.Invocation) (count uint32, model string, err error) {
	if !inv.Given("gpus") {
		return 0, "", nil
	}
	gpus, err := spec.ParseGPUs(inv.Text("gpus"), pb.GpuScope_GPU_SCOPE_JOB)
	switch {
	case err != nil:
		return 0, "", inv.Fail("--gpus: %w", err)
	case len(gpus) == 0:
		return 0, "", inv.Fail("--gpus=%s takes nothing back: type a number such as 2 or a100:2, or leave it out for whole nodes", inv.Text("gpus"))
	}
	return gpus[0].Count, gpus[0].Model, nil
}

// requestEnd reads when the reclaim ends by itself.
func requestEnd(inv *option.Invocation, request *pb.ReclaimNodesRequest) (err error) {
	switch {
	case inv.Given("for") && inv.Given("until"):
		return inv.Fail("--for and --until both say when the nodes are lent again: give one")
	case inv.Given("for"):
		if request.ForS, err = spec.ParseDuration(inv.Text("for")); err != nil {
			return inv.Fail("--for: %w", err)
		}
	case inv.Given("until"):
		now := console.Clock()
		until, err := spec.ParseMoment(inv.Text("until"), now)
		if err != nil {
			return inv.Fail("--until: %w", err)
		}
		if !until.After(now) {
			return inv.Fail("--until=%s is past: type a time to come", inv.Text("until"))
		}
		request.UntilMs = until.UnixMilli()
	}
	return nil
}

// announce prints the promise, and the guests with what happens to them.
func (r *run) announce() error {
	out := bufio.NewWriter(r.inv.Stdout)
	var rows []*show.GuestRow
	for _, node := range r.nodes {
		fmt.Fprintln(out, r.promise(node))
		for _, guest := range node.GetReclaim().GetGuests() {
			rows = append(rows, &show.GuestRow{Node: node.Name, Reclaim: node.Reclaim, Guest: guest, View: r.view})
		}
	}
	if len(r.nodes) == 0 {
		fmt.Fprintln(out, "no node to reclaim")
	}
	if len(rows) > 0 {
		layout, err := show.GuestTable.ParseShort("%#N %#i %#u %#a %#C %#G %#m %#b %#d %f")
		if err != nil {
			return err
		}
		layout.Fit(rows)
		_, _ = out.Write(layout.Header(nil)) // a bufio.Writer keeps its error for Flush
		for _, row := range rows {
			_, _ = out.Write(layout.Row(nil, row))
		}
	}
	switch {
	case r.request.DryRun:
		fmt.Fprintln(out, "nothing was done: --dry-run")
	case !r.waits() && len(rows) > 0:
		if r.inv.Given("local") {
			fmt.Fprintf(out, "%s waits for them\n", r.typed("greclaim", "--wait"))
			break
		}
		list := format.Printable(spec.FormatHostList(names(r.nodes)))
		fmt.Fprintf(out, "gcontrol show node %s shows which guests have left; greclaim %s --wait waits for them\n", list, list)
	}
	return out.Flush()
}

// promise is a sentence about one node.
func (r *run) promise(node *pb.Node) string {
	reclaim, progress := node.GetReclaim(), show.ReclaimProgressOf(node.GetReclaim())
	text := fmt.Sprintf("%s: reclaimed by %s; ", node.GetName(), show.ReclaimedBy(reclaim))
	if r.request.DryRun {
		text = node.GetName() + ": "
	}
	deadline, promise := r.view.Stamp(reclaim.GetDeadlineMs(), "Unknown"), show.PromiseText(progress.PromiseMS)
	switch {
	case progress.Open == 0 && r.request.DryRun:
		text += "no guest holds anything there: " + show.Taken(node) + " would be yours at once"
	case progress.Open == 0:
		text += "no guest holds anything there: " + show.Taken(node) + " is yours"
	case r.request.DryRun:
		text += show.Taken(node) + " would be yours within " + promise
	default:
		text += fmt.Sprintf("%s is yours by %s (within %s)", show.Taken(node), deadline, promise)
	}
	if node.GetNotResponding() {
		text += "; the node does not respond: whether its guests have left is heard when it does"
	}
	release := "grelease " + node.GetName()
	if r.inv.Given("local") {
		release = r.typed("grelease", "")
	}
	until := "lent again with " + release
	if reclaim.GetUntilMs() != 0 {
		until = fmt.Sprintf("lent again at %s, or with %s", r.view.Stamp(reclaim.GetUntilMs(), "Unknown"), release)
	}
	return format.Printable(text + "; " + until)
}

func (r *run) printJSON() error {
	records := make([]*show.ReclaimJSON, 0, len(r.nodes))
	for _, node := range r.nodes {
		if record := show.ReclaimJSONOf(node.Name, node.Reclaim); record != nil {
			records = append(records, record)
		}
	}
	return console.Output(show.WriteJSON(r.inv, r.json, "reclaims", records))
}

func names(nodes []*pb.Node) []string {
	all := make([]string, 0, len(nodes))
	for _, node := range nodes {
		all = append(all, node.Name)
	}
	return all
}
