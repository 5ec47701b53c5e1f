#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs bench/mpi/workload and bench/mpi/operations, compiled by scripts/build_mpi_bench.sh, on a GPU with each allocator behind malloc.
# Appends their JSON lines to RESULTS/<date>-<host>.jsonl.
# usage: run_mpi_malloc_bench.sh FOLDER RESULTS
#
# QUARRY_HOST, QUARRY_DATE and QUARRY_COMMIT as in run_mpi_bench.sh.
set -uo pipefail
folder=$1 results=$2
export QUARRY_SYSTEM=quarry-gpu QUARRY_DATE=${QUARRY_DATE:-$(date -u +%F)} QUARRY_COMMIT=${QUARRY_COMMIT:-unknown}
export QUARRY_HOST=${QUARRY_HOST:-$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1)}
export QUARRY_MACHINE="Quarry on $QUARRY_HOST"
lines=$results/$QUARRY_DATE-$QUARRY_HOST.jsonl
mkdir -p "$results"

# run MALLOC SECONDS RANKS PROGRAM ARGUMENT...: 32 ranks a warp, as in the seed.
run() {
  local malloc=$1 limit=$2 ranks=$3 program=$4
  shift 4
  local begin=$SECONDS
  QUARRY_MPI_MALLOC=$malloc timeout --kill-after=5 "$limit" "$folder/quarry-mpirun" --device gpu --ranks-per-warp 32 -n "$ranks" \
    "$folder/$program.quarry" "$@" >"$results/out.txt" 2>"$results/err.txt"
  local status=$?
  grep '^{' "$results/out.txt" >>"$lines"
  echo "-- $malloc $ranks ranks, $program $*: status $status, $((SECONDS - begin)) s"
  [ "$status" -ne 0 ] || return
  head -n 3 "$results/err.txt"
  [ "$program" = operations ] || return
  printf '{"bench":"mpi/operation/time","params":{"system":"quarry-gpu","host":"%s","ranks":%d,"malloc":"%s","operation":"%s","doubles":%d,"error":"exit status %d"},"value":null,"unit":"ms","machine":"%s","date":"%s","commit":"%s"}\n' \
    "$QUARRY_HOST" "$ranks" "$malloc" "$1" "$2" "$status" "$QUARRY_MACHINE" "$QUARRY_DATE" "$QUARRY_COMMIT" >>"$lines"
}

for malloc in cuda cuda-map cuda-dynamic dynamic collective; do
  run $malloc 30 15360 operations reduce 16
  run $malloc 30 15360 operations broadcast 16
  run $malloc 30 256 operations alltoall 4
  run $malloc 30 2048 operations alltoall 4
  run $malloc 60 256 operations messages 4
  run $malloc 120 2048 operations messages 4 1 0
  for floats in 25 100 200 300 400; do run $malloc 30 12288 workload.contiguous $floats; done
  run $malloc 30 65536 workload.contiguous 64
done
rm -f "$results/out.txt" "$results/err.txt"
