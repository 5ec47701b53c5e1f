#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures the table of GPU MPI beside kernels by hand and another MPI, with what scripts/build_mpi_table.sh made in the folder of
# this script. Appends JSON lines to RESULTS/<date>-<host>.jsonl, and what it ran to RESULTS/table.log.
# usage: run.sh RESULTS [SYSTEM...]      by-hand, open-mpi, quarry-gpu (these three, in this order)
# On a host with two GPUs also: quarry-2-gpus, and nccl-2-gpus, which needs nvcc, and NCCL in the system or as a package of Python.
#
# TABLE_SECONDS: no program starts later than so many seconds after the begin (330). BENCH_SECONDS: for one run (15; a ring 35).
# TABLE_RANKS: numbers of ranks on the GPU (1024 4096 16384 65536 262144). TABLE_PROGRAMS: programs (all).
# QUARRY_MPI_HEAP: the bytes of the ranks' heap (40 GiB): buffers take 16 GiB together, and blocks of the heap are larger than these.
# QUARRY_HOST, QUARRY_DATE, QUARRY_COMMIT and MPIRUN as in run_mpi_bench.sh. A run that fails adds {"bench":"mpi/failed",...}.
set -uo pipefail
folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
results=${1:-results}
shift || true
[ $# -gt 0 ] || set -- by-hand open-mpi quarry-gpu

begin=$SECONDS budget=${TABLE_SECONDS:-330}
read -ra ranks <<<"${TABLE_RANKS:-1024 4096 16384 65536 262144}"
programs=" ${TABLE_PROGRAMS:-ping_pong barrier neighbours bcast allreduce alltoall stencil sample_sort particles ring} "
cores=$(nproc)
read -ra mpirun <<<"${MPIRUN:-mpirun --allow-run-as-root --oversubscribe --bind-to core}"
gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1)
case $gpu in
  *H100*) gpu=nvidia-h100 ;;
  *H200*) gpu=nvidia-h200 ;;
esac
export QUARRY_HOST=${QUARRY_HOST:-$gpu} QUARRY_DATE=${QUARRY_DATE:-$(date -u +%F)}
export QUARRY_COMMIT=${QUARRY_COMMIT:-$(cat "$folder/COMMIT" 2>/dev/null || echo unknown)}
export QUARRY_MPI_HEAP=${QUARRY_MPI_HEAP:-$((40 << 30))}
mkdir -p "$results"
results=$(cd "$results" && pwd)
tar -xJf "$folder/programs.tar.xz" -C "$results" --one-top-level=programs || exit 1
binaries=$results/programs
lines=$results/$QUARRY_DATE-$QUARRY_HOST.jsonl log=$results/table.log
ran=0 failed=0

say() { echo "$*" | tee -a "$log"; }

# record_failure PROGRAM RANKS OPERATION ERROR
record_failure() {
  printf '{"bench":"mpi/failed","params":{"system":"%s","host":"%s","program":"%s","ranks":%d%s,"error":"%s"},"value":null,"unit":"","machine":"%s","date":"%s","commit":"%s"}\n' \
    "$QUARRY_SYSTEM" "$QUARRY_HOST" "$1" "$2" "${3:+,\"operation\":\"$3\"}" "$4" "$QUARRY_MACHINE" "$QUARRY_DATE" "$QUARRY_COMMIT" >>"$lines"
}

# run PROGRAM RANKS: runs a program on the system, and keeps its lines.
run() {
  local part=$1 count=$2 program=$1 operation='' limit=${BENCH_SECONDS:-15} start=$SECONDS status command
  case $part in
    bcast | allreduce | alltoall) program=collectives operation=$part ;;
    ring) limit=$((limit + 20)) ;;
  esac
  if [ $((SECONDS - begin)) -gt "$budget" ]; then
    say "-- $QUARRY_SYSTEM $part $count ranks: skipped, no time is left"
    return
  fi
  case $QUARRY_SYSTEM in
    quarry-gpu) command=("$binaries/quarry-mpirun" --device gpu -n "$count" "$binaries/$program.quarry") ;;
    quarry-2-gpus) command=("$binaries/quarry-mpirun" --device gpu --gpus 2 -n "$count" "$binaries/$program.quarry") ;;
    nccl-2-gpus) command=("$binaries/nccl" "$program") ;;
    by-hand) command=("$binaries/by_hand" "$part") operation='' limit=40 ;;  # all numbers of ranks
    open-mpi) command=("${mpirun[@]}" -n "$count" "$binaries/$program.openmpi") ;;
  esac
  timeout --kill-after=5 "$limit" "${command[@]}" ${operation:+"$operation"} >"$results/out.txt" 2>"$results/err.txt"
  status=$?
  ran=$((ran + 1))
  grep -a '^{' "$results/out.txt" >>"$lines"
  say "-- $QUARRY_SYSTEM $part $count ranks: status $status, $(grep -ac '^{' "$results/out.txt") lines, $((SECONDS - start)) s"
  [ "$status" -ne 0 ] || return
  failed=$((failed + 1))
  head -n 12 "$results/err.txt" | cut -c 1-300 | tee -a "$log"
  # A failure after the first lines is in the log only, since the table has these lines.
  grep -aq '^{' "$results/out.txt" || record_failure "$program" "$count" "$operation" "exit status $status"
}

# run_all PART... : for each number of ranks in `counts`, those programs that are wanted.
run_all() {
  local count part
  for part in "$@"; do
    for count in "${counts[@]}"; do
      [[ $programs != *" $part "* ]] || run "$part" "$count"
    done
  done
}

for system in "$@"; do
  export QUARRY_SYSTEM=$system
  case $system in
    by-hand)
      export QUARRY_MACHINE="kernels by hand on $QUARRY_HOST"
      counts=(1) && run_all ping_pong barrier neighbours bcast allreduce alltoall stencil sample_sort particles ring
      ;;
    open-mpi)
      export QUARRY_MACHINE="Open MPI on $cores cores of the host of $QUARRY_HOST"
      command -v mpicc >/dev/null || { say "no mpicc: no other MPI"; continue; }
      for source in "$folder"/sources/*.c; do
        timeout 60 mpicc -O2 "$source" -o "$binaries/$(basename "$source" .c).openmpi" -lm 2>&1 | tee -a "$log"
      done
      for ((most = 1; 2 * most <= cores; most *= 2)); do :; done  # the programs want a power of two
      counts=(2) && run_all ping_pong
      counts=("$most") && run_all barrier neighbours bcast allreduce alltoall stencil sample_sort particles ring
      ;;
    quarry-gpu)
      export QUARRY_MACHINE="Quarry on $QUARRY_HOST"
      counts=(2) && run_all ping_pong
      counts=("${ranks[@]}") && run_all barrier bcast allreduce neighbours stencil sample_sort particles
      counts=()
      for count in "${ranks[@]}"; do [ "$count" -gt 16384 ] || counts+=("$count"); done  # memory is for the square of the ranks
      run_all alltoall
      counts=("${ranks[@]}") && run_all ring
      ;;
    quarry-2-gpus)
      export QUARRY_MACHINE="Quarry on two $QUARRY_HOST"
      counts=(2) && run_all ping_pong ring
      counts=("${ranks[@]}") && run_all barrier bcast allreduce neighbours stencil ring
      ;;
    nccl-2-gpus)
      export QUARRY_MACHINE="NCCL on two $QUARRY_HOST"
      nccl=$(python3 -c 'import nvidia.nccl; print(nvidia.nccl.__path__[0])' 2>/dev/null || echo /usr)
      nvcc -std=c++20 -O3 -arch=native -I "$nccl/include" "$folder/sources/by_hand/nccl.cu" -o "$binaries/nccl" \
        -L "$nccl/lib" -l:libnccl.so.2 -Xlinker "-rpath=$nccl/lib" 2>&1 | tee -a "$log"
      counts=(2) && run_all ping_pong stencil
      ;;
    *) echo "error: unknown system '$system' (by-hand, open-mpi, quarry-gpu, quarry-2-gpus, nccl-2-gpus)" >&2; exit 2 ;;
  esac
done
rm -f "$results/out.txt" "$results/err.txt"
rm -rf "$binaries"
say "$ran runs, $failed failed, $((SECONDS - begin)) s; results in $lines"
[ "$failed" -eq 0 ]
