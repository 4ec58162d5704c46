package control

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

func (c *controlRun) printStatus(found clusterStatus) error {
	if c.json != show.JSONNone {
		return show.WriteJSON(c.inv, c.json, "status", []statusRecord{statusRecordOf(found)})
	}
	out := bufio.NewWriter(c.inv.Stdout)
	fmt.Fprintln(out, headline(found))
	if found.leader == nil {
		printAsked(out, found.pings)
		return out.Flush()
	}
	printPeers(out, found.leader)
	printLeases(out, found.leader.GetLeases(), c.inv.Given("all"))
	fmt.Fprintf(out, "\nJobs: %d waiting, %d running, %d ending\n", found.leader.GetJobsWaiting(), found.leader.GetJobsRunning(), found.leader.GetJobsEnding())
	printProblems(out, found)
	return out.Flush()
}

// table writes columns; a failed write shows at the bufio.Writer's Flush.
func table(out io.Writer, header []string, rows [][]string) {
	columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns)
	for _, row := range append([][]string{header}, rows...) {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = format.Printable(cell)
		}
		fmt.Fprintln(columns, strings.Join(cells, "\t"))
	}
	_ = columns.Flush()
}

// printPeers shows the controllers as the leader sees them.
func printPeers(out io.Writer, s *pb.StatusResponse) {
	var rows [][]string
	for _, p := range s.GetPeers() {
		role, contact := "follower", contactText(p.GetLastContactMs())
		switch {
		case p.GetLeader():
			role, contact = "leader", "-"
		case !p.GetVoter():
			role = "joining"
		}
		state, lag := "up", fmt.Sprint(behind(s, p))
		if !p.GetReachable() {
			state, lag = "DOWN", "-"
		}
		rows = append(rows, []string{p.GetName(), role, state, lag, contact, orDash(p.GetVersion()), orDash(p.GetAddress())})
	}
	table(out, []string{"CONTROLLER", "ROLE", "STATE", "LAG", "LAST CONTACT", "VERSION", "ADDRESS"}, rows)
}

// printAsked shows each controller that was asked, by its own word.
func printAsked(out io.Writer, answers []pinged) {
	var rows [][]string
	for i := range answers {
		a := &answers[i]
		if !a.up() {
			rows = append(rows, []string{a.Target, "DOWN", "-", "-", "-", "-", "-", a.Error})
			continue
		}
		rows = append(rows, []string{a.Hostname, "up", orNone(a.Leader), fmt.Sprint(a.Term), fmt.Sprint(a.Applied), fmt.Sprint(a.Committed), contactText(a.LastContact), a.Version})
	}
	table(out, []string{"CONTROLLER", "STATE", "LEADER", "TERM", "APPLIED", "COMMITTED", "LAST CONTACT", "VERSION"}, rows)
}

func printLeases(out io.Writer, leases []*pb.NodeLease, all bool) {
	if len(leases) == 0 {
		fmt.Fprintln(out, "\nNo node has registered yet: start gnoded on one.")
		return
	}
	shown, hidden := worstLeases(leases, all)
	var rows [][]string
	for _, l := range shown {
		connected, left := "yes", contactText(l.GetLeftMs())
		if !l.GetConnected() {
			connected = "NO"
		}
		switch {
		case l.GetLeftMs() < 0:
			left = "over since " + contactText(-l.GetLeftMs())
		case l.GetLeftMs() == 0 && l.GetAgeMs() < 0:
			left = "-"
		}
		rows = append(rows, []string{l.GetNode(), connected, contactText(l.GetAgeMs()), left, fmt.Sprint(l.GetFrozenAllocs())})
	}
	table(out, []string{"NODE", "CONNECTED", "LEASE AGE", "LEFT", "FROZEN"}, rows)
	if hidden > 0 {
		worse := 0
		for _, l := range leases {
			if leaseTrouble(l) > 0 {
				worse++
			}
		}
		fmt.Fprintf(out, "and %d more nodes (%d of all %d need a look): --all shows them\n", hidden, worse, len(leases))
	}
}

// printProblems ends the screen with what an administrator should do: the leader's
// list, and the targets that did not answer who asked.
func printProblems(out io.Writer, found clusterStatus) {
	problems := found.leader.GetProblems()
	for i := range found.pings {
		if answer := &found.pings[i]; !answer.up() {
			problems = append(problems, fmt.Sprintf("%s does not answer from here: %s", answer.Target, answer.Error))
		}
	}
	if len(problems) == 0 {
		fmt.Fprintln(out, "\nProblems: none")
		return
	}
	fmt.Fprintln(out, "\nProblems:")
	for _, problem := range problems {
		fmt.Fprintf(out, "  * %s\n", format.Printable(problem))
	}
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
