package option

import "strings"

// Setting is one option as it was given.
type Setting struct {
	Option Option
	// Value is the argument; "" for a flag and for an optional argument that
	// was left out.
	Value string
	// Spelled is how the user wrote the name: "-n", "--nod".
	Spelled string
}

// Canonical is the setting in the one form that needs no table to be read.
func (s Setting) Canonical() string { return "--" + s.Option.Long + "=" + s.Value }

// Normalise reads a command line (without the program's name) as getopt_long(3)
// would and returns the options in the order given, and the operands. The error
// is a *UsageError, or a *LaterError for an option that is not supported.
func (c *Command) Normalise(args []string) ([]Setting, []string, error) {
	n := normaliser{program: c.Program(), table: c.Table(), stopAtOperand: c.StopAtOperand, status: c.UsageStatus}
	return n.all(args)
}

// NormaliseScript reads the words of one #GSUB or #SBATCH line. It knows only
// options that may be used in a script; operands are an error.
func (c *Command) NormaliseScript(words []string) ([]Setting, error) {
	n := normaliser{program: c.Program(), status: c.UsageStatus}
	for _, option := range c.Table() {
		if option.InScript || option.Later != "" || option.Ignored != "" {
			n.table = append(n.table, option)
		} else {
			n.outside = append(n.outside, option)
		}
	}
	settings, operands, err := n.all(words)
	if err != nil {
		return nil, err
	}
	if len(operands) > 0 {
		return nil, n.fail("'%s' is not an option", operands[0])
	}
	return settings, nil
}

type normaliser struct {
	program       string
	table         []Option
	outside       []Option // options that are known, but not here
	stopAtOperand bool
	status        int
	rest          []string // arguments not read yet
	settings      []Setting
}

func (n *normaliser) all(args []string) ([]Setting, []string, error) {
	var operands []string
	n.rest = args
	for len(n.rest) > 0 {
		word := n.rest[0]
		n.rest = n.rest[1:]
		var err error
		switch {
		case word == "--":
			return n.settings, append(operands, n.rest...), nil
		case strings.HasPrefix(word, "--"):
			err = n.long(word[2:])
		case len(word) > 1 && word[0] == '-':
			err = n.bundle(word[1:])
		case n.stopAtOperand:
			return n.settings, append([]string{word}, n.rest...), nil
		default:
			operands = append(operands, word)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return n.settings, operands, nil
}

// long reads "name" or "name=value", of which the dashes are gone.
func (n *normaliser) long(text string) error {
	name, value, attached := strings.Cut(text, "=")
	option, err := n.byName(name)
	if err != nil {
		return err
	}
	spelled := "--" + name
	switch {
	case option.Flag() && attached:
		return n.fail("option '--%s' doesn't allow an argument", option.Long)
	case option.Flag(), option.OptionalArgument, attached:
		return n.add(*option, value, spelled)
	case len(n.rest) == 0:
		return n.fail("option '--%s' requires an argument", option.Long)
	}
	value, n.rest = n.rest[0], n.rest[1:]
	return n.add(*option, value, spelled)
}

// bundle reads short options written together, of which the dash is gone. The
// first one that takes an argument takes what is left of the word.
func (n *normaliser) bundle(letters string) error {
	for len(letters) > 0 {
		letter := letters[0]
		letters = letters[1:]
		at := findShort(n.table, letter)
		if at < 0 && findShort(n.outside, letter) >= 0 {
			return n.fail("option '-%c' may be given on the command line only", letter)
		}
		if at < 0 {
			return n.fail("invalid option -- '%c'", letter)
		}
		option, spelled, value := n.table[at], "-"+string(letter), ""
		switch {
		case option.Flag():
		case option.OptionalArgument || letters != "":
			value, letters = letters, ""
		case len(n.rest) == 0:
			return n.fail("option requires an argument -- '%c'", letter)
		default:
			value, n.rest = n.rest[0], n.rest[1:]
		}
		if err := n.add(option, value, spelled); err != nil {
			return err
		}
	}
	return nil
}

// byName finds an option by its long name or an unambiguous beginning of it.
func (n *normaliser) byName(name string) (*Option, error) {
	if at, found := find(n.table, name); found {
		return &n.table[at], nil
	}
	var candidates []string
	match := -1
	for i := range n.table {
		before := len(candidates)
		for _, known := range n.table[i].Names() {
			if name != "" && strings.HasPrefix(known, name) {
				candidates = append(candidates, "'--"+known+"'")
			}
		}
		if len(candidates) == before {
			continue
		}
		if match >= 0 {
			match = len(n.table)
		} else {
			match = i
		}
	}
	switch {
	case match < 0:
		if _, known := find(n.outside, name); known {
			return nil, n.fail("option '--%s' may be given on the command line only", name)
		}
		if near := nearest(n.table, name); near != "" {
			return nil, n.fail("unrecognized option '--%s'; did you mean '--%s'?", name, near)
		}
		return nil, n.fail("unrecognized option '--%s'", name)
	case match == len(n.table):
		return nil, n.fail("option '--%s' is ambiguous; possibilities: %s", name, strings.Join(candidates, " "))
	}
	return &n.table[match], nil
}

func (n *normaliser) add(option Option, value, spelled string) error {
	if option.Later != "" {
		return &LaterError{Name: "--" + option.Long, Remedy: option.Later}
	}
	n.settings = append(n.settings, Setting{Option: option, Value: value, Spelled: spelled})
	return nil
}

func (n *normaliser) fail(format string, args ...any) error {
	return &UsageError{Program: n.program, Status: n.status, message: sprintf(format, args...)}
}
