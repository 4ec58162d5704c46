// Package option is the one table of options behind every user command: it
// feeds the command line (through urfave/cli), the help text, the manual pages,
// shell completion, and the #GSUB and #SBATCH lines of batch scripts.
//
// It promises the habits of getopt_long(3) that users of Slurm rely on: bundles
// with an attached value ("-ahNO x", "-n4"), "--name=value" and "--name value",
// unambiguous abbreviations ("--nod 2"), optional arguments only where
// attached, options after operands (but not after the script or command of a
// Command with StopAtOperand), and "--". An option that exists in Slurm but is
// not supported is refused by name, or accepted with a word where it harms nobody
// that it has no effect.
//
// It needs nothing of the daemons and does no I/O of its own: a Command is data
// and a Run function, and an Invocation is what one call of it was given.
package option

import (
	"slices"
	"strings"
)

// Option is one row of a command's table.
type Option struct {
	// Long is the name without its dashes: "job-name". It is also the key
	// under which Values holds what was given.
	Long string
	// Short is the letter without its dash, or 0 if there is none.
	Short byte
	// Aliases are further long names of the same option: "jobname" for "name".
	Aliases []string
	// Argument is the word for the argument in help texts: "partition". An
	// option without one is a flag.
	Argument string
	// OptionalArgument says that the argument may be left out, and is only
	// taken where it is attached: "--nice", "--nice=50", "-K0".
	OptionalArgument bool
	// Default is shown in the help text; it is not applied by this package.
	Default string
	// Help is one or more sentences without a line break, lower case, no full
	// stop at the end.
	Help string
	// Environment are the variables that give the option where the command
	// line does not; the first one that is set counts.
	Environment []string
	// InScript says that the option may be used in a #GSUB or #SBATCH line.
	InScript bool
	// Later, if not empty, says that the option exists in Slurm but is not
	// supported, and what to do instead. Giving it is an error.
	Later string
	// Ignored, if not empty, says that the option exists in Slurm, has no effect
	// here and harms nobody by that, and why. Giving it is answered with a word on
	// standard error.
	Ignored string
	// Hidden keeps the option out of help and completion.
	Hidden bool
}

// Flag reports whether the option takes no argument at all.
func (o *Option) Flag() bool { return o.Argument == "" }

// Names are the long names of the option, the main one first.
func (o *Option) Names() []string { return append([]string{o.Long}, o.Aliases...) }

// Spelling is the option with its argument as help texts and manual pages
// show it: "-p, --partition=<partition>".
func (o *Option) Spelling() string {
	var text strings.Builder
	if o.Short != 0 {
		text.WriteString("-" + string(o.Short) + ", ")
	}
	text.WriteString("--" + o.Long)
	switch {
	case o.Flag():
	case o.OptionalArgument:
		text.WriteString("[=<" + o.Argument + ">]")
	default:
		text.WriteString("=<" + o.Argument + ">")
	}
	return text.String()
}

// Example is one call of a command, with what it does.
type Example struct {
	Text    string // "A job on one GPU of any model, for an hour"
	Command string // "gsubmit -G1 -t60 train.sh"
}

// ExitStatus explains one exit status, or a family of them.
type ExitStatus struct {
	Status string // "0", "255", "1-127"
	Help   string
}

// Variable explains an environment variable that a command reads in addition to
// those of its options.
type Variable struct {
	Name string
	Help string
}

// Command is a user command: its table, its documentation and what it does.
type Command struct {
	// Name is what follows "gleaner": "submit".
	Name string
	// Alias is the command of Slurm whose habits this one has: "sbatch". A
	// command with an alias is also a program of its own, "g" + Name.
	Alias string
	// Standalone makes it such a program without an alias.
	Standalone bool
	// Summary is one line without a full stop: "submit a batch script".
	Summary string
	// Description are paragraphs for the manual page.
	Description []string
	// Usage is what follows the program's name: "[options] [script [arguments]]".
	Usage string
	// Operands explain the words of Usage that are not options.
	Operands []Variable
	// Options is the table, in the order in which the help shows it. The
	// options every command has (see Table) are not repeated in it.
	Options []Option
	// Often are the long names of the options that --help shows of a command with
	// many; --help=all shows all of them. Empty: --help always shows all.
	Often      []string
	Examples   []Example
	ExitStatus []ExitStatus
	Variables  []Variable
	SeeAlso    []string // "gqueue", "gcancel"
	// StopAtOperand ends the options at the first operand, which is a script
	// or command whose own options follow.
	StopAtOperand bool
	// UsageStatus is the exit status after an unknown option or an argument
	// that cannot be read; 0 means 1.
	UsageStatus int
	Hidden      bool
	// CalledAs is the name of Slurm's that the command was called by, "" if it was
	// called by its own: see Alias.
	CalledAs string
	Run      func(*Invocation) error
}

// Program is the name the command goes by in messages: "gsubmit", "sbatch" where it
// was called by that, or "gleaner dev" for one that is not a separate program.
func (c *Command) Program() string {
	if c.CalledAs != "" {
		return c.CalledAs
	}
	if c.OwnProgram() {
		return "g" + c.Name
	}
	return "gleaner " + c.Name
}

// OwnProgram reports whether the command answers to a name of its own.
func (c *Command) OwnProgram() bool { return c.Alias != "" || c.Standalone }

// Names of the options that every command has.
const (
	Controller = "controller"
	Help       = "help"
	Usage      = "usage"
	Version    = "version"
)

// HelpAll is the argument with which --help shows all options.
const HelpAll = "all"

// common are the options that every command has. -h and -V belong to them
// only where a command has no use of its own for the letter, as in Slurm.
var common = []Option{
	{Long: Controller, Argument: "target[,target...]", Environment: []string{"GLEANER_CONTROLLER"},
		Default: "unix:///run/gleaner/gctld.sock",
		Help:    "where the controllers are: unix:///path or host:port (mutual TLS, with the certificates in $GLEANER_TLS_DIR)"},
	{Long: Help, Short: 'h', Help: "show this help and exit"},
	{Long: Usage, Help: "show the forms of the command and exit"},
	{Long: Version, Short: 'V', Help: "show the version and exit"},
}

// Table is the whole table of the command: its own options, then those that
// every command has and that it does not define itself.
func (c *Command) Table() []Option {
	table := slices.Clone(c.Options)
	for _, option := range common {
		if _, found := find(table, option.Long); found {
			continue
		}
		if option.Short != 0 && findShort(table, option.Short) >= 0 {
			option.Short = 0
		}
		if option.Long == Help && len(c.Often) > 0 {
			option.Argument, option.OptionalArgument, option.Help = HelpAll, true, "show this help and exit; without =all only what is used often"
		}
		table = append(table, option)
	}
	return table
}

func find(table []Option, long string) (int, bool) {
	at := slices.IndexFunc(table, func(o Option) bool { return slices.Contains(o.Names(), long) })
	return at, at >= 0
}

func findShort(table []Option, letter byte) int {
	return slices.IndexFunc(table, func(o Option) bool { return o.Short == letter })
}
