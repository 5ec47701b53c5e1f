#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the cuda preset and collects in dist/gpu the programs that test and measure Quarry on another
# machine. That machine needs a GPU, a driver and glibc, but no toolkit, no Python and no libstdc++.
# On it, run `./run.sh`.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

readonly bundle=dist/gpu max_mebibytes=60
readonly data=data/debian-12-depends.el.gz

# The shared libraries that a program may need: glibc's.
readonly allowed='^(libc|libm|libdl|librt|libpthread)\.so\.[0-9]+$|^ld-linux'

# check_program PROGRAM: fails if it needs other shared libraries, or libraries that are missing.
check_program() {
  local program=$1 foreign missing
  foreign=$(objdump -p "$program" | awk '$1 == "NEEDED" { print $2 }' | grep -vE "$allowed" || true)
  [ -z "$foreign" ] || fail "$program needs $(tr '\n' ' ' <<<"$foreign")besides glibc; link it statically"
  missing=$(ldd "$program" | grep 'not found' || true)
  [ -z "$missing" ] || fail "$program: $missing"
}

# glibc_needed PROGRAM...: prints the newest version of glibc's symbols that a program needs.
glibc_needed() { objdump -T "$@" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1 | tr _ ' '; }

has_nvcc || fail "no nvcc on PATH or in /usr/local/cuda: install the CUDA toolkit to build for a GPU"
build cuda gpu_programs

step "collecting $bundle"
rm -rf "$bundle"
mkdir -p "$bundle/bench"
shopt -s nullglob
mapfile -t benches < <(find build/cuda/bench -maxdepth 1 -name '*_bench' ! -name 'opencl_*' ! -name 'trace_*' 2>/dev/null)  # these need OpenCL's loader, or data/
[ ${#benches[@]} -gt 0 ] || step "the build has no benchmarks"
install -s build/cuda/tests/quarry_gpu_{,rdc_,trace_}tests build/cuda/tests/quarry_gpu_tests_hardened build/cuda/examples/graph_demo "$bundle"
[ ${#benches[@]} -eq 0 ] || install -s "${benches[@]}" "$bundle/bench"
install -m 644 "$data" "$bundle"
install scripts/run_bench.sh "$bundle"
commit >"$bundle/COMMIT"

cat >"$bundle/run.sh" <<'RUN'
#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests and measures Quarry on this machine's GPU. scripts/gpu_bundle.sh wrote this script.
# usage: run.sh [RESULTS_FOLDER] [tests|demo|bench ...]      (results, all three)
# Writes to RESULTS_FOLDER: steps.jsonl, with {"step","status","seconds"} for each step; the figures
# as <date>-<machine>.jsonl, for bench/results; and the logs. Ends a step that hangs after
# TEST_SECONDS, DEMO_SECONDS or BENCH_SECONDS (for one benchmark with one allocator).
set -uo pipefail
folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [ ! -e /dev/nvidiactl ] && [ ! -e /dev/dxg ]; then  # the driver's device, on Linux and in WSL
  echo "error: no /dev/nvidiactl: this machine has no NVIDIA GPU or no driver, or the container has no access to it" >&2
  exit 2
fi
results=$(realpath -m "${1:-results}")
shift || true
[ $# -gt 0 ] || set -- tests demo bench
QUARRY_COMMIT=$(cat "$folder/COMMIT")
export QUARRY_COMMIT
mkdir -p "$results"
cd "$folder" || exit 1
failed=0

# run_step NAME SECONDS COMMAND...: runs the command with a time limit. Appends a line to steps.jsonl.
run_step() {
  local name=$1 limit=$2 start=$SECONDS status
  shift 2
  echo "== $name (at most $limit s)"
  timeout --kill-after=10 "$limit" "$@" 2>&1 | tee "$results/$name.log"
  status=${PIPESTATUS[0]}
  [ "$status" -eq 0 ] || failed=$((failed + 1))
  printf '{"step":"%s","status":%d,"seconds":%d}\n' "$name" "$status" $((SECONDS - start)) |
    tee -a "$results/steps.jsonl"
}

for part in "$@"; do
  case $part in
    tests)
      run_step tests "${TEST_SECONDS:-300}" ./quarry_gpu_tests --gtest_output="xml:$results/tests.xml"
      run_step rdc_tests "${TEST_SECONDS:-300}" ./quarry_gpu_rdc_tests --gtest_output="xml:$results/rdc_tests.xml"
      run_step trace_tests "${TEST_SECONDS:-300}" ./quarry_gpu_trace_tests --gtest_output="xml:$results/trace_tests.xml"
      run_step tests_hardened "${TEST_SECONDS:-300}" ./quarry_gpu_tests_hardened \
        --gtest_output="xml:$results/tests_hardened.xml"
      ;;
    demo) run_step demo "${DEMO_SECONDS:-120}" ./graph_demo debian-12-depends.el.gz ;;
    bench)
      gunzip --force bench/*.gz 2>/dev/null  # a later run finds none
      run_step bench 3600 ./run_bench.sh bench "$results" "${BENCH_SECONDS:-120}"
      ;;
    *) echo "error: unknown part '$part' (tests, demo, bench)" >&2; exit 2 ;;
  esac
done
echo "== $failed steps failed; results in $results"
[ "$failed" -eq 0 ]
RUN
chmod +x "$bundle/run.sh"

step "checking $bundle"
programs=("$bundle"/quarry_gpu_{,rdc_,trace_}tests "$bundle"/quarry_gpu_tests_hardened "$bundle/graph_demo" "$bundle"/bench/*_bench)
for program in "${programs[@]}"; do check_program "$program"; done
glibc=$(glibc_needed "${programs[@]}")
gzip -9 "$bundle"/bench/*_bench
mebibytes=$(du -sm --apparent-size "$bundle" | cut -f1)
[ "$mebibytes" -lt "$max_mebibytes" ] || fail "$bundle has $mebibytes MiB; the limit is $max_mebibytes MiB"
step "$bundle: ${#programs[@]} programs, $mebibytes MiB, for $glibc or later"
