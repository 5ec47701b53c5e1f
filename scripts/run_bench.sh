#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs each *_bench of a folder, one after the other, and adds the JSON lines that they print to
# RESULTS/<date>-<machine>.jsonl.
# usage: run_bench.sh FOLDER RESULTS [SECONDS]      (SECONDS: the limit for one benchmark, 600)
#
# A benchmark prints JSON objects, one a line, on stdout; anything else goes to a log beside the
# results. It finds what to write into them in QUARRY_MACHINE, QUARRY_DATE and QUARRY_COMMIT. One that
# fails or hangs leaves a line that says so: {"bench":"failed","params":{"program","error"},"value":null,...}.
set -uo pipefail
folder=$1 results=$2 limit=${3:-600}

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
for bench in "$folder"/*_bench; do
  [ -x "$bench" ] || continue
  ran=$((ran + 1))
  name=$(basename "$bench")
  echo "-- $name (at most $limit s)"
  before=$SECONDS
  (timeout --kill-after=10 "$limit" "$bench"; exit $?) 2>>"$log" |  # in ( ): what bash says of a crash
    while IFS= read -r line; do
      case $line in
        '{'*) tee -a "$lines" <<<"$line" ;;
        *) echo "$line" >>"$log" ;;
      esac
    done
  status=${PIPESTATUS[0]}
  if [ "$status" -eq 0 ]; then
    echo "-- $name: $((SECONDS - before)) s"
    continue
  fi
  failed=$((failed + 1))
  case $status in
    124 | 137) why="no end within $limit s" ;;
    *) why="exit status $status" ;;
  esac
  echo "-- $name: $why (log: $log)"
  {
    printf '{"bench":"failed","params":{"program":"%s","error":"%s"},"value":null,"unit":"",' "$name" "$why"
    printf '"machine":"%s","date":"%s","commit":"%s"}\n' "$QUARRY_MACHINE" "$QUARRY_DATE" "$QUARRY_COMMIT"
  } | tee -a "$lines"
done
if [ "$ran" -eq 0 ]; then
  echo "error: no *_bench in $folder" >&2
  exit 1
fi
echo "$ran benchmarks, $failed failed; results in $lines"
[ "$failed" -eq 0 ]
