// Package lend is glend: it shows and sets on what terms an owner lends nodes. How terms
// look is package show; what they mean is decided by the controllers.
package lend

import (
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
)

// Command is the table of glend.
func Command() *option.Command {
	return &option.Command{
		Name: "lend", Standalone: true, Summary: "show and set on what terms you lend your nodes", Usage: "[options] [nodes | --mine | report | habit [nodes | --mine]]",
		Description: []string{
			"glend shows the terms on which nodes are lent: when, to whom, how much of them, and with what notice they are taken back. Without nodes it shows those of the accounts that you coordinate, or all to operators and administrators who coordinate none. The columns LENT and UNTIL say whether a node is lent now, and until when.",
			"With an option below \"Terms\" it sets that for the nodes and leaves the rest as it is. Those who may reclaim a node (greclaim) may. Terms count for guests that start or come here from now on; what runs already stays until it ends or the node is reclaimed. --guest-network, --guest-io and --guest-power count at once, for those that run too.",
			"When the hours end in which a node is lent, it is reclaimed as by greclaim: guests get the notice before that, so that at that minute the hardware is the owner's. When the hours begin, it is lent again. grelease lends it until the next hours end; greclaim takes it back in its hours.",
			"glend report shows what came of it: promises that reclaims made and that were kept, or missed with their cause; what guests had on your nodes, by account and model of GPU, and what they were billed for it; and what jobs of your account had on other owners' nodes. A run counts on the day (UTC) on which it ends or is parked. 400 days are kept, and the sum of those before.",
			"glend habit shows what was learned of how owners take their nodes back: how often in a week, in which hours (UTC, percent of the weeks, newer ones counting more), and how many guests were killed because they were not parked in time. A guest is not placed where by that it would probably have to leave before it could do more than leaving costs it.",
			"A job that terms keep waiting is told which node's they are, and what would help (gcontrol show job). Terms belong to the owner of a node: when cluster.toml gives it to another account, they are forgotten.",
		},
		Operands: []option.Variable{{Name: "nodes", Help: "the nodes, as in n1 or n[1-4]"}, {Name: "report", Help: "promises, and what was lent and borrowed"}, {Name: "habit", Help: "when the nodes are taken back"}},
		Options: []option.Option{
			{Long: "mine", Help: "all nodes of the accounts that you coordinate"},
			{Long: "hours", Argument: "hours", Default: "always", Help: "when the nodes are lent, as in \"Mon-Fri 18:00-08:00; Sat-Sun\", always or never; hours that end no later than they begin end on the next day"},
			{Long: "time-zone", Argument: "name", Default: "this machine's", Help: "the time zone of --hours, as in Europe/Berlin"},
			{Long: "triggers", Argument: "gpu,login|none", Help: "what takes a node back on the node itself: a process that is not Gleaner's has a GPU open; one of your account's coordinators types at a terminal there"},
			{Long: "quiet", Argument: "time", Default: "15m", Help: "how long no trigger may be there before the node is lent again: 1s to 7d"},
			{Long: "notice", Argument: "time", Default: "60s", Help: "how long guests have to leave when no --within is given, and before the hours end: 1s to 24h"},
			{Long: "gpus", Argument: "percent", Default: "100%", Help: "how many of a node's GPUs guests may have at once, rounded down; guests that are parked count"},
			{Long: "accounts", Argument: "list", Default: "all", Help: "whose jobs are admitted, with the accounts below these; your own always are"},
			{Long: "images", Argument: "file|all", Default: "all", Help: "which container images guests may have: a file with [images] as in cluster.toml (allow, deny, barred, [[images.signed]]); the site's own rules count too"},
			{Long: "guest-memory", Argument: "size", Default: "unlimited", Help: "how much memory of a node guests may have, all together"},
			{Long: "guest-tmp", Argument: "size", Default: "unlimited", Help: "how much of a node's disk guests may have, all together"},
			{Long: "guest-network", Argument: "size", Default: "unlimited", Help: "how much guests may send over the network in a second, and how much receive, all together: 1K to 1024T"},
			{Long: "network", Argument: "rule", Default: "private-only", Help: "the network of guests: private-only, their own; private, also the node's for those that ask for it (--network=host); host, the node's unless they ask for their own"},
			{Long: "network-allow", Argument: "list", Default: "all", Help: "where guests with a network of their own may connect to, as far as their partition allows it too: addresses and ranges, with ports or without, as in 10.0.0.0/8,192.0.2.7:443; all or none"},
			{Long: "nested", Argument: "yes|no", Default: "no", Help: "whether guests may make containers of their own (bubblewrap, Apptainer), as far as their partition allows it too (nested_containers in cluster.toml)"},
			{Long: "guest-io", Argument: "size", Default: "unlimited", Help: "how much guests may read from each of a node's disks in a second, and how much write, all together: 64K to 1024T; each guest has an even share"},
			{Long: "guest-power", Argument: "watts", Default: "unlimited", Help: "what a GPU may draw while a guest has it, as in 200W; yours draw what they did"},
			{Long: "parked-memory", Argument: "size", Default: "unlimited", Help: "how much memory parked guests may keep when the node is reclaimed; of the others those that lose least end. 0: all end"},
			{Long: "max-time", Argument: "time", Default: "unlimited", Help: "the longest time limit of guests that are not saved while they run (--checkpoint-interval, --checkpoint=app), with its unit"},
			{Long: "kill", Argument: "yes|no", Default: "yes", Help: "whether guests of which nobody can say how soon they can leave may run, and are killed when that is too late (gcontrol show job: ParkBound)"},
			{Long: "reset", Help: "first set all terms to their defaults"},
			{Long: "dry-run", Short: 'n', Help: "only show what the terms would be"},
			{Long: "since", Argument: "time", Default: "the beginning", Help: "with report: from this day on, as in 2030-01-20 or now-30days"},
			{Long: "until", Argument: "time", Default: "now", Help: "with report: up to this day"},
			show.JSONOption(),
			show.YAMLOption(),
		},
		Examples: []option.Example{
			{Text: "my nodes: are they lent now, and on what terms?", Command: "glend"},
			{Text: "lend them at night and at weekends, and have them back with two minutes of notice", Command: "glend --mine --hours=\"Mon-Fri 18:00-08:00; Sat-Sun\" --notice=2m"},
			{Text: "keep half of the GPUs of two nodes free for us, and lend the rest to two accounts", Command: "glend n[1-2] --gpus=50% --accounts=biology,geology"},
			{Text: "no guest loses more than four hours of work here", Command: "glend n1 --max-time=4h"},
			{Text: "guests bring only images of the lab's registry", Command: "glend n1 --images=rules.toml"},
			{Text: "guests send at most 50 MiB a second to others, and receive as much", Command: "glend n1 --guest-network=50M"},
			{Text: "guests reach the package mirror, and nothing else of our network", Command: "glend --mine --network-allow=192.0.2.7:443"},
			{Text: "our room stays cool, and our disk quick", Command: "glend --mine --guest-power=200W --guest-io=100M"},
			{Text: "always, whole, to everybody", Command: "glend n1 --reset"},
			{Text: "when are my nodes taken back?", Command: "glend habit"},
			{Text: "what came of it in the last 30 days", Command: "glend report --since=now-30days"},
		},
		ExitStatus: []option.ExitStatus{
			{Status: "0", Help: "the terms are shown, or set"},
			{Status: "1", Help: "refused, or no controller answers"},
		},
		SeeAlso: []string{"greclaim", "grelease", "ginfo", "gcontrol"},
		Run:     lendNodes,
	}
}
