#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and tests the presets, compiles the CUDA one if nvcc is here, and sums up on the last line:
# `N passed, N failed`. A build that breaks counts as one failure; skipped tests count as neither. What failed is named above it.
# usage: scripts/run_tests.sh [PRESET...]      (dev hardened asan tsan, what cuda builds for a GPU, and a short fuzzing if Clang is here)
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

without_wide_randomisation scripts/run_tests.sh "$@"

results=build/test-results
passed=0 failed=0 skipped=0
rm -rf "$results"
mkdir -p "$results"

# numbers FILE: the tests that ran or should have, and how many failed, from ctest's summary, if any.
numbers() {
  sed 's/\x1b\[[0-9;]*m//g' "$1" 2>/dev/null |
    sed -n 's/^[0-9]*% tests passed, \([0-9]*\) tests\{0,1\} failed out of \([0-9]*\).*/\2 \1/p' | tail -n 1
}

failures=()  # what failed, a line each

failed_step() {
  failed=$((failed + 1))
  failures+=("$1")
  step "$1: counted as one failure"
}

# failed_tests LOG: the tests that ctest lists as failed, without their numbers.
failed_tests() {
  sed 's/\x1b\[[0-9;]*m//g' "$1" | sed -n 's/^[[:space:]]*[0-9]* - \(.*\) (\([^()]*\))[[:space:]]*$/\1 (\2)/p' |
    grep -v '(Skipped)$'
}

test_preset() {
  local preset=$1 log=$PWD/$results/$1.log status total bad skips
  if ! build "$preset"; then
    failed_step "build/$preset does not build"
    return
  fi
  step "testing build/$preset"
  ctest --preset "$preset" --progress --output-on-failure --no-tests=error \
    --parallel "${CTEST_PARALLEL_LEVEL:-$(nproc)}" --output-log "$log" --output-junit "${log%.log}.xml"
  status=$?
  read -r total bad <<<"$(numbers "$log")"
  total=${total:-0} bad=${bad:-0}
  skips=$(grep -c '^[^/]* - .* (Skipped)' "$log" || true)  # ctest counts them as passed
  passed=$((passed + total - bad - skips)) failed=$((failed + bad)) skipped=$((skipped + skips))
  if [ "$bad" -gt 0 ]; then mapfile -t -O "${#failures[@]}" failures < <(failed_tests "$log" | sed "s/^/$preset: /"); fi
  if [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then
    failed_step "ctest of build/$preset ended with status $status and no failed test"
  fi
}

fuzzes=no
if [ $# -eq 0 ]; then
  fuzzes=yes
  set -- dev hardened asan tsan
  if has_nvcc; then set -- "$@" cuda; else step "no nvcc: the CUDA build is not checked"; fi
fi
for preset in "$@"; do
  if [ "$preset" = cuda ]; then
    build cuda gpu_programs || failed_step "build/cuda does not build"
  else
    test_preset "$preset"
  fi
done

if [ "$fuzzes" = yes ]; then
  if clang_has_fuzzer; then
    for target in pool c_api; do
      if FUZZ_SECONDS=20 scripts/fuzz.sh "$target"; then passed=$((passed + 1)); else failed_step "fuzzing of $target"; fi
    done
  else
    step "no Clang with libFuzzer (see make fuzz): the fuzz targets ran with random inputs only"
  fi
fi

if [ "${#failures[@]}" -gt 0 ]; then printf -- '-- failed: %s\n' "${failures[@]}"; fi
if [ "$skipped" -gt 0 ]; then step "$skipped skipped (see $results)"; fi
echo "$passed passed, $failed failed" | tee "$results/summary.txt"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
