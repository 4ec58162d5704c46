// Package reclaim is greclaim: an owner takes nodes back. It asks, prints the promise and
// what becomes of each guest, and waits until the hardware is the owner's.
//
// The times that it reports are the controllers': when the command was in the log, and when
// each guest's node said that its hardware is free. How a reclaim looks is package show.
package reclaim

import (
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/local"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
)

// Command is the table of greclaim.
func Command() *option.Command {
	return &option.Command{
		Name: "reclaim", Standalone: true, Summary: "take back nodes that you own", Usage: "[options] nodes | --gpus=N | --mine | --local",
		Description: []string{
			"greclaim takes nodes back for the account that owns them ([[owner]] in cluster.toml). Coordinators of that account may do so, and operators and administrators on every node. Until the nodes are lent again (grelease), jobs of the owner's account and of those below it start there, and nobody else's.",
			"Jobs of others that run there are guests. A guest is parked: it is frozen, its GPU memory is copied to the host's memory, and its GPUs and CPUs are free for the owner. Its host memory stays with it. It continues where it stood once the node is lent again and its GPUs and CPUs are free. What cannot be parked, and what is still starting, ends and waits again; it resumes from its newest image if it has one. With --kill all guests end. A guest on several nodes is frozen on all of them.",
			"The deadline (--within) is a promise: by then all hardware is the owner's. A guest that has not left is killed by its node, whether or not a controller can be reached. greclaim prints each guest and the promise, and then, when it waits, when each guest left and when all hardware was free.",
			"With --gpus only so many GPUs are taken, on the nodes that are named or else on all nodes of the accounts that you coordinate: idle ones first, then those whose guests lose least. Guests keep the CPUs and the other GPUs of these nodes. Your jobs get the GPUs that were taken before others. What your jobs have already does not count, nor what was taken before: the same command again takes as many more.",
			"A node that is reclaimed already stays so: another greclaim can bring the deadline forward, add --kill, or change when it ends.",
			"With --local greclaim speaks to the gnoded of the machine on which it is typed, and to no controller: it works as fast with all of them away. Root may do so, and the coordinators of the account that owns the node, by the names that they have on that machine. The cluster takes the reclaim over when it is there, and until then nothing of other accounts starts on the node.",
		},
		Operands: []option.Variable{{Name: "nodes", Help: "the nodes, as in n1 or n[1-4]"}},
		Options: []option.Option{
			{Long: "mine", Help: "all nodes of the accounts that you coordinate"},
			{Long: "gpus", Argument: "[model:]number", Help: "take back only so many GPUs, and leave the rest of their nodes to guests"},
			local.Option("the node on which you type, without asking a controller"),
			{Long: "within", Argument: "time", Help: "by when all hardware is yours: 1s to 24h, with its unit; without it the notice that the owner's policy gives (glend), which is 60s unless it says otherwise"},
			{Long: "for", Argument: "time", Help: "lend the nodes again by itself after this time, as in 4h"},
			{Long: "until", Argument: "time", Help: "lend the nodes again by itself then, as in 18:00, tomorrow or 2030-01-20T16:00"},
			{Long: "kill", Help: "end the guests instead of parking them: their host memory is free, too"},
			{Long: "dry-run", Short: 'n', Help: "only show the guests, and what would happen to them"},
			{Long: "wait", Help: "wait until all hardware is yours, or the deadline is over; always so on a terminal"},
			{Long: "no-wait", Help: "do not wait"},
			{Long: "quiet", Short: 'q', Help: "print errors only"},
			show.JSONOption(),
			show.YAMLOption(),
		},
		Examples: []option.Example{
			{Text: "take back two nodes, and give them back in four hours", Command: "greclaim n[1-2] --for=4h"},
			{Text: "see what would happen to the guests of all my nodes", Command: "greclaim --mine --dry-run"},
			{Text: "in a script: continue when the hardware is free", Command: "greclaim n1 --within=10s --wait -q && gsubmit -w n1 train.sh"},
			{Text: "take back two GPUs, wherever they are", Command: "greclaim --gpus=2"},
			{Text: "guests' host memory is needed, too", Command: "greclaim n1 --kill"},
			{Text: "on the node itself, whether or not a controller can be reached", Command: "greclaim --local --within=10s"},
		},
		Variables: []option.Variable{local.Variable()},
		ExitStatus: []option.ExitStatus{
			{Status: "0", Help: "all hardware was free by the deadline; where greclaim does not wait, the nodes are reclaimed"},
			{Status: "1", Help: "refused, no controller answers, or the promise was not kept"},
			{Status: "130", Help: "interrupted while it waited; the nodes stay reclaimed"},
		},
		SeeAlso: []string{"grelease", "ginfo", "gqueue", "gcontrol"},
		Run:     reclaimNodes,
	}
}
