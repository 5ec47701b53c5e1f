# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Functions for all scripts. A script in any folder can source this file. It changes to the repository's root.
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
PATH="$PATH:/usr/local/cuda/bin"

# step WORDS...: prints a line of progress. fail WORDS...: prints an error and exits.
step() { printf -- '-- %s\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

has_nvcc() { command -v nvcc >/dev/null; }
has_gpu() { command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q '^GPU'; }

# best_preset: prints the preset that runs fastest on this machine. `cuda` needs nvcc and a GPU.
best_preset() { if has_nvcc && has_gpu; then echo cuda; else echo release; fi; }

# architectures: prints the compute capability to compile for: QUARRY_ARCHITECTURES, else the first GPU's. Prints nothing if there
# is neither; then CMake's default holds.
architectures() {
  if [ -n "${QUARRY_ARCHITECTURES:-}" ]; then
    echo "$QUARRY_ARCHITECTURES"
  elif has_gpu; then
    nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d '. '
  fi
}

# presets_of TARGET: prints the presets that `make test` or `make test-long` tests. CMakePresets.json says so, in their order there.
presets_of() {
  python3 -c 'import json, sys
for preset in json.load(open("CMakePresets.json"))["configurePresets"]:
    if preset.get("vendor", {}).get("quarry", {}).get("make") == sys.argv[1]: print(preset["name"])' "$1"
}

# commit: prints the current commit, with -dirty if the sources differ from it.
commit() {
  local id
  id=$(git rev-parse --short=12 HEAD 2>/dev/null) || { echo unknown; return; }
  git diff --quiet HEAD -- . ':!bench/results' && echo "$id" || echo "$id-dirty"
}

# without_wide_randomisation SCRIPT ARGUMENTS...: GCC's ThreadSanitizer cannot start if the kernel randomises addresses by more
# than 28 bits (Ubuntu 24.04: 32). In that case restarts the script without randomisation, or prints what to do. Else returns.
without_wide_randomisation() {
  local bits
  bits=$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 0)
  [ "$bits" -gt 28 ] && [ -z "${QUARRY_FIXED_ADDRESSES:-}" ] || return 0
  if setarch -R true 2>/dev/null; then QUARRY_FIXED_ADDRESSES=1 exec setarch -R "$@"; fi
  step "the kernel randomises addresses by $bits bits, and this container cannot turn that off: the tests under" \
    "ThreadSanitizer will not start. Run 'sysctl vm.mmap_rnd_bits=28' on the host"
}

# build PRESET [TARGET...]: configures and builds the targets, or all targets. Uses ccache if it is installed. With
# QUARRY_GPU_TESTS_AS_PTX=ON, the preset cuda makes no machine code of the GPU's tests.
build() {
  local preset=$1 log architecture configure=()
  shift
  if [ "$preset" = cuda ]; then
    architecture=$(architectures)
    [ -z "$architecture" ] || configure+=("-DQUARRY_ARCHITECTURES=$architecture")
    configure+=("-DQUARRY_GPU_TESTS_AS_PTX=${QUARRY_GPU_TESTS_AS_PTX:-OFF}")
  fi
  if command -v ccache >/dev/null; then
    export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_NOHASHDIR=1
    # No other preset has the objects of these two: ccache then need not compare preprocessed sources, and no source is preprocessed twice.
    case $preset in checked | tsan) local -x CCACHE_DEPEND=1 ;; esac
    configure+=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache)
  fi
  mkdir -p build
  log=build/configure-$preset.log
  step "configuring build/$preset (log: $log)"
  if ! cmake --preset "$preset" "${configure[@]}" >"$log" 2>&1; then
    cat "$log" >&2
    return 1
  fi
  step "building build/$preset${1:+: $*}"
  cmake --build --preset "$preset" ${1:+--target "$@"}
}

# build_for_tests WORD: builds what scripts/run_tests.sh calls so: `cuda` is what `make test` compiles for CUDA, `cuda-all` all of the
# preset cuda. Each other word is a preset.
build_for_tests() {
  case $1 in
    cuda) QUARRY_GPU_TESTS_AS_PTX=ON build cuda gpu_check ;;
    cuda-all) build cuda ;;
    *) build "$1" ;;
  esac
}

# clang_has_fuzzer: whether libFuzzer lies in Clang's folder of run-time libraries.
clang_has_fuzzer() {
  command -v clang++-19 >/dev/null && compgen -G "$(clang++-19 --print-resource-dir)/lib/*/libclang_rt.fuzzer*.a" >/dev/null
}
