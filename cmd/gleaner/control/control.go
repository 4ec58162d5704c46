// Package control is gcontrol, Slurm's scontrol: a verb and its words, one file a
// verb or a family of verbs.
//
// A verb may be typed by an unambiguous beginning. What scontrol has and gcontrol
// lacks is refused by name, with what to do instead. How things look is package
// show; the policy that apply reads is package clusterfile.
package control

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/console"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/format"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/show"
	"github.com/gleaner-hpc/gleaner/proto/similar"
)

// controlRun is one call of gcontrol.
type controlRun struct {
	inv     *option.Invocation
	client  *client.Client // nil for verbs that need none
	view    *show.View
	json    show.JSONShape
	oneLine bool
	details bool
}

// controlVerb is one word after gcontrol.
type controlVerb struct {
	name  string
	local bool // needs no controller
	run   func(c *controlRun, words []string) error
}

// controlVerbs are what gcontrol does, in the order in which a beginning of a
// word is understood: "re" is nothing yet, "rel" is release.
func controlVerbs() []controlVerb {
	return []controlVerb{
		{name: "show", run: controlShow},
		{name: "hold", run: controlHold},
		{name: "release", run: controlRelease},
		{name: "requeue", run: controlRequeue},
		{name: "requeuehold", run: controlRequeueHold},
		{name: "uhold", run: controlUserHold},
		{name: "checkpoint", run: controlCheckpoint},
		{name: "migrate", run: controlMigrate},
		{name: "wait_job", run: controlWaitJob},
		{name: "completing", run: controlCompleting},
		{name: "write", run: controlWrite},
		{name: "listpids", run: controlListPids},
		{name: "top", run: controlTop},
		{name: "suspend", run: controlSuspend},
		{name: "resume", run: controlResume},
		{name: "update", run: controlUpdate},
		{name: "fence", run: controlFence},
		{name: "create", run: controlCreate},
		{name: "delete", run: controlDelete},
		{name: "apply", run: controlApply},
		{name: "import-slurm", local: true, run: controlImport},
		{name: "peer", run: controlPeer},
		{name: "ping", local: true, run: controlPing},
		{name: "status", run: controlStatus},
		{name: "snapshot", local: true, run: controlSnapshot}, // connects by itself: inspect needs none
		{name: "version", local: true, run: controlVersion},
		{name: "help", local: true, run: func(c *controlRun, _ []string) error { return c.inv.Command.WriteHelp(c.inv.Stdout) }},
	}
}

func runControl(inv *option.Invocation) error {
	if len(inv.Operands) == 0 {
		return inv.Fail("no command given: type gcontrol and one of %s", strings.Join(VerbNames(), " "))
	}
	shape, err := show.JSONShapeOf(inv)
	if err != nil {
		return err
	}
	verb, err := findVerb(inv, inv.Operands[0])
	if err != nil {
		return err
	}
	run := &controlRun{
		inv: inv, view: show.NewView(inv.Getenv, console.Clock()), json: shape,
		oneLine: inv.Given("oneliner"), details: inv.Given("details"),
	}
	words := inv.Operands[1:]
	if verb.local || verb.name == "show" && localEntity(words) {
		return verb.run(run, words)
	}
	if run.client, err = client.Connect(inv); err != nil {
		return err
	}
	defer run.client.Close()
	given, err := inv.Command.FromEnvironment(inv.Lookup)
	if err != nil {
		return err
	}
	if _, err := run.client.Cluster(inv.Context, inv.Over(given)); err != nil {
		return err
	}
	return verb.run(run, words)
}

// findVerb finds a verb by its name, in any case, or by an unambiguous
// beginning of it.
func findVerb(inv *option.Invocation, word string) (controlVerb, error) {
	lower := strings.ToLower(word)
	if remedy, known := laterVerbs[lower]; known {
		return controlVerb{}, &option.LaterError{Name: lower, Remedy: remedy}
	}
	var found []controlVerb
	for _, verb := range controlVerbs() {
		if verb.name == lower {
			return verb, nil
		}
		if lower != "" && strings.HasPrefix(verb.name, lower) {
			found = append(found, verb)
		}
	}
	if len(found) > 1 && !slices.ContainsFunc(found, func(verb controlVerb) bool { return !strings.HasPrefix(verb.name, found[0].name) }) {
		found = found[:1] // requ is requeue, though requeuehold begins with it too
	}
	if len(found) != 1 {
		fmt.Fprintf(inv.Stderr, "invalid keyword: %s\n", format.Printable(word))
		return controlVerb{}, inv.Fail("%s", meantVerb(word))
	}
	return found[0], nil
}

// meantVerb says what could be typed in place of a word that is no verb.
func meantVerb(word string) string {
	names := VerbNames()
	if meant := similar.Nearest(word, names); meant != "" {
		return "did you mean gcontrol " + meant + "?"
	}
	return "the commands are " + strings.Join(names, " ")
}

// VerbNames are the verbs, for completion.
func VerbNames() []string {
	var names []string
	for _, verb := range controlVerbs() {
		names = append(names, verb.name)
	}
	return names
}

// noEntity says in Slurm's words that a verb does not know its object.
func (c *controlRun) noEntity(entity, verb string) error {
	fmt.Fprintf(c.inv.Stderr, "invalid entity:%s for keyword:%s \n", format.Printable(entity), verb)
	if verb != "show" {
		return option.Exit(1)
	}
	var names []string
	for _, known := range shownEntities() {
		names = append(names, known.names[0])
	}
	return c.inv.Fail("show takes %s", strings.Join(names, " "))
}

func (c *controlRun) tooFew(verb string) error {
	fmt.Fprintf(c.inv.Stderr, "too few arguments for keyword:%s\n", verb)
	return option.Exit(1)
}

func (c *controlRun) tooMany(verb string) error {
	fmt.Fprintf(c.inv.Stderr, "too many arguments for keyword:%s\n", verb)
	return option.Exit(1)
}

func controlVersion(c *controlRun, words []string) error {
	if len(words) > 0 {
		return c.tooMany("version")
	}
	_, err := fmt.Fprintln(c.inv.Stdout, c.inv.Command.VersionText(c.inv.Version))
	return err
}

// laterVerbs are commands of scontrol that are refused by name, with what to
// do instead.
var laterVerbs = map[string]string{
	"abort": "stop gctld with its service manager", "shutdown": "stop gctld and gnoded with their service manager",
	"takeover":    "another controller takes over by itself when the leader is gone",
	"reconfigure": "policy is changed by gcontrol apply -f cluster.toml, and needs no reconfiguring",
	"reboot":      "drain the node and restart it by hand", "cancel_reboot": "there is no reboot to cancel",
	"notify":  "use gcancel --signal to reach a job",
	"pidinfo": "look at /proc/PID/cgroup",
	"token":   "callers are known by their connection, and there is no slurmrestd to show a token to", "errnumstr": "messages carry no numbers", "cluster": "name another controller with --controller",
	"setdebug": "set the log level of gctld when starting it", "setdebugflags": "set the log level of gctld when starting it",
	"schedloglevel": "set the log level of gctld when starting it", "fsdampeningfactor": "priority.dampening_factor of cluster.toml has it",
	"assoc_mgr": "use gcontrol show assoc_mgr", "exit": "there is no interactive mode", "quit": "there is no interactive mode",
	"details": "use --details", "oneliner": "use --oneliner", "script": "the owner keeps the script; it is not shown",
}
