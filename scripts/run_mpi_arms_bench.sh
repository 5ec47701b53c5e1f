#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs bench/mpi/arms, compiled by scripts/build_mpi_bench.sh, on a GPU: with one call before the branch (arms.quarry), and with a call
# in each arm (arms-separate.quarry). Appends their JSON lines to RESULTS/<date>-<host>.jsonl.
# usage: run_mpi_arms_bench.sh FOLDER RESULTS
#
# QUARRY_HOST, QUARRY_DATE and QUARRY_COMMIT as in run_mpi_bench.sh.
set -uo pipefail
folder=$1 results=$2
export QUARRY_SYSTEM=quarry-gpu QUARRY_DATE=${QUARRY_DATE:-$(date -u +%F)} QUARRY_COMMIT=${QUARRY_COMMIT:-unknown}
export QUARRY_HOST=${QUARRY_HOST:-$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1)}
export QUARRY_MACHINE="Quarry on $QUARRY_HOST"
lines=$results/$QUARRY_DATE-$QUARRY_HOST.jsonl
mkdir -p "$results"

# run PROGRAM COMPILED RANKS FLOATS: 32 ranks a warp.
run() {
  timeout --kill-after=5 30 "$folder/quarry-mpirun" --device gpu --ranks-per-warp 32 -n "$3" "$folder/$1.quarry" "$4" "$2" >>"$lines"
  echo "-- $*: status $?"
}

for floats in 25 100 200 300 400; do
  run arms-separate 'two calls' 12288 $floats
  run arms 'one call' 12288 $floats
done
run arms-separate 'two calls' 65536 64
run arms 'one call' 65536 64
