#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs opencl_kernel_tests and the example opencl_graph on PoCL, on Intel's runtime for CPUs and in oclgrind, and the tests of
# python/quarry_opencl on the first two. The last line is `N passed, N failed`. A skipped test counts as failed, since scripts/setup.sh opencl installs all three.
# QUARRY_OPENCL_ONLY: runs only these, for example 'pocl oclgrind'. Logs: build/test-opencl.
# The test of a graph of 16 M edges builds a smaller graph here.
# usage: scripts/test_opencl.sh
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

root=$PWD
results=build/test-opencl
tests=$root/build/dev/tests/opencl_kernel_tests
graph=$root/build/dev/examples/opencl_graph
passed=0 failed=0
export QUARRY_OPENCL_EDGES=${QUARRY_OPENCL_EDGES:-65536}

build dev opencl_kernel_tests opencl_graph || fail "build/dev does not build"
step "building build/shared: libquarry_opencl.so for Python"
cmake --preset release -B build/shared -DBUILD_SHARED_LIBS=ON -DQUARRY_UNITY=ON >build/configure-shared.log &&
  cmake --build build/shared --target quarry_opencl || fail "build/shared does not build"
rm -rf "$results"
mkdir -p "$results"
results=$root/$results

passes() { passed=$((passed + 1)); }
fails() { failed=$((failed + 1)); step "failed: $1 (log: $2)"; }

# run_tests NAME COMMAND...: runs a GoogleTest program and adds its results to the totals.
run_tests() {
  local name=$1 log=$results/$1.log good bad status
  shift
  step "$name: $(basename "$tests")"
  (cd "$results" && "$@") >"$log" 2>"$results/$name.err"
  status=$?
  good=$(grep -c '^\[       OK \]' "$log")
  bad=$(grep -cE '^\[  (FAILED|SKIPPED) *\] .* ms\)$' "$log")
  printf '   %s passed, %s failed or skipped\n' "$good" "$bad"
  passed=$((passed + good)) failed=$((failed + bad))
  if [ "$bad" -gt 0 ]; then
    cat "$log"
  elif [ "$status" -ne 0 ] || [ "$good" -eq 0 ]; then
    tail -n 20 "$log" "$results/$name.err"
    fails "$name ended with status $status" "$log"
  fi
}

# run_graph NAME DEVICE EDGES COMMAND...: runs the example on EDGES. It must find a device whose name contains DEVICE.
run_graph() {
  local name=$1 device=$2 edges=$3 log=$results/$1.log
  shift 3
  step "$name: opencl_graph"
  if (cd "$results" && "$@" "$graph" "$edges") >"$log" 2>"$results/$name.err" && grep -q "$device" "$log"; then
    passes
    sed 's/^/   /' "$log"
  else
    cat "$log" "$results/$name.err"
    fails "$name" "$log"
  fi
}

# run_python NAME COMMAND...: runs the tests of python/quarry_opencl and adds their results to the totals.
run_python() {
  local name=$1 log=$results/$1.log status
  shift
  step "$name: python/opencl_tests"
  "$@" "PYTHONPATH=$root/python" "QUARRY_OPENCL_LIBRARY=$root/build/shared/libquarry_opencl.so" PYTHONDONTWRITEBYTECODE=1 \
    .venv/pyopencl/bin/python -m pytest -c pyproject.toml --rootdir . -p no:cacheprovider --verbose python/opencl_tests >"$log" 2>&1
  status=$?
  local good bad
  good=$(grep -c ' PASSED ' "$log")
  bad=$(grep -cE ' (FAILED|ERROR|SKIPPED) ' "$log")
  printf '   %s passed, %s failed or skipped\n' "$good" "$bad"
  passed=$((passed + good)) failed=$((failed + bad))
  if [ "$bad" -gt 0 ] || [ "$status" -ne 0 ] || [ "$good" -eq 0 ]; then
    cat "$log"
    [ "$bad" -gt 0 ] || fails "$name ended with status $status" "$log"
  fi
}

# expect_no_fault NAME: checks that oclgrind reported no fault in run NAME.
expect_no_fault() {
  if python3 scripts/oclgrind_reports.py "$results/$1.err" >"$results/$1.reports"; then passes; else fails "reports of oclgrind" "$results/$1.reports"; fi
  tail -n 1 "$results/$1.reports" | sed 's/^/   /'
}

wants() { [[ " ${QUARRY_OPENCL_ONLY:-pocl intel oclgrind} " == *" $1 "* ]]; }

if wants pocl; then
  mkdir "$results/pocl-vendors"
  cp /etc/OpenCL/vendors/pocl.icd "$results/pocl-vendors" || fail "PoCL is not installed (run scripts/setup.sh opencl)"
  pocl=(env "OCL_ICD_VENDORS=$results/pocl-vendors" "QUARRY_OPENCL_CACHE=$results/pocl-cache")
  run_tests pocl "${pocl[@]}" "$tests"
  run_python pocl-python "${pocl[@]}"
  run_graph pocl-graph pthread "$root/data/debian-12-depends.el.gz" "${pocl[@]}"
fi

if wants intel; then
  # Intel's libraries find each other by this path only.
  intel=(env "OCL_ICD_VENDORS=$root/.venv/opencl/vendors" "LD_LIBRARY_PATH=$root/.venv/opencl/lib" "QUARRY_OPENCL_CACHE=$results/intel-cache")
  run_tests intel "${intel[@]}" "$tests" '--gtest_filter=-*.OnPocl*'
  run_python intel-python "${intel[@]}"
  run_graph intel-graph '^' "$root/data/debian-12-depends.el.gz" "${intel[@]}"
fi

if wants oclgrind; then
  # oclgrind 21.10 lacks intrinsics that LLVM's optimiser generates, so optimisation is off. Its device has 128 MiB by default.
  #
  # No --uninitialized: if the host writes to a part of a buffer, oclgrind regards the remaining buffer as uninitialised from then on,
  # whatever kernels write there. Here that is all of the heap but its state.
  simulated=(env "QUARRY_OPENCL_CACHE=$results/oclgrind-cache" QUARRY_OPENCL_SCALE=16
    oclgrind --build-options -cl-opt-disable --check-api --global-mem-size 1073741824 --max-errors 1000000)

  step "oclgrind: a kernel with an access out of bounds and a data race must be reported"
  printf '__kernel void faulty(__global uint* a) {\n  uint const item = get_global_id(0);\n  a[item + 1] = item;\n  a[0] = item;\n}\n' \
    >"$results/faulty.cl"
  printf 'faulty.cl\nfaulty\n4 1 1\n2 1 1\n<size=16 fill=0 uint>\n' >"$results/faulty.sim"
  (cd "$results" && oclgrind-kernel --data-races faulty.sim) >"$results/faulty.log" 2>"$results/faulty.err"
  if ! python3 scripts/oclgrind_reports.py "$results/faulty.err" >"$results/faulty.reports" &&
    grep -q 'x Invalid write .*faulty' "$results/faulty.reports" && grep -q 'x Write-write data race .*faulty' "$results/faulty.reports"; then
    passes
  else
    fails "oclgrind reports no fault" "$results/faulty.reports"
  fi

  # First all tests with checks of bounds. Afterwards the cache has the result of the ordering self-test. That test sends four million
  # messages, would take minutes with race detection, and races on purpose. In the test of large heaps oclgrind 21.10's race
  # detector ends with an exception of its own (map::at); the run before checks its bounds.
  run_tests oclgrind "${simulated[@]}" "$tests" '--gtest_filter=-*.OnPocl*'
  expect_no_fault oclgrind
  simulated[2]=QUARRY_OPENCL_SCALE=32
  run_tests oclgrind-races "${simulated[@]}" --data-races "$tests" '--gtest_filter=-OpenclProgram.*:*LargeHeaps*'
  expect_no_fault oclgrind-races
  zcat data/debian-12-depends.el.gz 2>/dev/null | head -n 5000 >"$results/edges.el"
  run_graph oclgrind-graph Oclgrind "$results/edges.el" "${simulated[@]}" --data-races
  expect_no_fault oclgrind-graph
fi

echo "$passed passed, $failed failed" | tee "$results/summary.txt"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
