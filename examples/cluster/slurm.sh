#!/usr/bin/env bash
# One learner, and games on all machines of a Slurm job:  sbatch --nodes 4 --cpus-per-task 16 examples/cluster/slurm.sh --config battle_balance
#SBATCH --job-name=jaxrl
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
set -euo pipefail
RAY_AUTH_TOKEN=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')   # a line of its own: a failure ends the job
export RAY_USAGE_STATS_ENABLED=0 SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK RAY_AUTH_MODE=token RAY_AUTH_TOKEN

head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun --nodes 1 --ntasks 1 -w "$head" ray start --head --node-ip-address="$head" --port=6379 --num-cpus="$SLURM_CPUS_PER_TASK" --block &
sleep 20
others=$((SLURM_JOB_NUM_NODES - 1))
[ "$others" = 0 ] || srun --nodes "$others" --ntasks "$others" --exclude "$head" ray start --address="$head:6379" --num-cpus="$SLURM_CPUS_PER_TASK" --block &
sleep 20
srun --overlap --nodes 1 --ntasks 1 -w "$head" jaxrl train "$@" sebulba.actors=1 \
    fleet.address="$head:6379" fleet.workers="$SLURM_JOB_NUM_NODES" fleet.cpus="$SLURM_CPUS_PER_TASK"
