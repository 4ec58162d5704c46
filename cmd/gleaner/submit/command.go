package submit

import (
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/client"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/jobspec"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
)

// clusterOption is --clusters, which scripts have in their directives too.
func clusterOption() option.Option {
	clusters := client.ClusterOption("GSUB_CLUSTERS", "SBATCH_CLUSTERS", "SLURM_CLUSTERS")
	clusters.InScript = true
	return clusters
}

// Command is the table of gsubmit.
func Command() *option.Command {
	return &option.Command{
		Name:    "submit",
		Alias:   "sbatch",
		Summary: "submit a batch script",
		Description: []string{
			"gsubmit hands a batch script to the controller and prints the number of the job. When it has printed one, the job is on the disks of a majority of the controllers. The script is read from a file, from standard input if no file is named, or made from --wrap; it is copied, so that it may be changed or deleted at once.",
			"Options may also be in the script, on lines that begin with #GSUB or #SBATCH, before its first command. An option on the command line wins over one in the environment, which wins over one in the script.",
			"File names for --output, --error and --input may hold %j (job), %A and %a (array and task), %x (name), %u (user), %N (node), %n (number of the node), %t (task), %s (step), %J (job and step); a number pads with zeros: %4a. %% is a percent sign, and a backslash in the name keeps all of it as it is.",
		},
		Usage: "[options] [script [arguments...]]\n   or: gsubmit [options] --wrap=command",
		Operands: []option.Variable{
			{Name: "script", Help: "the batch script; standard input if none is named"},
			{Name: "arguments", Help: "handed to the script, options among them too"},
		},
		Options: append(jobspec.Options(), clusterOption()),
		Often: []string{
			jobspec.OptNodes, jobspec.OptNtasks, jobspec.OptCPUsPerTask, jobspec.OptMem, jobspec.OptGPUs, jobspec.OptTime,
			jobspec.OptOutput, jobspec.OptPartition,
		},
		Examples: []option.Example{
			{Text: "a job on one GPU of any model, for at most an hour", Command: "gsubmit --gpus=1 --time=1:00:00 train.sh"},
			{Text: "two nodes with four GPUs each, one task a GPU", Command: "gsubmit -N2 --gpus-per-node=4 --ntasks-per-node=4 train.sh"},
			{Text: "a hundred tasks, ten at a time, each with a file of its own", Command: "gsubmit --array=0-99%10 --output=%A_%a.out sweep.sh"},
			{Text: "one command, waiting for its end and its exit status", Command: "gsubmit --wait --wrap='hostname'"},
			{Text: "a script from standard input", Command: "gsubmit --job-name=hello < hello.sh"},
		},
		ExitStatus: []option.ExitStatus{
			{Status: "0", Help: "the job was accepted"},
			{Status: "1", Help: "it was not; standard error says why and what to do"},
			{Status: "255", Help: "an unknown option, or a time, size, number of nodes or mode that cannot be read"},
			{Status: "any", Help: "with --wait, the exit status of the script, the highest one of an array; 1 if a signal ended it"},
		},
		Variables: []option.Variable{
			{Name: "GSUB_*, SBATCH_*", Help: "give options, as GSUB_PARTITION or SBATCH_PARTITION gives --partition"},
			{Name: "SLURM_UMASK", Help: "the mask for the output files in octal, in place of the one in force"},
			{Name: "GLEANER_TLS_DIR", Help: "directory of ca.pem, cert.pem and key.pem for controllers over TCP"},
		},
		SeeAlso:       []string{"gqueue", "gcancel", "grun", "gcontrol"},
		StopAtOperand: true,
		UsageStatus:   255,
		Run:           submit,
	}
}
