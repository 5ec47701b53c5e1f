#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs bench/mpi/workload, bench/mpi/operations and the timed programs of tests/mpi/programs, compiled by
# scripts/build_mpi_bench.sh, on a GPU with each allocator behind malloc. Appends their JSON lines to RESULTS/<date>-<host>.jsonl.
# usage: run_mpi_malloc_bench.sh FOLDER RESULTS [PART...]      parts: operations, workload, large, programs (all)
#
# QUARRY_HOST, QUARRY_DATE and QUARRY_COMMIT as in run_mpi_bench.sh.
set -uo pipefail
folder=$1 results=$2
shift 2
parts=" ${*:-operations workload large programs} "
export QUARRY_SYSTEM=quarry-gpu QUARRY_DATE=${QUARRY_DATE:-$(date -u +%F)} QUARRY_COMMIT=${QUARRY_COMMIT:-unknown}
export QUARRY_HOST=${QUARRY_HOST:-$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1 | tr 'A-Z ' 'a-z-')}
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
  grep -a '^{' "$results/out.txt" >>"$lines"
  echo "-- $malloc $ranks ranks, $program $*: status $status, $((SECONDS - begin)) s"
  [ "$status" -ne 0 ] || return
  head -n 3 "$results/err.txt"
  [ "$program" = operations ] || return
  printf '{"bench":"mpi/operation/time","params":{"system":"quarry-gpu","host":"%s","ranks":%d,"malloc":"%s","operation":"%s","doubles":%d,"error":"exit status %d"},"value":null,"unit":"ms","machine":"%s","date":"%s","commit":"%s"}\n' \
    "$QUARRY_HOST" "$ranks" "$malloc" "$1" "$2" "$status" "$QUARRY_MACHINE" "$QUARRY_DATE" "$QUARRY_COMMIT" >>"$lines"
}

mallocs=(cuda cuda-map cuda-dynamic dynamic collective)

if [[ $parts == *" operations "* ]]; then
  for malloc in "${mallocs[@]}"; do
    run $malloc 30 15360 operations reduce 16
    run $malloc 30 15360 operations broadcast 16
    run $malloc 30 256 operations alltoall 4
    run $malloc 30 2048 operations alltoall 4
    run $malloc 60 256 operations messages 4
    run $malloc 120 2048 operations messages 4 1 0
  done
fi

if [[ $parts == *" workload "* ]]; then
  for malloc in "${mallocs[@]}"; do
    for floats in 25 100 200 300 400; do run $malloc 30 12288 workload.contiguous $floats; done
    run $malloc 30 65536 workload.contiguous 64
  done
fi

if [[ $parts == *" large "* ]]; then
  # 16,384 ranks: 16 GiB of data, and 268 million messages.
  export QUARRY_MPI_HEAP=$((56 << 30))
  for malloc in collective dynamic cuda-dynamic cuda-map cuda; do
    run $malloc 60 16384 operations alltoall 4
    run $malloc 120 16384 operations messages 4 1 0
  done
  unset QUARRY_MPI_HEAP
fi

# A run is a job of its own, so runs of one program are records of their own; the allocators take turns.
if [[ $parts == *" programs "* ]]; then
  for turn in 1 2 3 4 5; do
    for malloc in cuda dynamic collective; do
      run $malloc 30 576 cannon.timed
      run $malloc 30 1024 conjugate_gradient.timed
      run $malloc 30 1024 copies.timed
      run $malloc 30 1024 heat_1d.timed 65536
      run $malloc 30 144 heat_2d.timed
      run $malloc 30 1024 n_body.timed 4096
      run $malloc 30 64 ping_pong.timed
      run $malloc 30 1024 primes.timed 2000000
      run $malloc 30 64 random_messages.timed
      run $malloc 30 1024 ring.timed
      run $malloc 30 1024 sample_sort.timed
      run $malloc 30 1024 word_count.timed
    done
  done
fi
rm -f "$results/out.txt" "$results/err.txt"
