# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the scripts share. Sourced, from any folder; leaves the caller in the repository's root.
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
PATH="$PATH:/usr/local/cuda/bin"

step() { printf -- '-- %s\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

has_nvcc() { command -v nvcc >/dev/null; }
has_gpu() { command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q '^GPU'; }

# The preset that runs fastest here: `cuda` needs a compiler and a GPU to run on.
best_preset() { if has_nvcc && has_gpu; then echo cuda; else echo release; fi; }

# The compute capability to compile for: QUARRY_ARCHITECTURES, else the first GPU's, else nothing (CMake's default).
architectures() {
  if [ -n "${QUARRY_ARCHITECTURES:-}" ]; then
    echo "$QUARRY_ARCHITECTURES"
  elif has_gpu; then
    nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d '. '
  fi
}

# The commit that is checked out, with -dirty if the sources differ from it.
commit() {
  local id
  id=$(git rev-parse --short=12 HEAD 2>/dev/null) || { echo unknown; return; }
  git diff --quiet HEAD -- . ':!bench/results' && echo "$id" || echo "$id-dirty"
}

# build PRESET [TARGET...]: configures and builds; all targets if none is named.
build() {
  local preset=$1 log architecture configure=()
  shift
  if [ "$preset" = cuda ]; then
    architecture=$(architectures)
    [ -z "$architecture" ] || configure+=("-DQUARRY_ARCHITECTURES=$architecture")
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
