#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and tests the presets, and compiles the preset cuda if nvcc is installed. The last line is `N passed, N failed`. The lines
# above it name the failures. A broken build counts as one failure. Skipped tests count as neither.
# QUARRY_CTEST: further arguments for ctest, such as -LE long, which leaves out tests that take a minute or more.
# Builds all presets but the first in the background, at a low priority, while the first is built and the tests of earlier presets run:
# else a core is idle at the end of each build and of each preset's tests.
# usage: scripts/run_tests.sh [PRESET...]      (those of make test in CMakePresets.json, python, the GPU's programs, and short fuzzing)
# The word `python` in place of a preset tests the Python package (scripts/test_python.sh), beside the tests of the presets.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

without_wide_randomisation scripts/run_tests.sh "$@"

results=build/test-results
passed=0 failed=0 skipped=0
failures=()  # one line for each failure
builder=  # the process of scripts/build_in_order.sh
rm -rf "$results"
mkdir -p "$results"

# failed_step TEXT: records a failed build or program as one failure.
failed_step() {
  failed=$((failed + 1))
  failures+=("$1")
  step "$1: counted as one failure"
}

# seeds_of PRESET: prints variables that set the seeds of random interleavings. In `checked` the seeds change each day. In other
# presets they are always the same.
seeds_of() {
  case $1 in
    checked) echo "QUARRY_TEST_SEEDS=${QUARRY_TEST_SEEDS:-5} QUARRY_TEST_FIRST_SEED=${QUARRY_TEST_FIRST_SEED:-$(($(date +%s) / 86400 * 5))}" ;;
    *) echo "QUARRY_TEST_SEEDS=${QUARRY_TEST_SEEDS:-50}" ;;
  esac
}

# add_summary NAME FILE: adds the output of count_tests.py to the totals. Sets `bad` to the number of failures.
add_summary() {
  local good skips
  read -r good bad skips < <(tail -n 1 "$2")
  passed=$((passed + good)) failed=$((failed + bad)) skipped=$((skipped + skips))
  mapfile -t -O "${#failures[@]}" failures < <(sed -n "s/^failed: /$1: /p" "$2")
}

# start_builds WORD...: builds these in the background, one after the other. Bash would let them ignore SIGINT, so that Ctrl-C would not end
# them.
start_builds() {
  [ $# -gt 0 ] || return 0
  step "in the background: building $* (logs: $results/build-*.log)"
  env --default-signal=INT,QUIT scripts/build_in_order.sh "$results" "$@" &
  builder=$!
}

# wait_for_build WORD: waits until it is built. Returns the status of the build.
wait_for_build() {
  until [ -e "$results/build-$1" ] || ! kill -0 "$builder" 2>/dev/null; do sleep 0.2; done
  return "$(cat "$results/build-$1" 2>/dev/null || echo 1)"
}

# has_built WORD: waits until it is built. Records a failed build.
has_built() {
  wait_for_build "$1" && return
  cat "$results/build-$1.log" 2>/dev/null
  failed_step "build/${1%-all} does not build"
  return 1
}

# finish_python: waits for the Python package's tests, and adds their results to the totals.
finish_python() {
  local junit=$results/python.xml summary=$results/python.txt bad status=0
  wait_for_build python || status=$?
  cat "$results/build-python.log"
  python3 scripts/count_tests.py --pytest "$junit" >"$summary" 2>/dev/null || { failed_step "the Python package does not build"; return; }
  head -n -1 "$summary"
  add_summary python "$summary"
  if [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then failed_step "the tests of the Python package ended with status $status"; fi
}

# test_preset PRESET: tests a preset, and adds its results to the totals.
test_preset() {
  local preset=$1 junit=$results/$1.xml summary=$results/$1.txt status seeds bad
  has_built "$preset" || return
  seeds=$(seeds_of "$preset")
  step "testing build/$preset ($seeds)"
  rm -rf "build/$preset/test-results"
  # shellcheck disable=SC2086
  env $seeds ctest --preset "$preset" --progress --no-tests=error --test-output-size-failed 1000000 \
    --parallel "${CTEST_PARALLEL_LEVEL:-$(nproc)}" --output-log "$PWD/$results/$preset.log" --output-junit "$PWD/$junit" ${QUARRY_CTEST:-}
  status=$?
  python3 scripts/count_tests.py "$junit" "build/$preset/test-results" >"$summary" || { failed_step "ctest of build/$preset left no complete results"; return; }
  head -n -1 "$summary"
  add_summary "$preset" "$summary"
  if [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then failed_step "ctest of build/$preset ended with status $status"; fi
}

# test_fuzz_targets: fuzzes each target for a short time. Each is one test.
test_fuzz_targets() {
  local log=$results/fuzz.log
  FUZZ_PRESET=checked FUZZ_SECONDS=5 scripts/fuzz.sh 2>&1 | tee "$log"
  passed=$((passed + $(grep -c ' inputs$' "$log")))
  mapfile -t -O "${#failures[@]}" failures < <(sed -n 's/^failed: /fuzzing of /p' "$log")
  failed=$((failed + $(grep -c '^failed: ' "$log")))
  grep -qE ' inputs$|^failed: ' "$log" || failed_step "the fuzz targets do not build"
}

is_fuzzing=no
if [ $# -eq 0 ]; then
  is_fuzzing=yes
  mapfile -t presets < <(presets_of test)
  # Python comes before cuda, so that its tests, which take long on one core, do not end last. It comes after checked, since ccache has
  # the objects of dev by then. It and cuda have equal libraries: the last preset comes between them, so that ccache compiles these once.
  set -- "${presets[@]::${#presets[@]}-1}" python "${presets[-1]}"
  if has_nvcc; then set -- "$@" cuda; else step "no nvcc: the CUDA build is skipped"; fi
fi
if [ "$1" = python ]; then
  start_builds "$@"
else
  start_builds "${@:2}"
  build_for_tests "$1"
  echo $? >"$results/build-$1"
fi
for word in "$@"; do
  case $word in
    cuda | cuda-all | python) ;;  # below
    *) test_preset "$word" ;;
  esac
done
if [ "$is_fuzzing" = yes ]; then test_fuzz_targets; fi
for word in "$@"; do
  case $word in
    cuda | cuda-all) has_built "$word" ;;
    python) finish_python ;;
  esac
done

if [ "${#failures[@]}" -gt 0 ]; then printf -- '-- failed: %s\n' "${failures[@]}"; fi
if [ "$skipped" -gt 0 ]; then step "$skipped skipped (see $results)"; fi
echo "$passed passed, $failed failed" | tee "$results/summary.txt"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
