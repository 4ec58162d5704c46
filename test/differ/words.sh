# The words of the rows. shellcheck shell=bash

# submit OPTION...: a job's number and nothing else.
submit() { sbatch --parsable "$@"; }

# until_state JOB STATE...: waits until the job is in one of these states.
until_state() {
	local job=$1 tries=200 state wanted
	shift
	while [ $((tries -= 1)) -gt 0 ]; do
		state=$(squeue --noheader --states=all --jobs="$job" --format=%T 2> /dev/null | sort -u)
		for wanted; do [ "$state" != "$wanted" ] || return 0; done
		sleep 0.1
	done
	echo "job $job is $state, not $*"
}

# over JOB...: waits until they all are.
over() {
	local job tries
	for job; do
		tries=300
		while squeue --noheader --jobs="$job" --format=%i 2> /dev/null | grep -q .; do
			[ $((tries -= 1)) -gt 0 ] || { echo "job $job is not over"; break; }
			sleep 0.1
		done
	done
}

# queue JOB FORMAT: what squeue says of it, whatever its state.
queue() { squeue --noheader --states=all --jobs="$1" --format="$2"; }

# record JOB KEY...: these keys of scontrol show job, in this order.
record() {
	local job=$1 key
	shift
	for key; do
		scontrol show job "$job" | tr ' ' '\n' | grep "^$key=" || echo "no $key"
	done
}

# variables NAME...: what a batch script sees of them.
variables() { for name; do echo "$name=${!name-unset}"; done; }

# in_batch 'COMMANDS' OPTION...: what a script of these commands writes.
in_batch() {
	local commands=$1 job
	shift
	job=$(sbatch --parsable --output=out "$@" --wrap="$commands") || return
	over "$job"
	cat out
}

as() { setpriv --reuid "$1" --regid "$1" --init-groups env USER="$1" "${@:2}"; }

# past JOB FORMAT [OPTION...]: what sacct says of it when it is over there.
past() {
	local tries=100
	over "$1"
	while sacct --noheader --parsable2 --allocations --jobs="$1" --format=End 2> /dev/null | grep -q -e Unknown -e '^$' || [ -z "$(sacct --noheader --parsable2 --jobs="$1" --format=JobID)" ]; do
		[ $((tries -= 1)) -gt 0 ] || break
		sleep 0.1
	done
	sacct --noheader --parsable2 --jobs="$1" --format="$2" "${@:3}"
}
