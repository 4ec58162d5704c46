package main

import (
	"fmt"
	"strings"

	"github.com/gleaner-hpc/gleaner/cmd/gleaner/control"
	"github.com/gleaner-hpc/gleaner/cmd/gleaner/option"
)

// bashSources are the shell commands that list what may be typed in the place
// of an option's argument, by the word that the help shows for it. Who presses
// Tab waits for no controller: one that is not there offers nothing.
var bashSources = map[string]string{
	"partition[,...]": "_gleaner_ask ginfo --noheader --format=%R",
	"node":            "_gleaner_ask ginfo --noheader --Node --format=%N",
	"nodes":           "_gleaner_ask ginfo --noheader --Node --format=%N",
	"job":             "_gleaner_jobs",
	"job[,...]":       "_gleaner_jobs",
	"state[,...]":     "echo PENDING RUNNING COMPLETING COMPLETED CANCELLED FAILED TIMEOUT OUT_OF_MEMORY",
	"user":            "compgen -u",
	"user[,...]":      "compgen -u",
	"directory":       "compgen -d",
	"role[,...]":      "echo node controller user",

	"gpu[:model]:count": "_gleaner_gpus",
	"[model:]count":     "_gleaner_models",
}

// offeredJobKeys are keys of gcontrol update as scontrol(1) writes them.
var offeredJobKeys = []string{
	"Account", "ArrayTaskThrottle", "Comment", "CPUsPerTask", "Deadline", "Dependency", "ExcNodeList", "Features", "Gres", "JobName", "Licenses",
	"MinMemoryCPU", "MinMemoryNode", "Name", "Network", "Nice", "NumNodes", "NumTasks", "OverSubscribe", "Partition", "Priority", "QOS",
	"ReqNodeList", "Requeue", "StartTime", "Switches", "TasksPerNode", "TimeLimit", "TresPerJob", "TresPerNode",
}

// bashCases are the branches of a case statement for one command, in which
// each option whose argument has a source names it.
func bashCases(command *option.Command) string {
	var cases strings.Builder
	for _, o := range offered(command) {
		source := bashSources[o.Argument]
		if source == "" {
			continue
		}
		if command.Name == "info" && o.Argument == "state[,...]" {
			source = "echo idle mix alloc drain down reclaimed"
		}
		pattern := fmt.Sprintf("'%s --%s'", command.Name, o.Long)
		if o.Short != 0 {
			pattern += fmt.Sprintf(" | '%s -%c'", command.Name, o.Short)
		}
		fmt.Fprintf(&cases, "\t%s) %s ;;\n", pattern, source)
	}
	return cases.String()
}

func bashCompletion(commands []*option.Command) string {
	var names, options, operands, values strings.Builder
	for _, command := range commands {
		names.WriteString(" " + command.Name)
		fmt.Fprintf(&options, "\t%s) echo '", command.Name)
		for i, o := range offered(command) {
			if i > 0 {
				options.WriteByte(' ')
			}
			options.WriteString("--" + o.Long)
		}
		options.WriteString("' ;;\n")
		if words := operandWords(command); len(words) > 0 {
			fmt.Fprintf(&operands, "\t'%s ') echo '%s' ;;\n", command.Name, strings.Join(words, " "))
		}
		values.WriteString(bashCases(command))
	}
	return strings.NewReplacer(
		"NAMES", strings.TrimSpace(names.String()), "OPTIONS\n", options.String(), "OPERANDS\n", operands.String(),
		"VALUES\n", values.String(), "ENTITIES", strings.Join(control.EntityNames(), " "), "JOBKEYS", strings.Join(offeredJobKeys, "= ")+"=", "PROGRAMS", strings.Join(programs(commands), " "),
	).Replace(bashScript)
}

// bashScript is the script with capital words for what the tables give.
const bashScript = `# bash completion for gleaner, written by "gleaner completion bash"
_gleaner_ask() {
	timeout 2 "$@" 2>/dev/null | sort -u
}

_gleaner_jobs() {
	_gleaner_ask gqueue --me --noheader --format=%A
}

# GPUs as --gres has them, and as --gpus has them: a model, or a number.
_gleaner_gpus() {
	echo gpu:
	_gleaner_ask ginfo --noheader --Node --format=%G | tr , '\n' | sed -n 's/^\(gpu:[^:(]*:\).*/\1/p' | sort -u
}

_gleaner_models() {
	_gleaner_gpus | sed -n 's/^gpu:\(..*\)/\1/p'
}

# What may follow gcontrol update and the words after it; KEY=VALUE is three words.
_gleaner_updates() {
	case "$1" in
	*' JobId' | *' JobId =') _gleaner_jobs ;;
	*' NodeName' | *' NodeName =') _gleaner_ask ginfo --noheader --Node --format=%N ;;
	*' Partition' | *' Partition =') _gleaner_ask ginfo --noheader --format=%R ;;
	*' State' | *' State =') echo DRAIN DOWN FENCED RESUME ;;
	*' JobId = '*) echo 'JOBKEYS' ;;
	*' NodeName = '*) echo 'State= Reason=' ;;
	*) echo 'JobId= JobName= NodeName=' ;;
	esac
}

_gleaner_options() {
	case $1 in
OPTIONS
	esac
}

# What may follow a command and the words after it.
_gleaner_operands() {
	case "$1 $2" in
OPERANDS
	'cancel '* | 'attach ' | 'forward ' | 'control hold' | 'control release' | 'control requeue' | 'control show job') _gleaner_jobs ;;
	'control update'*) _gleaner_updates "$2" ;;
	'control show') echo 'ENTITIES' ;;
	'control show node' | 'reclaim ' | 'release ') _gleaner_ask ginfo --noheader --Node --format=%N ;;
	'control show partition') _gleaner_ask ginfo --noheader --format=%R ;;
	esac
}

# What may be the argument of an option.
_gleaner_values() {
	case "$1 $2" in
VALUES
	esac
}

_gleaner() {
	local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} program=${COMP_WORDS[0]##*/} first=1 words word
	local command=${program#g}
	COMPREPLY=()
	if [[ $program == gleaner ]]; then
		if ((COMP_CWORD == 1)); then
			COMPREPLY=($(compgen -W 'NAMES' -- "$current"))
			return
		fi
		command=${COMP_WORDS[1]}
		first=2
	fi
	# bash makes three words of --name=value.
	if [[ $current == = ]]; then
		current=
	elif [[ $previous == = ]] && ((COMP_CWORD > 1)); then
		previous=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	if [[ $current == -* ]]; then
		words=$(_gleaner_options "$command")
	elif [[ $previous == -* ]] && words=$(_gleaner_values "$command" "$previous") && [[ $words ]]; then
		:
	else
		words=$(_gleaner_operands "$command" "${COMP_WORDS[*]:first:COMP_CWORD-first}")
	fi
	# Not with compgen -W, which would carry out a command that a node has for the name of
	# its GPUs; nor may such a name get onto the command line.
	read -r -d '' -a words <<<"$words"
	for word in "${words[@]}"; do
		[[ $word == *[^[:alnum:]_.:/@%+=-]* || $word != "$current"* ]] || COMPREPLY+=("$word")
	done
	# A value follows at once.
	[[ ${COMPREPLY[*]} != *[=:] ]] || compopt -o nospace 2>/dev/null
}

complete -o default -F _gleaner PROGRAMS
`
