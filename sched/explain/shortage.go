package explain

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gleaner-hpc/gleaner/sched"
	"github.com/gleaner-hpc/gleaner/sched/place"
)

// shortSentence says what is short; where is "free" or "in partition P".
func shortSentence(short place.Shortage, where string) string {
	switch short.What {
	case place.Nothing:
		return "cannot run in any of its partitions: they are gone, or do not allow it"
	case place.Bounds:
		return fmt.Sprintf("its counts of nodes, tasks and GPUs contradict each other: it needs at least %s and may have at most %d", count(short.Need, "node"), short.Have)
	case place.Host:
		return fmt.Sprintf("needs node %s, which it cannot have %s", short.Name, where)
	case place.Feature:
		return featureSentence(short, where)
	case place.Leaves:
		return leavesSentence(short, where)
	case place.Rows:
		return fmt.Sprintf("needs %s that follow each other in the list of nodes; the longest row of those that are suitable %s has %d%s", count(short.Need, "node"), strings.Replace(where, "free", "and free", 1), short.Have, from(short.HaveOn))
	case place.Model:
		return fmt.Sprintf("needs %s with GPUs of model %s; there %s %s", count(short.Need, "node"), short.Name, are(short.Have), where)
	case place.Nodes:
		kind := "node"
		if short.Whole {
			kind = "idle node"
		}
		if short.Unshared {
			where += " that jobs of other users leave to it"
		}
		if short.Excluding {
			where += " that it does not exclude"
		}
		return fmt.Sprintf("needs %s; there %s %s", count(short.Need, kind), are(short.Have), where)
	}
	return amountSentence(short, where)
}

// featureSentence is about features of nodes: one, or what a constraint joins.
func featureSentence(short place.Shortage, where string) string {
	kind, with := "node", "with feature "+short.Name
	if strings.ContainsAny(short.Name, "&|!*") {
		with = "that meet the constraint " + short.Name
		if short.Need == 1 {
			with = "that meets the constraint " + short.Name
		}
	}
	if short.Among == place.SuitableNodes {
		with += " and has all else it asks for"
		if short.Need != 1 {
			with = strings.Replace(with, " and has ", " and have ", 1)
		}
	}
	return fmt.Sprintf("needs %s %s; there %s %s", count(short.Need, kind), with, are(short.Have), where)
}

// leavesSentence is about nodes that are near each other.
func leavesSentence(short place.Shortage, where string) string {
	need, suitable := count(short.Need, "node"), "suitable "+where
	if where == "free" {
		suitable = "suitable and free"
	}
	switch {
	case short.HaveOn == "":
		return fmt.Sprintf("needs %s on connected switches; none that is %s is attached to one", need, suitable)
	case short.Limit == 0:
		return fmt.Sprintf("needs %s on connected switches; switch %s has the most below it that are %s: %d", need, short.HaveOn, suitable, short.Have)
	case short.Limit == 1:
		return fmt.Sprintf("needs %s on one leaf switch; switch %s has the most that are %s: %d", need, short.HaveOn, suitable, short.Have)
	}
	return fmt.Sprintf("needs %s on at most %d leaf switches; those with the most that are %s, %s first, have %d together", need, short.Limit, suitable, short.HaveOn, short.Have)
}

func from(node string) string {
	if node == "" {
		return ""
	}
	return ", from " + node + " on"
}

// amountSentence is about CPUs, memory or GPUs.
func amountSentence(short place.Shortage, where string) string {
	need := amountNeeded(short)
	have := strconv.FormatUint(short.Have, 10)
	if short.What == place.Memory || short.What == place.Tmp {
		have = bytes(short.Have)
	}
	if !short.PerNode {
		return fmt.Sprintf("needs %s in all; the nodes it may have hold %s %s", need, have, where)
	}
	node := [...]string{
		place.AllNodes:      "node",
		place.SuitableNodes: "node that is otherwise suitable",
		place.NamedNodes:    "node that it names",
	}[short.Among]
	// What is free changes by the second; what there is, and where, does not.
	if where != "free" && short.HaveOn != "" {
		have += " (" + short.HaveOn + ")"
	}
	switch {
	case short.NeedNodes > 1 && where != "free" && short.HaveNodes == 0:
		return fmt.Sprintf("needs %s on each of %d nodes; the most any %s has %s is %s", need, short.NeedNodes, node, where, have)
	case short.NeedNodes > 1:
		return fmt.Sprintf("needs %s on each of %d nodes; %s %s", need, short.NeedNodes, haveThat(short.HaveNodes), where)
	case where == "free":
		return fmt.Sprintf("needs %s on one node; the most any %s has free is %s", need, node, have)
	}
	return fmt.Sprintf("needs %s on one node; the most any %s has %s is %s", need, node, where, have)
}

// amountNeeded is what is short, with its unit.
func amountNeeded(short place.Shortage) string {
	switch {
	case short.What == place.Memory && short.Whole:
		return fmt.Sprintf("all the memory (%s, since it names no amount)", bytes(short.Need))
	case short.What == place.Memory:
		return bytes(short.Need) + " of memory"
	case short.What == place.Tmp:
		return bytes(short.Need) + " of local disk (--tmp)"
	case short.What == place.CPUs:
		return count(short.Need, "CPU")
	case short.Name != "":
		return count(short.Need, "GPU") + " of model " + short.Name
	}
	return count(short.Need, "GPU")
}

// bytes rounds to whole mebibytes or, from 10 GiB on, gibibytes.
func bytes(n uint64) string {
	switch {
	case n >= 10<<30 || n >= 1<<30 && n%(1<<30) == 0:
		return fmt.Sprintf("%dG", n>>30)
	case n >= 1<<20 || n == 0:
		return fmt.Sprintf("%dM", n>>20)
	}
	return count(n, "byte")
}

func minutes(seconds uint64) string {
	if seconds >= uint64(sched.Unlimited) {
		return "unlimited time"
	}
	return count((seconds+59)/60, "minute")
}

// leavingSentence names the jobs that make room, a few of them.
func leavingSentence(ids []sched.JobID) string {
	const few = 10
	var out strings.Builder
	out.WriteString("waits for job")
	if len(ids) > 1 {
		out.WriteString("s")
	}
	for i, id := range ids[:min(len(ids), few)] {
		out.WriteString([...]string{" ", ","}[min(i, 1)] + strconv.FormatUint(uint64(id), 10))
	}
	if len(ids) > few {
		fmt.Fprintf(&out, " and %d more", len(ids)-few)
	}
	return out.String() + " to make room"
}

func count(n uint64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func are(n uint64) string {
	switch n {
	case 0:
		return "are none"
	case 1:
		return "is 1"
	}
	return fmt.Sprintf("are %d", n)
}

func haveThat(nodes uint32) string {
	switch nodes {
	case 0:
		return "no node has that"
	case 1:
		return "1 node has that"
	}
	return fmt.Sprintf("%d nodes have that", nodes)
}
