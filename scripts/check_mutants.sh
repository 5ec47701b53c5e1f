#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Relaxes one labelled memory order of the heap at a time (include/quarry/device/orders.hpp) and runs the tests that must
# notice, under ThreadSanitizer. Prints a line for each label; exits 1 if one goes unnoticed. About a minute for each.
# usage: scripts/check_mutants.sh [LABEL...]      (TEST_SECONDS: the limit for one test program, 120)
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
without_wide_randomisation scripts/check_mutants.sh "$@"

# The quicker ones first: what they notice need not be looked for by the last.
readonly tests=(
  device.slice_bitmap_test
  device.coalescing.lane_array_test
  device.block_test
  device.segment_table_test
  device.coalescing.superblock_test
  device.coalescing.superblock_map_test
  device.coalescing.dynamic_coalescing_test
  stress.heap_stress_test
)
readonly build=build/mutant
# Less history makes ThreadSanitizer forget an access before it meets the other half of a race.
export TSAN_OPTIONS='halt_on_error=1 history_size=5'

# run TEST: true if it passes. One that hangs counts as noticed, too: the tests of the heap as it is end.
run() { timeout --kill-after=5 "${TEST_SECONDS:-120}" "$build/tests/$1" --gtest_brief=1 >"build/mutant-$1.log" 2>&1; }

# check LABEL: prints what became of it. The empty label is the heap as it is, which must pass: else the tests prove nothing.
check() {
  local label=$1 test
  { cmake --preset tsan -B "$build" -DQUARRY_MUTANT="$label" && cmake --build "$build" --target "${tests[@]}"; } \
    >build/mutant.log 2>&1 || { cat build/mutant.log >&2; fail "build/mutant does not build"; }
  for test in "${tests[@]}"; do
    if ! run "$test"; then
      [ -n "$label" ] || { tail -n 40 "build/mutant-$test.log" >&2; fail "$test fails without a mutant"; }
      echo "order $label: caught by $test"
      return 0
    fi
  done
  [ -n "$label" ] || { echo "no mutant: passes"; return 0; }
  echo "order $label: NOT caught"
  return 1
}

mkdir -p build
labels=("$@")
[ $# -gt 0 ] || mapfile -t labels < <(sed -n 's/.*is_mutant("\([A-Z]\)").*/\1/p' include/quarry/device/orders.hpp | sort -u)
[ ${#labels[@]} -gt 0 ] || fail "no label in include/quarry/device/orders.hpp"
check ''
unnoticed=0
for label in "${labels[@]}"; do check "$label" || unnoticed=$((unnoticed + 1)); done
echo "${#labels[@]} orders relaxed, $unnoticed of them unnoticed"
[ "$unnoticed" -eq 0 ]
