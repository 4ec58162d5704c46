package main

import "github.com/gleaner-hpc/gleaner/cmd/gleaner/option"

// commands are all user commands, in the order in which the help shows them.
// Each is a function beside what it does, so that its table can refer to code
// which itself needs the list, as the manual pages do.
func commands() []*option.Command {
	return []*option.Command{
		submitCommand(),
		queueCommand(),
		cancelCommand(),
		infoCommand(),
		prioCommand(),
		shareCommand(),
		controlCommand(),
		acctmgrCommand(),
		runCommand(),
		attachCommand(),
		doctorCommand(),
		devCommand(),
		manCommand(),
		completionCommand(),
	}
}
