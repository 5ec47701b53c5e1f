#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs each *_bench of a folder, once for each allocator, one after the other, and adds the JSON lines
# that they print to RESULTS/<date>-<machine>.jsonl.
# usage: run_bench.sh FOLDER RESULTS [SECONDS [PROGRAM...]]
#        SECONDS: the limit for one program with one allocator (120); PROGRAM: heap_large_bench, say
#
# A benchmark prints JSON objects, one a line, on stdout; anything else goes to a log beside the
# results. It finds what to write into them in QUARRY_MACHINE, QUARRY_DATE and QUARRY_COMMIT.
# QUARRY_ALLOCATORS="quarry cuda" leaves the others out. What fails or hangs takes nothing else with it,
# and leaves a line that says so: {"bench":"failed","params":{"program","error"},"value":null,...}.
set -uo pipefail
folder=$1 results=$2 limit=${3:-120}
shift $(($# < 3 ? $# : 3))

QUARRY_MACHINE=${QUARRY_MACHINE:-$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1)}
QUARRY_MACHINE=${QUARRY_MACHINE:-$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)}
QUARRY_MACHINE=${QUARRY_MACHINE:-$(uname -m)}
QUARRY_DATE=${QUARRY_DATE:-$(date -u +%F)}
QUARRY_COMMIT=${QUARRY_COMMIT:-unknown}
export QUARRY_MACHINE QUARRY_DATE QUARRY_COMMIT

slug=$(tr '[:upper:]' '[:lower:]' <<<"$QUARRY_MACHINE" | tr -cs 'a-z0-9\n' - | sed 's/^-*//; s/-*$//')
lines=$results/$QUARRY_DATE-$slug.jsonl log=$results/$QUARRY_DATE-$slug.log
mkdir -p "$results"
: >"$log"
ran=0 failed=0

# run PROGRAM ALLOCATOR
run() {
  local name status why before=$SECONDS count
  name="$(basename "$1") $2"
  [ ! -e "$lines" ] || sed -i "/^{\"bench\":\"failed\",\"params\":{\"program\":\"$name\"/d" "$lines"
  count=$(wc -l 2>/dev/null <"$lines" || echo 0)
  (timeout --kill-after=10 "$limit" "$1" "$2"; exit $?) 2>>"$log" |  # in ( ): what bash says of a crash
    while IFS= read -r line; do
      case $line in
        '{'*) echo "$line" >>"$lines" ;;
        *) echo "$line" >>"$log" ;;
      esac
    done
  status=${PIPESTATUS[0]}
  ran=$((ran + 1))
  count=$(($(wc -l 2>/dev/null <"$lines" || echo 0) - count))
  case $status in
    0)
      echo "-- $name: $((SECONDS - before)) s, $count lines"
      return
      ;;
    3) why="ended by its watchdog; the last case did not end" ;;  # bench/trial.hpp
    124 | 137) why="no end within $limit s" ;;
    *) why="exit status $status" ;;
  esac
  failed=$((failed + 1))
  echo "-- $name: $((SECONDS - before)) s, $count lines; $why (log: $log)"
  {
    printf '{"bench":"failed","params":{"program":"%s","error":"%s"},"value":null,"unit":"",' "$name" "$why"
    printf '"machine":"%s","date":"%s","commit":"%s"}\n' "$QUARRY_MACHINE" "$QUARRY_DATE" "$QUARRY_COMMIT"
  } >>"$lines"
}

[ $# -gt 0 ] || set -- "$folder"/*_bench
for bench in "$@"; do
  bench=$folder/$(basename "$bench")
  [ -x "$bench" ] || continue
  for allocator in $("$bench" --allocators); do
    case " ${QUARRY_ALLOCATORS:-$allocator} " in
      *" $allocator "*) run "$bench" "$allocator" ;;
    esac
  done
done
if [ "$ran" -eq 0 ]; then
  echo "error: no *_bench in $folder, or none of the allocators asked for" >&2
  exit 1
fi
echo "$ran runs, $failed failed, $SECONDS s; results in $lines"
[ "$failed" -eq 0 ]
