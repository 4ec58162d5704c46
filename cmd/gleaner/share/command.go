package share

import (
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
)

// Command is the table of gshare.
func Command() *option.Command {
	return &option.Command{
		Name: "share", Alias: "sshare", Summary: "show the shares and the usage of accounts and users", Usage: "[options]",
		Description: []string{
			"gshare shows the tree of accounts: what share of its siblings' each account and user has, what each has used, and the fair-share factor of users that follows from it. Without --all or --users it shows one's own associations, and all accounts.",
			"RawUsage is in seconds of what is billed (CPU-seconds, where the partition has no tres_billing_weights), of the association and all below it, up to now and with what was used long ago forgotten (decay_half_life). NormShares is the share of what the siblings have together, EffectvUsage the same of the usage, LevelFS the one over the other: above 1 the association had less than its share.",
			"FairShare is the rank of a user among all, over their number: Fair Tree ranks all users of an account above all of its siblings that have a lower LevelFS.",
			"GrpTRESMins is the limit of that name, and TRESRunMins what running jobs may still use until their time limits, in minutes of each kind of resource, memory in MiB.",
		},
		Options: shareOptions(), Run: runShare,
		Examples: []option.Example{
			{Text: "Everybody", Command: "gshare -a"},
			{Text: "Why my factor is what it is", Command: "gshare -l"},
			{Text: "The factors, for a script", Command: "gshare -a -n -P -U -o Account,User,FairShare"},
		},
		ExitStatus: []option.ExitStatus{{Status: "0", Help: "the list was printed, even if it is empty"}, {Status: "1", Help: "a bad option, or no controller answers"}},
		SeeAlso:    []string{"gprio", "gcontrol"},
	}
}

// optNoHeader is sshare's other name for --noheader.
const optNoHeader = "no-header"

func shareOptions() []option.Option {
	return []option.Option{
		{Long: "accounts", Short: 'A', Argument: "account[,...]", Help: "only these accounts"},
		{Long: "all", Short: 'a', Help: "all users, not only oneself"},
		{Long: "format", Short: 'o', Argument: "name[%size][,...]", Default: shareFormat, Help: "the columns, as in \"Account%30,User,FairShare\""},
		{Long: "helpformat", Short: 'e', Help: "the names of all columns"},
		show.JSONOption(),
		show.YAMLOption(),
		{Long: "long", Short: 'l', Help: "more columns: the usage of all that the cluster has used, the level fairshare, and limits over time"},
		{Long: "noheader", Short: 'n', Help: "no header lines"},
		{Long: optNoHeader, Short: 'h', Help: "as --noheader"},
		{Long: "parsable", Short: 'p', Help: "columns separated by |, with one at the end"},
		{Long: "parsable2", Short: 'P', Help: "columns separated by |, without one at the end"},
		{Long: "partition", Short: 'm', Help: "the partition of associations that are for one only"},
		{Long: "users", Short: 'u', Argument: "user[,...]", Aliases: []string{"uid"}, Help: "only these users, by name or number"},
		{Long: "Users", Short: 'U', Help: "only users, without the accounts above them"},
		{Long: "verbose", Short: 'v', Help: "accepted and without effect"},
		client.ClusterOption(),
	}
}
