#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs bench/mpi/workload and bench/mpi/arrays on a GPU with contiguous and with interleaved arrays. scripts/build_mpi_bench.sh makes
# both of each. Appends their JSON lines to RESULTS/<date>-<host>.jsonl, with params.arrays.
# usage: run_mpi_arrays_bench.sh FOLDER RESULTS
#
# QUARRY_HOST, QUARRY_DATE and QUARRY_COMMIT as in run_mpi_bench.sh.
set -uo pipefail
folder=$1 results=$2
export QUARRY_SYSTEM=quarry-gpu QUARRY_DATE=${QUARRY_DATE:-$(date -u +%F)} QUARRY_COMMIT=${QUARRY_COMMIT:-unknown}
export QUARRY_HOST=${QUARRY_HOST:-$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1)}
export QUARRY_MACHINE="Quarry on $QUARRY_HOST" QUARRY_MPI_MALLOC=collective
lines=$results/$QUARRY_DATE-$QUARRY_HOST.jsonl
mkdir -p "$results"

# run RANKS RANKS_PER_WARP PROGRAM ARGUMENT...: contiguous and interleaved, one after the other.
run() {
  local ranks=$1 of_warp=$2 program=$3
  shift 3
  for form in contiguous interleaved; do
    QUARRY_ARRAYS=$form timeout --kill-after=5 30 "$folder/quarry-mpirun" --device gpu --ranks-per-warp "$of_warp" -n "$ranks" \
      "$folder/$program.$form.quarry" "$@" | grep -a '^{' >>"$lines"
    echo "-- $form $ranks ranks, $program $*: status ${PIPESTATUS[0]}"
  done
}

for floats in 25 100 200 300 400; do run 12288 32 workload "$floats"; done
run 65536 32 workload 64
for order in walk apart random single; do
  for doubles in 64 1024; do run 12288 32 arrays $order $doubles; done
done
for order in walk random; do run 1024 1 arrays $order 1024; done
