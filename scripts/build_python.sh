#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the wheel of the Python package and installs it into a clean venv, build/python/venv. Uses only the packages that
# scripts/setup.sh python downloaded.
# usage: scripts/build_python.sh [EXTRA]      (EXTRA: also installs the packages of this extra of pyproject.toml, such as test)
# The wheel for tests is compiled with the options of the presets dev and cuda in `make test`, so that ccache compiles the libraries once,
# and the module itself with -O0. The kernels of its graph are PTX, which a GPU's driver can compile.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

[ -e .venv/wheels/requirements.txt ] || fail "the packages in .venv/wheels are missing: run scripts/setup.sh python"
folder=build/python
rm -rf "$folder/wheel" "$folder/venv"
mkdir -p "$folder"
export PIP_NO_INDEX=1 PIP_FIND_LINKS=$PWD/.venv/wheels PIP_DISABLE_PIP_VERSION_CHECK=1
if command -v ccache >/dev/null; then
  export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_NOHASHDIR=1 CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
  export CMAKE_CUDA_COMPILER_LAUNCHER=ccache
fi

settings=()
if [ "${1:-}" = test ]; then
  for setting in CMAKE_CXX_FLAGS_RELEASE=-O1 'CMAKE_CUDA_FLAGS_RELEASE=-O1 -DNDEBUG' QUARRY_WERROR=ON QUARRY_TEST_OPTIONS=-O0 QUARRY_ARCHITECTURES=90-virtual; do
    settings+=(--config-settings="cmake.define.$setting")
  done
  export CC=${CC:-cc} CXX=${CXX:-c++}  # as CMake finds them; Python's own settings name gcc and g++, which ccache tells apart
fi
python3 -m venv "$folder/venv"
step "building the wheel (log: $folder/wheel.log)"
if ! "$folder/venv/bin/pip" wheel "${settings[@]}" --no-deps --wheel-dir "$folder/wheel" --verbose . >"$folder/wheel.log" 2>&1; then
  tail -n 60 "$folder/wheel.log" >&2
  fail "the wheel does not build"
fi
wheel=$(ls "$PWD/$folder"/wheel/quarry_gpu-*.whl)
step "installing $(basename "$wheel") into a clean venv"
"$folder/venv/bin/pip" install --quiet ${1:+--no-compile} "$wheel${1:+[$1]}"
