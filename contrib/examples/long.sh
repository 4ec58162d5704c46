#!/bin/bash
#GSUB --job-name=long
#GSUB --time=10
# Works until it gets a signal to stop, and then cleans up.
trap 'echo "told to stop"; exit 0' TERM
echo "working"
while true; do
	sleep 0.2
done
