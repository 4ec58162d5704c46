package option

import (
	"slices"
	"strconv"
	"strings"
)

// Values are the options that were given, each with its arguments in the
// order given, by the option's main long name.
type Values map[string][]string

// Collect gathers settings.
func Collect(settings []Setting) Values {
	values := Values{}
	for _, setting := range settings {
		values[setting.Option.Long] = append(values[setting.Option.Long], setting.Value)
	}
	return values
}

// Given reports whether the option was given at all.
func (v Values) Given(long string) bool { return len(v[long]) > 0 }

// Text is the last argument given, "" if there is none.
func (v Values) Text(long string) string {
	if len(v[long]) == 0 {
		return ""
	}
	return v[long][len(v[long])-1]
}

// All are the arguments of an option that may be repeated.
func (v Values) All(long string) []string { return v[long] }

// List are the arguments of a repeatable option whose arguments are lists
// joined by commas; empty words are dropped.
func (v Values) List(long string) []string {
	var words []string
	for _, value := range v[long] {
		for word := range strings.SplitSeq(value, ",") {
			if word = strings.TrimSpace(word); word != "" {
				words = append(words, word)
			}
		}
	}
	return words
}

// Over returns v with what it does not give taken from the weaker values.
func (v Values) Over(weaker Values) Values {
	merged := Values{}
	for long, values := range weaker {
		merged[long] = slices.Clone(values)
	}
	for long, values := range v {
		merged[long] = slices.Clone(values)
	}
	return merged
}

// Ignored says of each given option without effect why it has none.
func (c *Command) Ignored(values Values) (words []string) {
	for _, option := range c.Table() {
		if option.Ignored != "" && values.Given(option.Long) {
			words = append(words, "--"+option.Long+" is accepted and has no effect: "+option.Ignored)
		}
	}
	return words
}

// FromEnvironment are the options given by environment variables. A flag
// counts as given if its variable is empty, "yes" or a non-zero number, as
// sbatch(1) has it; a variable that is to hold an argument and is empty counts
// as not set. The error is a *LaterError that names the variable.
func (c *Command) FromEnvironment(lookup func(string) (string, bool)) (Values, error) {
	values := Values{}
	for _, option := range c.Table() {
		for _, name := range option.Environment {
			value, set := lookup(name)
			if !set || option.Flag() && !switchedOn(value) || value == "" && option.Argument != "" && !option.OptionalArgument {
				continue
			}
			if option.Later != "" {
				return nil, &LaterError{Name: name + " (--" + option.Long + ")", Remedy: option.Later}
			}
			if option.Flag() {
				value = ""
			}
			values[option.Long] = []string{value}
			break
		}
	}
	return values, nil
}

func switchedOn(value string) bool {
	number, err := strconv.Atoi(value)
	return value == "" || value == "yes" || err == nil && number != 0
}
