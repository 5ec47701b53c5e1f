#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures what ranks on a GPU allocate: programs of bench/mpi and the timed programs of tests/mpi/programs, compiled by
# scripts/build_mpi_bench.sh. Appends their JSON lines to RESULTS/<date>-<host>.jsonl.
# usage: run_mpi_malloc_bench.sh FOLDER RESULTS [PART...]      (all parts, in this order)
#        operations, workload, large, programs: with each allocator behind malloc
#        arrays: contiguous and interleaved arrays. arms: a call in each arm of a branch, and one call before the branch
#
# QUARRY_HOST, QUARRY_DATE and QUARRY_COMMIT as in run_mpi_bench.sh.
set -uo pipefail
folder=$1 results=$2
shift 2
[ $# -gt 0 ] || set -- operations workload large programs arrays arms
export QUARRY_SYSTEM=quarry-gpu QUARRY_DATE=${QUARRY_DATE:-$(date -u +%F)} QUARRY_COMMIT=${QUARRY_COMMIT:-unknown}
export QUARRY_HOST=${QUARRY_HOST:-$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1 | tr 'A-Z ' 'a-z-')}
export QUARRY_MACHINE="Quarry on $QUARRY_HOST" QUARRY_MPI_MALLOC=collective
lines=$results/$QUARRY_DATE-$QUARRY_HOST.jsonl
mkdir -p "$results"

# run SECONDS RANKS PROGRAM ARGUMENT...: 32 ranks a warp, as in the seed, or RANKS_PER_WARP.
run() {
  local limit=$1 ranks=$2 program=$3 begin=$SECONDS status
  shift 3
  timeout --kill-after=5 "$limit" "$folder/quarry-mpirun" --device gpu --ranks-per-warp "${RANKS_PER_WARP:-32}" -n "$ranks" \
    "$folder/$program.quarry" "$@" >"$results/out.txt" 2>"$results/err.txt"
  status=$?
  grep -a '^{' "$results/out.txt" >>"$lines"
  echo "-- $QUARRY_MPI_MALLOC $ranks ranks, $program $*: status $status, $((SECONDS - begin)) s"
  [ "$status" -ne 0 ] || return
  head -n 3 "$results/err.txt"
  [ "$program" = operations ] || return
  printf '{"bench":"mpi/operation/time","params":{"system":"quarry-gpu","host":"%s","ranks":%d,"malloc":"%s","operation":"%s","doubles":%d,"error":"exit status %d"},"value":null,"unit":"ms","machine":"%s","date":"%s","commit":"%s"}\n' \
    "$QUARRY_HOST" "$ranks" "$QUARRY_MPI_MALLOC" "$1" "$2" "$status" "$QUARRY_MACHINE" "$QUARRY_DATE" "$QUARRY_COMMIT" >>"$lines"
}

operations() {
  for QUARRY_MPI_MALLOC in cuda cuda-map cuda-dynamic dynamic collective; do
    run 30 15360 operations reduce 16
    run 30 15360 operations broadcast 16
    run 30 256 operations alltoall 4
    run 30 2048 operations alltoall 4
    run 60 256 operations messages 4
    run 120 2048 operations messages 4 1 0
  done
}

workload() {
  for QUARRY_MPI_MALLOC in cuda cuda-map cuda-dynamic dynamic collective; do
    for floats in 25 100 200 300 400; do run 30 12288 workload.contiguous $floats; done
    run 30 65536 workload.contiguous 64
  done
}

# 16,384 ranks: 16 GiB of data, and 268 million messages.
large() {
  local -x QUARRY_MPI_HEAP=$((56 << 30))
  for QUARRY_MPI_MALLOC in collective dynamic cuda-dynamic cuda-map cuda; do
    run 60 16384 operations alltoall 4
    run 120 16384 operations messages 4 1 0
  done
}

# A run is a job of its own, so runs of one program are records of their own; the allocators take turns.
programs() {
  for _ in 1 2 3 4 5; do
    for QUARRY_MPI_MALLOC in cuda dynamic collective; do
      run 30 576 cannon.timed
      run 30 1024 conjugate_gradient.timed
      run 30 1024 copies.timed
      run 30 1024 heat_1d.timed 65536
      run 30 144 heat_2d.timed
      run 30 1024 n_body.timed 4096
      run 30 64 ping_pong.timed
      run 30 1024 primes.timed 2000000
      run 30 64 random_messages.timed
      run 30 1024 ring.timed
      run 30 1024 sample_sort.timed
      run 30 1024 word_count.timed
    done
  done
}

# run_both SECONDS RANKS PROGRAM ARGUMENT...: with contiguous arrays, then with interleaved ones.
run_both() {
  local -x QUARRY_ARRAYS
  for QUARRY_ARRAYS in contiguous interleaved; do run "$1" "$2" "$3.$QUARRY_ARRAYS" "${@:4}"; done
}

arrays() {
  for floats in 25 100 200 300 400; do run_both 30 12288 workload $floats; done
  run_both 30 65536 workload 64
  for order in walk apart random single; do
    for doubles in 64 1024; do run_both 30 12288 arrays $order $doubles; done
  done
  for order in walk random; do RANKS_PER_WARP=1 run_both 30 1024 arrays $order 1024; done
}

arms() {
  for floats in 25 100 200 300 400; do
    run 30 12288 arms-separate $floats 'two calls'
    run 30 12288 arms $floats 'one call'
  done
  run 30 65536 arms-separate 64 'two calls'
  run 30 65536 arms 64 'one call'
}

for part in "$@"; do
  QUARRY_MPI_MALLOC=collective
  "$part"
done
rm -f "$results/out.txt" "$results/err.txt"
