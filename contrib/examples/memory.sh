#!/bin/bash
#GSUB --job-name=memory
#GSUB --mem=64M
#GSUB --time=2
# Uses more memory than it asked for. The kernel kills it at its limit, and the job
# ends OUT_OF_MEMORY. Nothing else on the node is affected.
head -c 512M /dev/zero | tail -n 1 | wc -c
