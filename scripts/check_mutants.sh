#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Relaxes one labelled memory order of the heap at a time (include/quarry/device/orders.hpp) and runs the tests that must
# notice, under ThreadSanitizer. Prints a line for each label; exits 1 if one goes unnoticed.
# usage: scripts/check_mutants.sh [LABEL...]
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
[ $# -gt 0 ] || set -- R C A T O I J S W
unnoticed=0
for label in "$@"; do
  build=build/mutant-$label
  cmake --preset tsan -B "$build" -DQUARRY_MUTANT="$label" >/dev/null || exit 1
  cmake --build "$build" --target stress.heap_stress_test device.segment_table_test >/dev/null || exit 1
  caught=""
  for test in stress.heap_stress_test device.segment_table_test; do
    TSAN_OPTIONS=halt_on_error=1 timeout 300 "$build/tests/$test" >/dev/null 2>&1 || caught="$caught $test"
  done
  if [ -n "$caught" ]; then
    echo "order $label: caught by$caught"
  else
    echo "order $label: NOT caught"
    unnoticed=1
  fi
done
exit $unnoticed
