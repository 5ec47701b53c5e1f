#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs each *_bench of a folder, once for each allocator, one after the other. Appends the JSON lines
# that they print to RESULTS/<date>-<machine>.jsonl.
# usage: run_bench.sh FOLDER RESULTS [SECONDS [PROGRAM...]]
#        SECONDS: the limit for one program with one allocator (120); PROGRAM: for example heap_large_bench
#
# A benchmark prints one JSON object a line to stdout. Other lines go to a log beside the results. The
# benchmark copies QUARRY_MACHINE, QUARRY_DATE and QUARRY_COMMIT from the environment to its lines.
# QUARRY_ALLOCATORS="quarry cuda" runs only these allocators. A run that fails or hangs does not affect
# other runs. It adds the line {"bench":"failed","params":{"program","error"},"value":null,...}.
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

# run PROGRAM ALLOCATOR: runs a program with one allocator, and replaces the line of an earlier failure.
run() {
  local name status reason start=$SECONDS count
  name="$(basename "$1") $2"
  [ ! -e "$lines" ] || sed -i "/^{\"bench\":\"failed\",\"params\":{\"program\":\"$name\"/d" "$lines"
  count=$(wc -l 2>/dev/null <"$lines" || echo 0)
  (timeout --kill-after=10 "$limit" "$1" "$2"; exit $?) 2>>"$log" |  # ( ) catches bash's message about a crash
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
      echo "-- $name: $((SECONDS - start)) s, $count lines"
      return
      ;;
    3) reason="ended by its watchdog; the last case did not end" ;;  # bench/trial.hpp
    124 | 137) reason="no end within $limit s" ;;
    *) reason="exit status $status" ;;
  esac
  failed=$((failed + 1))
  echo "-- $name: $((SECONDS - start)) s, $count lines; $reason (log: $log)"
  {
    printf '{"bench":"failed","params":{"program":"%s","error":"%s"},"value":null,"unit":"",' "$name" "$reason"
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
  echo "error: $folder has no *_bench, or its programs have none of the requested allocators" >&2
  exit 1
fi
echo "$ran runs, $failed failed, $SECONDS s; results in $lines"
[ "$failed" -eq 0 ]
