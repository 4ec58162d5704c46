#!/bin/bash
#GSUB --job-name=gang
#GSUB --nodes=2 --ntasks-per-node=2
#GSUB --gpus-per-node=2
#GSUB --time=2
# Four ranks on two nodes. The job starts on both nodes or on none; grun
# starts the ranks and labels each line with its rank.
echo "nodes: $SLURM_JOB_NODELIST"
grun --label bash -c 'echo "rank $SLURM_PROCID of $SLURM_NTASKS on $SLURMD_NODENAME, GPUs $SLURM_JOB_GPUS, visible as $CUDA_VISIBLE_DEVICES"'
