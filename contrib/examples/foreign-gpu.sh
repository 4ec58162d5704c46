#!/bin/bash
#GSUB --job-name=foreign-gpu
#GSUB --gpus=1
#GSUB --time=2
# Tries to open every GPU of its node, through device files in the folder given as
# the argument. Only its own GPU opens. The kernel refuses the others, and it
# refuses to make a device file.
opened=0 refused=0
for gpu in "$1/$SLURMD_NODENAME"-gpu*; do
	if answer=$(bash -c "exec 3<>'$gpu'" 2>&1); then
		opened=$((opened + 1))
	elif [[ $answer == *"Operation not permitted"* ]]; then
		refused=$((refused + 1))
	else
		echo "unexpected: $answer"
	fi
done
echo "opened $opened, refused $refused"
mknod /tmp/gpu c 4 10 2>/dev/null && echo "made a device file"
[ "$opened" -eq 1 ] && [ "$refused" -ge 1 ]
