// Package acctmgr is gacctmgr, Slurm's sacctmgr: it fetches the accounting
// records, lets package account make a plan of the words, shows it, asks, and
// sends the changes.
//
// What a controller would refuse is tried first, so that nobody is asked about
// it; without a terminal only --immediate is a yes.
package acctmgr

import (
	"fmt"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/account"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// Command is the table of gacctmgr.
func Command() *option.Command {
	return &option.Command{
		Name: "acctmgr", Alias: "sacctmgr", Summary: "show and change accounts, users and QOS", Usage: "[options] command entity [name=value ...]",
		Description: []string{
			"gacctmgr says who may use the cluster, how much of it is whose, and what limits there are. Accounts are a tree below root; a user in an account is an association, and has a share of what the account has; a QOS is a quality of service.",
			"Commands, entities and names of values may be shortened as far as they are unambiguous, and are read in any case. What comes before set, or after where, says which records are meant.",
			"What would change is shown first, and nothing is changed before you say y. Everybody may look. Administrators and operators (adminlevel) may change everything, coordinators what is below their accounts, and everybody their own default account. A request is carried out whole or not at all.",
			"Limits and shares: Fairshare (a number, or parent), GrpJobs, GrpSubmitJobs, GrpTRES, GrpTRESMins, GrpTRESRunMins, GrpWall, MaxJobs, MaxSubmitJobs, MaxTRESPerJob, MaxTRESPerNode, MaxTRESMinsPerJob, MaxWallDurationPerJob, Priority, QosLevel, DefaultQOS; of a QOS also MaxTRESPerUser, MaxTRESPerAccount, MaxJobsPerUser, MaxJobsPerAccount, MaxSubmitJobsPerUser, MaxSubmitJobsPerAccount, MinTRESPerJob, Preempt, PreemptMode, PreemptExemptTime, GraceTime, UsageFactor, Flags. -1 takes a limit away. A limit of TRES is written GrpTRES=cpu=64,gres/gpu=8,mem=512G.",
		},
		Operands: []option.Variable{
			{Name: "add account NAME [parent=ACCOUNT] [fairshare=NUMBER] ...", Help: "a new account"},
			{Name: "add user NAME account=ACCOUNT [partition=PARTITION] ...", Help: "put users into accounts"},
			{Name: "add qos NAME [priority=NUMBER] [preempt=QOS,...] ...", Help: "a new QOS"},
			{Name: "add coordinator account=ACCOUNT names=USER,...", Help: "let users change what is below an account; delete takes it back"},
			{Name: "modify account|user|qos|cluster [where] NAME ... set NAME=VALUE ...", Help: "change all that the conditions mean; lists (qos, preempt, flags) also with += and -=; cluster is the root account"},
			{Name: "delete account|user|qos [where] NAME ...", Help: "delete; with account=ACCOUNT a user's association only. What is in use is refused"},
			{Name: "show account|user|association|qos|tres|cluster|coordinator|event [NAME=VALUE ...] [format=FIELD[%WIDTH],...]", Help: "with the words tree (associations), withassoc, withcoordinator, withsubaccounts, onlydefaults, wolimits, woplimits. Events are times in which nodes took no jobs: by Nodes, Start, End, State, User, Reason, or all_time"},
			{Name: "dump [FILE]", Help: "write accounts, users and QOS to a file, or to standard output, in the form of sacctmgr's dump"},
			{Name: "load FILE", Help: "add or change what such a file says, all of it or nothing; also one that sacctmgr has written. - is standard input"},
		},
		Options: []option.Option{
			{Long: "associations", Short: 's', Help: "show: as the word withassoc"},
			{Long: "dry-run", Help: "show what would change, ask the controller whether it would be refused, and change nothing"},
			{Long: "immediate", Short: 'i', Help: "do not ask"},
			show.JSONOption(),
			show.YAMLOption(),
			{Long: "noheader", Short: 'n', Help: "no header line"},
			{Long: "parsable", Short: 'p', Help: "values end with |"},
			{Long: "parsable2", Short: 'P', Help: "a | between the values"},
			{Long: "quiet", Short: 'Q', Help: "no word about what went well"},
			{Long: "readonly", Short: 'r', Help: "refuse to change anything"},
			{Long: "verbose", Short: 'v', Ignored: "there is no more to say"},
		},
		Run: runAcctmgr,
		Examples: []option.Example{
			{Text: "Two labs that share the cluster two to one", Command: "gacctmgr add account physics fairshare=200\ngacctmgr add account chemistry fairshare=100"},
			{Text: "Add users to them", Command: "gacctmgr add user adam,brian account=physics\ngacctmgr add coordinator account=physics names=adam"},
			{Text: "At most 16 GPUs at once for a lab, and 4 jobs for each of its users", Command: "gacctmgr modify account physics set GrpTRES=gres/gpu=16 MaxJobs=4"},
			{Text: "The whole tree", Command: "gacctmgr show association tree format=account,user,fairshare,qos"},
		},
		ExitStatus: []option.ExitStatus{{Status: "0", Help: "done"}, {Status: "1", Help: "refused, nothing was meant or changed, or no controller answers"}},
		SeeAlso:    []string{"gqueue", "gsubmit", "gcontrol"},
	}
}

// laterAcctmgr are commands of sacctmgr that are refused by name.
var laterAcctmgr = map[string]string{
	"archive": "back up with gcontrol snapshot save", "clear": "gctld has a metrics page", "reconfigure": "changes hold at once",
	"shutdown": "stop gctld with its service manager", "exit": "there is no interactive mode", "quit": "there is no interactive mode",
	"associations": "use --associations, or show association", "verbose": "leave it out",
}

// acctmgrRun is one call of gacctmgr.
type acctmgrRun struct {
	inv    *option.Invocation
	client *client.Client
	json   show.JSONShape
}

func runAcctmgr(inv *option.Invocation) error {
	shape, err := show.JSONShapeOf(inv)
	if err != nil {
		return err
	}
	words := inv.Operands
	if len(words) == 0 {
		return inv.Fail("no command given: type gacctmgr add, modify, delete or show, and what")
	}
	c := &acctmgrRun{inv: inv, json: shape}
	verb := strings.ToLower(words[0])
	if remedy, later := laterAcctmgr[verb]; later {
		return &option.LaterError{Name: verb, Remedy: remedy}
	}
	switch verb {
	case "help":
		return inv.Command.WriteHelp(inv.Stdout)
	case "version":
		_, err := fmt.Fprintln(inv.Stdout, inv.Command.VersionText(inv.Version))
		return err
	}
	if verb == "dump" || verb == "load" {
		return c.file(verb, words[1:])
	}
	request, err := account.Parse(words)
	if err != nil {
		return c.refuse(err)
	}
	if c.client, err = client.Connect(inv); err != nil {
		return err
	}
	defer c.client.Close()
	listing, err := c.listing()
	if err != nil {
		return client.LoadError(inv, "sacctmgr error", err)
	}
	if request.Verb == account.Show {
		return c.show(request, listing)
	}
	plan, err := request.Plan(listing)
	if err != nil {
		return c.refuse(err)
	}
	return c.carryOut(plan)
}

// refuse says what is wrong with what was typed.
func (c *acctmgrRun) refuse(err error) error {
	fmt.Fprintf(c.inv.Stderr, " %s\n", format.PrintableLines(err.Error()))
	return option.Exit(1)
}

func (c *acctmgrRun) listing() (*account.Listing, error) {
	listing := new(account.Listing)
	restart := func() bool { listing = new(account.Listing); return true }
	err := client.List(c.inv.Context, c.client, c.client.ListAccounts, &pb.ListAccountsRequest{}, restart, func(answer *pb.ListAccountsResponse) error {
		listing.Add(answer)
		return nil
	})
	return listing, err
}

func (c *acctmgrRun) show(request *account.Request, listing *account.Listing) error {
	if c.inv.Given("associations") {
		request.Options["withassoc"] = true
	}
	if request.Entity == account.Event {
		if err := c.events(request, listing); err != nil {
			return err
		}
	}
	if c.json != show.JSONNone {
		return console.Output(show.WriteJSON(c.inv, c.json, request.Entity.String()+"s", request.Records(listing)))
	}
	style := account.Style{NoHeader: c.inv.Given("noheader"), Parsable: c.inv.Given("parsable"), Parsable2: c.inv.Given("parsable2")}
	table, err := request.Table(listing)
	if err != nil {
		return c.refuse(err)
	}
	return console.Output(table.Write(style, c.inv.Stdout))
}
