#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds fuzz targets with libFuzzer and runs each for FUZZ_SECONDS (60), one on each core. Keeps inputs that cover new code in
# build/fuzz/corpus, and inputs that fail in build/fuzz/failures. Prints `TARGET: N inputs` or `failed: TARGET` for each.
# FUZZ_PRESET (fuzz): the preset that builds the targets. `make test` builds them in `checked`, on its libraries.
# usage: scripts/fuzz.sh [TARGET...]      (all: a target X for each tests/fuzz/X_fuzz.cpp)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

readonly folder=build/${FUZZ_PRESET:-fuzz}
export folder  # for fuzz, which xargs starts in a shell of its own

# fuzz TARGET: runs a target. Prints a line with the number of inputs, or the end of the log if an input fails.
fuzz() {
  local target=$1 log=build/fuzz/$1.log
  if "$folder/tests/fuzz.$target" -max_total_time="${FUZZ_SECONDS:-60}" -max_len=4096 -timeout=20 -print_final_stats=1 \
    -artifact_prefix=build/fuzz/failures/ "build/fuzz/corpus/$target" >"$log" 2>&1; then
    echo "$target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs"
  else
    printf '%s\nfailed: %s\n' "$(tail -n 40 "$log")" "$target (see build/fuzz/failures)"
    return 1
  fi
}

if [ $# -gt 0 ]; then
  build "${folder#build/}" "${@/#/fuzz.}"
else
  build "${folder#build/}" fuzz_programs
  mapfile -t targets <"$folder/fuzz_targets.txt"
  set -- "${targets[@]}"
fi
mkdir -p "${@/#/build/fuzz/corpus/}" build/fuzz/failures
step "fuzzing $* for ${FUZZ_SECONDS:-60} seconds each (logs: build/fuzz/*.log)"
export -f fuzz
printf '%s\n' "$@" | xargs -P "$(nproc)" -I{} bash -c 'fuzz {}'
