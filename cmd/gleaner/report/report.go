// Package report is greport, Slurm's sreport: what accounts and users have used between
// two times, by kind of resource, and what was lent and borrowed.
package report

import (
	"bufio"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/past"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// kind is one report.
type kind struct {
	group, name string
	title       string
	columns     []column
	// of is what a sum belongs to; false = it is not in this report.
	of   func(key) (key, bool)
	less func(a, b key) int
	// totals: each account has a line of its own, before those of its users.
	totals bool
	top    bool // only the largest, largest first
	// utilization: what the nodes had and did, see utilization.go.
	utilization bool
}

type column struct {
	name  string
	width int
	value func(key) string
}

var (
	clusterColumn = column{"Cluster", 9, func(k key) string { return k.cluster }}
	accountColumn = column{"Account", 15, func(k key) string { return k.account }}
	loginColumn   = column{"Login", 9, func(k key) string { return k.user }}
	properColumn  = column{"Proper Name", 15, func(k key) string { return "" }}
	ownerColumn   = column{"Owner", 15, func(k key) string { return k.owner }}
	tresColumn    = column{"TRES Name", 14, func(k key) string { return k.tres }}
)

func own(k key) (key, bool) { return k, k.owner == "" }

var kinds = []kind{
	{
		group: "cluster", name: "Utilization", title: "Cluster Utilization", utilization: true,
		columns: []column{clusterColumn},
	},
	{
		group: "cluster", name: "AccountUtilizationByUser", title: "Cluster/Account/User Utilization", of: own, totals: true,
		columns: []column{clusterColumn, accountColumn, loginColumn, properColumn},
		less:    func(a, b key) int { return cmp.Or(cmp.Compare(a.account, b.account), cmp.Compare(a.user, b.user)) },
	},
	{
		group: "cluster", name: "UserUtilizationByAccount", title: "Cluster/User/Account Utilization", of: own,
		columns: []column{clusterColumn, loginColumn, properColumn, accountColumn},
		less:    func(a, b key) int { return cmp.Or(cmp.Compare(a.user, b.user), cmp.Compare(a.account, b.account)) },
	},
	{
		group: "user", name: "TopUsage", title: "Top %d Users", of: own, top: true,
		columns: []column{clusterColumn, loginColumn, properColumn, accountColumn},
	},
	{
		group: "cluster", name: "Lending", title: "Lent/Borrowed",
		of:      func(k key) (key, bool) { k.user = ""; return k, k.owner != "" },
		columns: []column{clusterColumn, ownerColumn, accountColumn},
		less:    func(a, b key) int { return cmp.Or(cmp.Compare(a.owner, b.owner), cmp.Compare(a.account, b.account)) },
	},
}

// request is what was asked for.
type request struct {
	kind     *kind
	since    time.Time
	until    time.Time
	accounts []string
	users    []string
	tres     []string
	top      int
	unit     *unit
	now      time.Time
	cluster  string // its name, once it is known
}

// counted is the end of what can be counted: nothing is known of the time to come.
func (r *request) counted() time.Time {
	if r.until.After(r.now) {
		return r.now
	}
	return r.until
}

func runReport(inv *option.Invocation) error {
	shape, err := show.JSONShapeOf(inv)
	if err != nil {
		return err
	}
	r, err := parse(inv, console.Clock())
	if err != nil {
		return err
	}
	controllers, err := past.Connect(inv)
	if err != nil {
		return err
	}
	defer controllers.Close()
	if _, err := controllers.Cluster(inv.Context, inv.Values); err != nil {
		return err
	}
	all := sums{}
	asked := &pb.ListRunsRequest{
		Filter:  &pb.JobFilter{Accounts: r.accounts, Users: r.users},
		SinceMs: r.since.UnixMilli(), UntilMs: r.counted().UnixMilli(), Duplicates: true, Live: true, Fields: runFields, Sums: true,
	}
	view := show.NewView(inv.Getenv, r.now)
	err = past.Sums(inv, controllers, view, asked, func(run *pb.PastRun) error {
		all.add(run, view.Cluster, asked.SinceMs, asked.UntilMs)
		return nil
	}, func(sum *pb.RunSum) { all.addSum(sum, view.Cluster) })
	if err != nil {
		return past.Failed(inv, err)
	}
	if r.kind.utilization {
		parts, err := r.utilization(inv, controllers, all)
		if err != nil {
			return err
		}
		r.cluster = view.Cluster
		return r.printUtilization(inv, shape, parts)
	}
	rows := r.rows(all)
	if shape != show.JSONNone {
		return r.writeJSON(inv, shape, rows)
	}
	var nodes []*pb.Node
	if r.unit.percent {
		if nodes, err = controllers.Nodes(inv.Context, &pb.ListNodesRequest{}); err != nil {
			return client.LoadError(inv, "slurm_load_nodes", err)
		}
	}
	out := bufio.NewWriter(inv.Stdout)
	r.print(out, inv, nodes, rows)
	return console.Output(out.Flush())
}

// line is one line of a report.
type line struct {
	key    key
	amount uint64
}

// rows are the lines in their order.
func (r *request) rows(all sums) []line {
	chosen := all.by(func(k key) (key, bool) {
		if !slices.Contains(r.tres, "ALL") && !slices.Contains(r.tres, k.tres) {
			return k, false
		}
		return r.kind.of(k)
	})
	if r.kind.totals {
		for k, amount := range chosen.by(func(k key) (key, bool) { k.user = ""; return k, true }) {
			chosen[k] = amount
		}
	}
	less := r.kind.less
	if r.kind.top {
		less = func(a, b key) int {
			return cmp.Or(compareTRES(a.tres, b.tres), cmp.Compare(chosen[b], chosen[a]), cmp.Compare(a.user, b.user), cmp.Compare(a.account, b.account))
		}
	}
	var lines []line
	seen := map[string]int{}
	for _, k := range chosen.sorted(less) {
		if seen[k.tres]++; r.kind.top && seen[k.tres] > r.top {
			continue
		}
		lines = append(lines, line{k, chosen[k]})
	}
	return lines
}

// parse reads the words: what is reported, and key=value.
func parse(inv *option.Invocation, now time.Time) (*request, error) {
	midnight := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	r := &request{since: midnight.AddDate(0, 0, -1), until: midnight, tres: []string{"cpu"}, top: 10, now: now}
	if inv.Given("tres") {
		r.tres = inv.List("tres")
	}
	for i, word := range r.tres {
		switch lower := strings.ToLower(word); {
		case lower == "all":
			r.tres[i] = "ALL"
		case slices.Contains([]string{"cpu", "mem", "node", "gres/gpu"}, lower):
			r.tres[i] = lower
		case !strings.HasPrefix(lower, "gres/gpu:"):
			return nil, inv.Fail("TRES '%.64s' isn't valid: name some of cpu, mem, node, gres/gpu, gres/gpu:MODEL, or ALL", format.Printable(word))
		}
	}
	if err := r.setUnit(inv); err != nil {
		return nil, err
	}
	var words []string
	for _, word := range inv.Operands {
		name, value, isSetting := strings.Cut(word, "=")
		if !isSetting {
			words = append(words, word)
		} else if err := r.set(inv, strings.ToLower(name), value, now); err != nil {
			return nil, err
		}
	}
	if !r.until.After(r.since) {
		return nil, inv.Fail("start (%s) is not before end (%s)", r.since.Format(time.DateTime), r.until.Format(time.DateTime))
	}
	return r, r.setKind(inv, words)
}

func (r *request) set(inv *option.Invocation, name, value string, now time.Time) (err error) {
	switch {
	case name != "" && strings.HasPrefix("start", name):
		r.since, err = spec.ParseMoment(value, now)
	case name != "" && strings.HasPrefix("end", name):
		r.until, err = spec.ParseMoment(value, now)
	case strings.HasPrefix(name, "account"):
		r.accounts = strings.Split(value, ",")
	case strings.HasPrefix(name, "user"):
		r.users = strings.Split(value, ",")
	case name == "topcount":
		if r.top, err = strconv.Atoi(value); err != nil || r.top < 1 {
			return inv.Fail("TopCount=%s must be a number from 1", value)
		}
	default:
		return inv.Fail("Unknown condition: %s=%s; there are start, end, accounts, users and topcount", name, value)
	}
	if err != nil {
		return inv.Fail("%w", err)
	}
	return nil
}

func (r *request) setKind(inv *option.Invocation, words []string) error {
	var names []string
	for i := range kinds {
		k := &kinds[i]
		names = append(names, k.group+" "+k.name)
		if len(words) == 2 && starts(k.group, words[0]) && starts(k.name, words[1]) {
			r.kind = k
			return nil
		}
	}
	return inv.Fail("Not valid report %s\nValid reports are: %s", format.Printable(strings.Join(words, " ")), strings.Join(names, ", "))
}

// starts reports whether a word is the beginning of a name, in any case.
func starts(name, word string) bool {
	return word != "" && len(word) <= len(name) && strings.EqualFold(name[:len(word)], word)
}

func (r *request) columns() []column {
	columns := slices.Clone(r.kind.columns)
	if len(r.tres) != 1 || r.tres[0] != "cpu" {
		columns = append(columns, tresColumn)
	}
	return columns
}

// print needs the nodes for percentages, which are of what all of them had.
func (r *request) print(out *bufio.Writer, inv *option.Invocation, nodes []*pb.Node, rows []line) {
	columns := r.columns()
	put := r.putter(out, inv, columns)
	if !inv.Given("noheader") {
		r.head(out, inv, columns, []string{"Used"}, put)
	}
	for _, row := range rows {
		put(append(r.values(columns, row.key), r.amount(row.amount, r.reported(nodes, row.key.tres))))
	}
}

// putter writes lines: the values of the columns, and amounts.
func (r *request) putter(out *bufio.Writer, inv *option.Invocation, columns []column) func([]string) {
	parsable, ended := inv.Given("parsable") || inv.Given("parsable2"), inv.Given("parsable")
	return func(values []string) {
		for i, value := range values {
			width := r.unit.width
			if i < len(columns) {
				width = columns[i].width
			}
			value = format.Printable(value)
			switch {
			case parsable && (ended || i < len(values)-1):
				value += "|"
			case !parsable:
				if runes := []rune(value); len(runes) > width {
					value = string(runes[:width-1]) + "+"
				}
				value = fmt.Sprintf("%*s ", width, value)
			}
			_, _ = out.WriteString(value) // a bufio.Writer keeps its error for Flush
		}
		_ = out.WriteByte('\n')
	}
}

func (r *request) values(columns []column, k key) []string {
	values := make([]string, len(columns))
	for i := range columns {
		values[i] = columns[i].value(k)
	}
	return values
}

const rule = "--------------------------------------------------------------------------------"

func (r *request) head(out *bufio.Writer, inv *option.Invocation, columns []column, amounts []string, put func([]string)) {
	title, what := r.kind.title, "TRES"
	if r.kind.top {
		title = fmt.Sprintf(title, r.top)
	}
	if len(columns) == len(r.kind.columns) {
		what = "CPU"
	}
	last := r.until.Add(-time.Second)
	fmt.Fprintf(out, "%s\n%s %s - %s (%d secs)\nUsage reported in %s %s\n%s\n", rule, title, r.since.Format("2006-01-02T15:04:05"), last.Format("2006-01-02T15:04:05"),
		int64(r.until.Sub(r.since)/time.Second), what, r.unit.name, rule)
	names, rules := []string{}, []string{}
	for _, c := range columns {
		names, rules = append(names, c.name), append(rules, strings.Repeat("-", c.width))
	}
	for _, name := range amounts {
		names, rules = append(names, name), append(rules, strings.Repeat("-", r.unit.width))
	}
	put(names)
	if !inv.Given("parsable") && !inv.Given("parsable2") {
		put(rules)
	}
}

// jsonLine is a line as JSON.
type jsonLine struct {
	Account string `json:"account"`
	User    string `json:"user,omitempty"`
	Owner   string `json:"owner,omitempty"`
	TRES    string `json:"tres"`
	Seconds uint64 `json:"seconds"`
}

func (r *request) writeJSON(inv *option.Invocation, shape show.JSONShape, rows []line) error {
	lines := make([]jsonLine, len(rows))
	for i, row := range rows {
		lines[i] = jsonLine{Account: row.key.account, User: row.key.user, Owner: row.key.owner, TRES: row.key.tres, Seconds: row.amount / 1000}
	}
	return show.WriteJSON(inv, shape, "usage", lines)
}
