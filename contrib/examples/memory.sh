#!/bin/bash
#GSUB --job-name=memory
#GSUB --mem=64M
#GSUB --time=2
# Wants more memory than it asked for: the kernel kills it at its limit, and
# the job ends OUT_OF_MEMORY. Nobody else on the node notices.
head -c 512M /dev/zero | tail -n 1 | wc -c
