#!/bin/bash
#GSUB --job-name=array
#GSUB --array=0-7%4
#GSUB --time=2
# Each task takes every eighth file below the folder given as the argument, and
# writes the checksums and sizes of its files. Together the tasks cover all files.
set -eu
find "$1" -type f -name '*.go' | LC_ALL=C sort |
	awk -v n="$SLURM_ARRAY_TASK_COUNT" -v k="$SLURM_ARRAY_TASK_ID" 'NR % n == k' |
	while read -r file; do
		sha256sum "$file"
	done > "array-part-$SLURM_ARRAY_TASK_ID.txt"
wc -l < "array-part-$SLURM_ARRAY_TASK_ID.txt"
