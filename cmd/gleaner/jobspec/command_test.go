package jobspec

import "github.com/gleaner-hpc/gleaner/cmd/gleaner/option"

// scriptCommand is a command that submits a script.
func scriptCommand() *option.Command {
	return &option.Command{Name: "submit", Alias: "sbatch", Options: Options(), StopAtOperand: true, UsageStatus: 255}
}
