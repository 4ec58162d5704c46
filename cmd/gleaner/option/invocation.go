package option

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/gleaner-hpc/gleaner/proto/spec"
)

// Invocation is one call of a command: what it was given and the streams and
// environment it works with.
type Invocation struct {
	Context context.Context
	Command *Command
	Version string // of the program
	Values
	Operands []string
	Stdin    io.Reader
	Stdout   io.Writer
	Stderr   io.Writer
	Environ  []string // NAME=VALUE
	// AtEnd, if set, ends the output; the command fails if it does.
	AtEnd func() error
	// Cluster, if set, is the name of the cluster that is asked.
	Cluster func() string
}

// ClusterName is the name of the cluster that is asked, "" if none is, or it does not say.
func (i *Invocation) ClusterName() string {
	if i.Cluster == nil {
		return ""
	}
	return i.Cluster()
}

// Lookup finds an environment variable.
func (i *Invocation) Lookup(name string) (string, bool) {
	for at := len(i.Environ) - 1; at >= 0; at-- {
		if key, value, found := strings.Cut(i.Environ[at], "="); found && key == name {
			return value, true
		}
	}
	return "", false
}

// Getenv is the value of an environment variable, "" if it is not set.
func (i *Invocation) Getenv(name string) string {
	value, _ := i.Lookup(name)
	return value
}

// Fail is the error for an argument that cannot be read; the command ends with
// its UsageStatus.
func (i *Invocation) Fail(format string, args ...any) error {
	return Fail(max(i.Command.UsageStatus, 1), format, args...)
}

// Streams are what a program runs with.
type Streams struct {
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	Environ []string
}

// App is the urfave/cli application of one command; making those of all the
// others would only cost time. It expects canonical arguments, which Run makes.
func App(name, version string, command *Command, streams Streams) *cli.App {
	return &cli.App{
		Name: name, Version: version,
		Reader: streams.Stdin, Writer: streams.Stdout, ErrWriter: streams.Stderr,
		// The caller turns errors into messages and the exit status.
		ExitErrHandler:            func(*cli.Context, error) {},
		DisableSliceFlagSeparator: true,
		Commands:                  []*cli.Command{command.cli(version, streams)},
	}
}

// Run runs the application's command with arguments as the user typed them.
func Run(ctx context.Context, app *cli.App, command *Command, args []string) error {
	settings, operands, err := command.Normalise(args)
	if err != nil {
		return err
	}
	canonical := []string{app.Name, command.Name}
	for _, setting := range settings {
		canonical = append(canonical, setting.Canonical())
	}
	canonical = append(append(canonical, "--"), operands...)
	return app.RunContext(ctx, canonical)
}

func (c *Command) cli(version string, streams Streams) *cli.Command {
	command := &cli.Command{
		Name: c.Name, Usage: c.Summary, ArgsUsage: c.Usage, Hidden: c.Hidden,
		HideHelp: true,
		Action: func(ctx *cli.Context) error {
			invocation := &Invocation{
				Context: ctx.Context, Command: c, Version: version, Values: Values{}, Operands: ctx.Args().Slice(),
				Stdin: streams.Stdin, Stdout: streams.Stdout, Stderr: streams.Stderr, Environ: streams.Environ,
			}
			for _, option := range c.Table() {
				if given, ok := ctx.Generic(option.Long).(*given); ok && len(given.values) > 0 {
					invocation.Values[option.Long] = given.values
				}
			}
			return c.run(invocation)
		},
	}
	// Only the main name of each option is made known: urfave/cli copies a
	// value to all names of a flag, which would count it more than once.
	for _, option := range c.Table() {
		command.Flags = append(command.Flags, &named{&cli.GenericFlag{
			Name: option.Long, Usage: option.Help, Hidden: option.Hidden, Value: &given{},
		}, []string{option.Long}})
	}
	return command
}

func (c *Command) run(invocation *Invocation) error {
	var err error
	switch {
	case invocation.Given(Help):
		err = c.help(invocation)
	case invocation.Given(Usage):
		err = c.WriteUsage(invocation.Stdout)
	case invocation.Given(Version):
		_, err = io.WriteString(invocation.Stdout, c.VersionText(invocation.Version)+"\n")
	default:
		invocation.sayIgnored()
		err = c.Run(invocation)
		if invocation.AtEnd != nil {
			if ended := invocation.AtEnd(); err == nil {
				err = ended
			}
		}
	}
	return err
}

// VersionText is what --version says; called by Slurm's name, that of the Slurm whose
// words the command has.
func (c *Command) VersionText(own string) string {
	if strings.HasPrefix(c.CalledAs, "s") {
		return "slurm " + spec.LikeSlurm
	}
	return "gleaner " + own
}

// sayIgnored tells of options on the command line that have no effect.
func (i *Invocation) sayIgnored() {
	if i.Given("quiet") {
		return
	}
	for _, word := range i.Command.Ignored(i.Values) {
		fmt.Fprintf(i.Stderr, "%s: %s\n", i.Command.Program(), word)
	}
}

// help answers --help and --help=all.
func (c *Command) help(invocation *Invocation) error {
	switch text := invocation.Text(Help); {
	case text == "":
		return c.WriteHelp(invocation.Stdout)
	case strings.EqualFold(text, HelpAll):
		return c.writeFullHelp(invocation.Stdout)
	}
	return invocation.Fail("--help=%s: type --help, or --help=all for all options", invocation.Text(Help))
}

// named is a flag that knows its names. urfave/cli asks each flag for them
// once for every other one, and would find them with a regular expression each
// time: a quarter of what a short command takes.
type named struct {
	*cli.GenericFlag
	names []string
}

// Names implements cli.Flag.
func (f *named) Names() []string { return f.names }

// given collects the arguments of one option; it is a cli.Generic.
type given struct{ values []string }

func (g *given) Set(value string) error {
	g.values = append(g.values, value)
	return nil
}

func (g *given) String() string { return strings.Join(g.values, ",") }
