#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds a fuzz target with libFuzzer and runs it for FUZZ_SECONDS (60). Keeps inputs that cover new code in build/fuzz/corpus,
# and inputs that fail in build/fuzz/failures.
# usage: scripts/fuzz.sh TARGET      (pool, c_api, trace, plan, rmm_log, text_log or umpire_log)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

[ $# -eq 1 ] || fail "usage: scripts/fuzz.sh TARGET"
build fuzz "fuzz.$1"
mkdir -p "build/fuzz/corpus/$1" build/fuzz/failures
step "fuzzing $1 for ${FUZZ_SECONDS:-60} seconds (log: build/fuzz/$1.log)"
if ! "build/fuzz/tests/fuzz.$1" -max_total_time="${FUZZ_SECONDS:-60}" -max_len=4096 -timeout=20 -print_final_stats=1 \
  -artifact_prefix=build/fuzz/failures/ "build/fuzz/corpus/$1" >"build/fuzz/$1.log" 2>&1; then
  tail -n 40 "build/fuzz/$1.log" >&2
  fail "an input makes $1 fail; see build/fuzz/failures"
fi
sed -n 's/^stat::number_of_executed_units: */   inputs: /p' "build/fuzz/$1.log"
