#!/bin/bash
#GSUB --job-name=long
#GSUB --time=10
# Works until it is told to stop, and tidies up when it is.
trap 'echo "told to stop"; exit 0' TERM
echo "working"
while true; do
	sleep 0.2
done
