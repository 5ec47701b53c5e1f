#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the programs of bench/mpi that scripts/build_mpi_bench.sh has compiled. Appends the JSON lines that they print to
# RESULTS/<date>-<host>.jsonl.
# usage: run_mpi_bench.sh FOLDER RESULTS SYSTEM...
#        SYSTEM: quarry-gpu, quarry-cpu (all ranks on one core) or open-mpi (a rank on each core, at most)
#
# QUARRY_HOST names the machine (the GPU, else the processor), QUARRY_PROGRAMS the programs (all). MPIRUN is the other MPI's command
# with its options, PEER_FOLDER the folder of its programs (FOLDER). A line's machine says where the ranks ran. A run that fails adds the line {"bench":"mpi/failed",...}.
set -uo pipefail
folder=$1 results=$2
shift 2

limit=${BENCH_SECONDS:-60}
programs=${QUARRY_PROGRAMS:-ping_pong ring barrier allreduce neighbours hello}
cores=$(nproc)
read -ra mpirun <<<"${MPIRUN:-mpirun --allow-run-as-root --oversubscribe --bind-to core}"
QUARRY_HOST=${QUARRY_HOST:-$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1)}
QUARRY_HOST=${QUARRY_HOST:-$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)}
QUARRY_DATE=${QUARRY_DATE:-$(date -u +%F)}
QUARRY_COMMIT=${QUARRY_COMMIT:-unknown}
slug=$(tr '[:upper:]' '[:lower:]' <<<"$QUARRY_HOST" | tr -cs 'a-z0-9\n' - | sed 's/^-*//; s/-*$//')
lines=$results/$QUARRY_DATE-$slug.jsonl log=$results/$QUARRY_DATE-$slug-mpi.log
mkdir -p "$results"
: >"$log"
ran=0 failed=0

# counts SYSTEM PROGRAM: the numbers of ranks.
counts() {
  local all
  case $2 in
    ping_pong) echo 2; return ;;
    ring) all='2 16 1024 32768 262144' ;;
    hello) all='16 262144' ;;
    *) all='16 1024 32768 262144' ;;
  esac
  case $1 in
    quarry-gpu) echo "$all" ;;
    quarry-cpu) for n in $all; do [ "$n" -gt 1024 ] || echo "$n"; done ;;
    open-mpi) for n in $all "$cores"; do [ "$n" -gt "$cores" ] || echo "$n"; done | sort -nu ;;
  esac
}

# start SYSTEM PROGRAM RANKS: runs the program; its output goes to stdout.
start() {
  case $1 in
    quarry-gpu) timeout --kill-after=5 "$limit" "$folder/quarry-mpirun" --device gpu -n "$3" "$folder/$2.quarry" ;;
    quarry-cpu) timeout --kill-after=5 "$limit" "$folder/quarry-mpirun" --device cpu -n "$3" "$folder/$2.quarry" ;;
    open-mpi) timeout --kill-after=5 "$limit" "${mpirun[@]}" -n "$3" "${PEER_FOLDER:-$folder}/$2.openmpi" ;;
  esac
}

# record BENCH RANKS MEMBERS VALUE UNIT [SPREAD]: prints a JSON line.
record() {
  printf '{"bench":"mpi/%s","params":{"system":"%s","host":"%s","ranks":%d%s},"value":%s,"unit":"%s",%s"machine":"%s","date":"%s","commit":"%s"}\n' \
    "$1" "$QUARRY_SYSTEM" "$QUARRY_HOST" "$2" "$3" "$4" "$5" "${6:+\"spread\":$6,}" "$QUARRY_MACHINE" "$QUARRY_DATE" "$QUARRY_COMMIT"
}

# hello SYSTEM RANKS: the seconds of five whole runs; fails unless each rank printed its line.
hello() {
  local begin end times=() run
  for run in 1 2 3 4 5; do
    begin=$(date +%s%N)
    start "$1" hello "$2" >"$results/hello.txt" 2>>"$log" || return
    end=$(date +%s%N)
    [ "$(sort -u "$results/hello.txt" | grep -cE "^hello from rank [0-9]+ of $2\$")" -eq "$2" ] || return 70
    times+=("$(awk "BEGIN { print ($end - $begin) / 1e9 }")")
  done
  mapfile -t times < <(printf '%s\n' "${times[@]}" | sort -g)
  record hello/run "$2" '' "${times[2]}" s "{\"p10\":${times[0]},\"p90\":${times[4]},\"runs\":$run}"
}

for system in "$@"; do
  case $system in
    quarry-gpu) QUARRY_MACHINE="Quarry on $QUARRY_HOST" ;;
    quarry-cpu) QUARRY_MACHINE="Quarry on one core of $QUARRY_HOST" ;;
    open-mpi) QUARRY_MACHINE="Open MPI on $cores cores of $QUARRY_HOST" ;;
    *) echo "error: unknown system '$system' (quarry-gpu, quarry-cpu, open-mpi)" >&2; exit 2 ;;
  esac
  [ "$system" = quarry-gpu ] || QUARRY_MACHINE=${QUARRY_MACHINE/of nvidia/of the host of nvidia}
  QUARRY_SYSTEM=$system
  export QUARRY_HOST QUARRY_MACHINE QUARRY_DATE QUARRY_COMMIT QUARRY_SYSTEM
  for program in $programs; do
    for ranks in $(counts "$system" "$program"); do
      begin=$SECONDS
      if [ "$program" = hello ]; then found=$(hello "$system" "$ranks"); else found=$(start "$system" "$program" "$ranks" 2>>"$log"); fi
      status=$?
      ran=$((ran + 1))
      if [ "$status" -ne 0 ]; then
        failed=$((failed + 1))
        record failed "$ranks" ",\"program\":\"$program\",\"error\":\"exit status $status\"" null '' >>"$lines"
      fi
      grep '^{' <<<"$found" >>"$lines"
      echo "-- $system $program $ranks ranks: status $status, $((SECONDS - begin)) s"
    done
  done
done
rm -f "$results/hello.txt"
echo "$ran runs, $failed failed; results in $lines"
[ "$failed" -eq 0 ]
