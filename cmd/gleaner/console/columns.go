package console

import "github.com/gleaner-hpc/gleaner/cmd/gleaner/option"

// FillFromEnvironment adds the options that the environment gives to a command
// that prints a table. Columns on the command line, by letter or by name,
// replace those of the environment.
func FillFromEnvironment(inv *option.Invocation) error {
	given, err := inv.Command.FromEnvironment(inv.Lookup)
	if err != nil {
		return err
	}
	if inv.Given("format") || inv.Given("Format") {
		delete(given, "format")
		delete(given, "Format")
	}
	inv.Values = inv.Values.Over(given)
	return nil
}
