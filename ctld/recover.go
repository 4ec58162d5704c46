package ctld

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/gleaner-hpc/gleaner/ctld/replica"
	"github.com/gleaner-hpc/gleaner/ctld/state"
)

// recovering is the state in a directory that is being examined, or made the
// only one of its cluster.
type recovering struct {
	state *state.State
	safe  *state.Restored // applied before the state is written; nil = only looked at
	err   error
}

func (r *recovering) Apply(index uint64, command []byte) (any, error) {
	return r.state.Apply(index, command)
}

func (r *recovering) Restore(reader io.Reader) (err error) {
	restored, err := state.Restore(reader)
	if err == nil {
		r.state = restored
	}
	return err
}

// Capture implements replica.Machine: what is written is safe to continue from,
// so that the directory never holds a state that is not.
func (r *recovering) Capture() replica.Image {
	if r.safe != nil {
		r.err = r.state.Recover(*r.safe)
	}
	return r
}

// Persist implements replica.Image.
func (r *recovering) Persist(w io.Writer) error {
	if r.err != nil {
		return r.err
	}
	return r.state.View().Persist(w)
}

func recoverCommand() *cli.Command {
	return &cli.Command{
		Name:  "recover",
		Usage: "continue with this controller alone, when the majority of the others is lost for good",
		Description: `Makes the controller whose data directory this is the only one of its cluster.
Use it when more controllers are lost for good than the cluster bears: of three,
two. It is done on a stopped controller, without a network.

1. Stop gctld on every controller that is left, and keep it stopped.
2. Look at each with --inspect. Take the one with the highest term of the last
   command and, where those are the same, the highest index: it is furthest.
3. There: gctld recover --yes, then start gctld.
4. The others must not come back as they are: empty their data directories and
   let them join again (gctld --join, gcontrol peer add).

What only the lost controllers had is lost. Numbers of jobs jump far ahead, and
nothing starts until every node has registered or is declared fenced. If it is
interrupted, do it again.

Examples:
   gctld recover --inspect
   gctld recover --config /etc/gleaner/gctld.toml --yes`,
		Flags: append(configFlags(),
			&cli.BoolFlag{Name: "inspect", Usage: "show what the data directory holds, and change nothing"},
			&cli.BoolFlag{Name: "yes", Usage: "do it"},
		),
		Action:       recoverAction,
		OnUsageError: usageError,
	}
}

func recoverAction(c *cli.Context) error {
	if c.Args().Present() {
		return fmt.Errorf("gctld recover takes no arguments: see --help")
	}
	config, err := configOf(c)
	if err != nil {
		return err
	}
	name, existing, err := peerName(&config)
	if err != nil {
		return err
	}
	if !existing {
		return fmt.Errorf("there is no controller's data in %s: name the directory with --data-dir", config.DataDir)
	}
	options := replica.Options{Dir: raftDir(&config), Name: name, Existing: true, Fatal: fatal, Logger: slog.New(slog.DiscardHandler)}
	found := &recovering{state: state.New()}
	survey, err := replica.Inspect(options, found)
	if err != nil {
		return withRemedy(err, &config, name)
	}
	showSurvey(c.App.Writer, &config, name, &survey, found.state.View())
	switch {
	case c.Bool("inspect"):
		return nil
	case !c.Bool("yes"):
		return errors.New("nothing was changed: add --yes to make this controller the only one of its cluster")
	}
	return recoverNow(c.App.Writer, &config, options, &survey)
}

func raftDir(config *Config) string { return filepath.Join(config.DataDir, "raft") }

// recoverNow makes the peer the only member.
func recoverNow(out io.Writer, config *Config, options replica.Options, survey *replica.Survey) error {
	address := config.peerAddress()
	var others []string
	for _, member := range survey.Members {
		if member.Name == options.Name {
			address = cmp.Or(address, member.Address)
		} else {
			others = append(others, member.Name)
		}
	}
	safe := &recovering{state: state.New(), safe: &state.Restored{TimeMS: time.Now().UnixMilli(), Uncertain: true}}
	if err := replica.Recover(options, address, safe); err != nil {
		return err
	}
	view := safe.state.View()
	fmt.Fprintf(out, "\nrecovered: %s is the only controller of its cluster; start gctld\n", options.Name)
	fmt.Fprintf(out, "what was committed after index %d is lost, and what the others were told of it does not count any more\n", survey.LastIndex)
	fmt.Fprintf(out, "the next job is %d; nothing starts until these nodes have registered, or are declared fenced: %s\n", view.NextJob(), orNone(view.Awaited()))
	if len(others) > 0 {
		fmt.Fprintf(out, "before %s run again, empty their data directories: they must join again\n", strings.Join(others, " and "))
	}
	return nil
}

// showSurvey prints the contents of a directory.
func showSurvey(out io.Writer, config *Config, name string, survey *replica.Survey, view *state.View) {
	counts := view.Counts()
	var members []string
	for _, member := range survey.Members {
		text := member.Name + "=" + member.Address
		if !member.Voter {
			text += " (without a vote)"
		}
		members = append(members, text)
	}
	fmt.Fprintf(out, "controller   %s in %s\n", name, config.DataDir)
	fmt.Fprintf(out, "last command term %d, index %d, of %s\n", survey.LastTerm, survey.LastIndex, time.UnixMilli(view.TimeMS()).Format(time.RFC3339))
	fmt.Fprintf(out, "members      %s\n", orNone(members))
	fmt.Fprintf(out, "state        cluster %s: jobs waiting %d, running %d, over %d; nodes %d; the next job is %d\n",
		view.Policy().ClusterName, counts.Waiting, counts.Active, counts.Finished, counts.Nodes, view.NextJob())
	if awaited := view.Awaited(); len(awaited) > 0 {
		fmt.Fprintf(out, "awaited      %s\n", strings.Join(awaited, ","))
	}
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
