#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures classical programs with 1,024, 65,536 and 262,144 ranks on a GPU: those of tests/mpi/programs, compiled by
# scripts/build_mpi_bench.sh. Appends their JSON lines to RESULTS/<date>-<host>.jsonl. A run of more than 25 s has no line.
# usage: run_mpi_scale.sh FOLDER RESULTS
#
# QUARRY_HOST, QUARRY_DATE and QUARRY_COMMIT as in run_mpi_bench.sh.
set -uo pipefail
folder=$1 results=$2
export QUARRY_SYSTEM=quarry-gpu QUARRY_DATE=${QUARRY_DATE:-$(date -u +%F)} QUARRY_COMMIT=${QUARRY_COMMIT:-unknown}
export QUARRY_HOST=${QUARRY_HOST:-$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1 | tr 'A-Z ' 'a-z-')}
export QUARRY_MACHINE="Quarry on $QUARRY_HOST"
unset QUARRY_MPI_MALLOC
mkdir -p "$results"

for program in 'pi 2000000' 'monte_carlo 1000' 'primes 4000000' 'heat_1d 524288' 'heat_2d 2048 2048' 'cannon 512' conjugate_gradient \
  sample_sort word_count; do
  for ranks in 1024 65536 262144; do
    read -r name arguments <<<"$program"
    begin=$SECONDS
    # shellcheck disable=SC2086  # several arguments
    timeout --kill-after=5 25 "$folder/quarry-mpirun" --device gpu -n "$ranks" "$folder/$name.timed.quarry" ${arguments:-} \
      >"$results/out.txt" 2>"$results/err.txt"
    status=$?
    grep -a '^{' "$results/out.txt" >>"$results/$QUARRY_DATE-$QUARRY_HOST.jsonl"
    echo "-- $ranks ranks, $program: status $status, $((SECONDS - begin)) s"
    [ "$status" -eq 0 ] || head -n 3 "$results/err.txt"
  done
done
