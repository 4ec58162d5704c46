package jobspec

import (
	"errors"
	"slices"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
	pb "github.com/gleaner-hpc/gleaner/proto/gleaner/v1"
)

// mergedSpec is what the layers of values ask for together, the strongest
// first.
func mergedSpec(directory string, layers ...option.Values) (*pb.JobSpec, option.Values, error) {
	values, err := layered(layers...)
	if err != nil {
		return nil, nil, err
	}
	job, err := buildSpec(values, directory)
	return job, values, err
}

// withSource adds to an error about the values where the bad one is, if it is
// not on the command line: a user who typed nothing of the kind should not have
// to search.
func withSource(err error, directory string, inv *option.Invocation, inEnvironment option.Values, inScript *directives) error {
	same := func(layers ...option.Values) bool {
		_, _, now := mergedSpec(directory, layers...)
		return now != nil && now.Error() == err.Error()
	}
	where := ""
	switch {
	case same(inv.Values):
		return err
	case same(inv.Values, inEnvironment):
		where = variableWith(inv, inEnvironment, func(alone option.Values) bool { return same(inv.Values, alone) })
	default:
		where = inScript.lineWith(func(upTo option.Values) bool { return same(inv.Values, inEnvironment, upTo) })
	}
	failure := (*option.Failure)(nil)
	if !errors.As(err, &failure) {
		return err
	}
	return &option.Failure{Status: failure.Status, Message: failure.Message + "\n" + where, Cause: failure.Cause}
}

// variableWith names the variable whose value alone is bad.
func variableWith(inv *option.Invocation, inEnvironment option.Values, bad func(option.Values) bool) string {
	for _, one := range inv.Command.Table() {
		value, given := inEnvironment[one.Long]
		if !given || !bad(option.Values{one.Long: value}) {
			continue
		}
		at := slices.IndexFunc(one.Environment, func(name string) bool { _, set := inv.Lookup(name); return set })
		if at >= 0 {
			return "It comes from the variable " + one.Environment[at] + " in the environment"
		}
	}
	return "It comes from variables in the environment: see env | grep -E 'GSUB_|SBATCH_'"
}

// lineWith names the first line at which the values up to it are bad.
func (d *directives) lineWith(bad func(option.Values) bool) string {
	values := option.Values{}
	for _, line := range d.lines {
		for _, setting := range line.settings {
			values[setting.Option.Long] = []string{setting.Value} // the last one counts
		}
		if bad(values) {
			return "It is on " + d.place(line.number)
		}
	}
	return "It is on a #GSUB or #SBATCH line of " + d.name
}
