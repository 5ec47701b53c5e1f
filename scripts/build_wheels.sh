#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the sdist of the Python package, and from the sdist a wheel for each of Python 3.10 and 3.11 and one for 3.12 and later, into
# dist/. auditwheel gives each wheel the manylinux tag that its symbols allow. Versions of Python that are not on this machine are
# left out. The wheels can use GPUs if nvcc is installed; QUARRY_ARCHITECTURES is the compute capability (90).
# usage: scripts/build_wheels.sh      (after scripts/setup.sh wheel)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. scripts/pythons.sh

folder=build/wheels
rm -rf "$folder/unpacked" "$folder/raw" dist/quarry_gpu-*
mkdir -p "$folder/unpacked" dist
mapfile -t build_requirements < <(requirements_of build)
export PIP_DISABLE_PIP_VERSION_CHECK=1
if command -v ccache >/dev/null; then
  export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
  export CMAKE_CUDA_COMPILER_LAUNCHER=ccache
fi
settings=()
if [ -n "${QUARRY_ARCHITECTURES:-}" ]; then settings+=("--config-settings=cmake.define.QUARRY_ARCHITECTURES=$QUARRY_ARCHITECTURES"); fi
if has_nvcc; then step "nvcc is installed: the wheels can use GPUs"; else step "nvcc is not installed: the wheels use the CPU only"; fi

# make_sdist PYTHON: writes dist/quarry_gpu-VERSION.tar.gz, and unpacks it, so that wheels are built from what users get.
make_sdist() {
  "$1" -c 'from scikit_build_core.build import build_sdist; build_sdist("dist")' >"$folder/sdist.log" 2>&1 ||
    { cat "$folder/sdist.log" >&2; fail "the sdist does not build"; }
  tar -xzf dist/quarry_gpu-*.tar.gz -C "$folder/unpacked" --strip-components=1
}

# build_wheel VERSION: builds the wheel without the network, from the unpacked sdist.
build_wheel() {
  local version=$1 log=$folder/wheel-$1.log wheel
  step "building the wheel for Python $version (log: $log)"
  rm -rf "$folder/raw"
  PATH="$PWD/$folder/venv-$version/bin:$PATH" PIP_NO_INDEX=1 "$folder/venv-$version/bin/python" -m pip wheel --no-build-isolation --no-deps \
    --wheel-dir "$folder/raw" "${settings[@]}" --config-settings="build-dir=$PWD/$folder/build-$version" --verbose \
    "$folder/unpacked" >"$log" 2>&1 || { tail -n 60 "$log" >&2; fail "the wheel for Python $version does not build"; }
  wheel=$(ls "$folder"/raw/*.whl)
  PATH="$PWD/.venv/bin:$PATH" .venv/bin/auditwheel repair --wheel-dir dist "$wheel" >"$folder/auditwheel-$version.log" 2>&1 ||
    { cat "$folder/auditwheel-$version.log" >&2; fail "auditwheel refuses $wheel"; }
}

built=0
for version in "${python_versions[@]}"; do
  if compgen -G 'dist/*-abi3-*.whl' >/dev/null; then break; fi  # serves the later versions, too
  if ! python=$(python_of "$version"); then
    step "there is no Python $version with its headers here"
    continue
  fi
  make_python_venv "$python" "$folder/venv-$version" "${build_requirements[@]}"
  [ -e "$folder/unpacked/pyproject.toml" ] || make_sdist "$folder/venv-$version/bin/python"
  build_wheel "$version"
  built=$((built + 1))
done
[ "$built" -gt 0 ] || fail "no Python from ${python_versions[0]} to ${python_versions[-1]} with its headers was found"
for wheel in dist/*-abi3-*.whl; do
  if [ -e "$wheel" ]; then .venv/bin/abi3audit --strict --verbose "$wheel" || fail "$wheel uses more than the stable ABI"; fi
done
for file in dist/quarry_gpu-*; do step "$file: $(du -k "$file" | cut -f 1) KiB"; done
