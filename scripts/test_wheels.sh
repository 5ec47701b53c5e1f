#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the wheels of dist/ for each version of Python on this machine, where pip chooses the wheel, and runs python/tests there.
# usage: scripts/test_wheels.sh [VERSION...]      (after scripts/build_wheels.sh; all versions that the wheels are for)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. scripts/pythons.sh

compgen -G 'dist/quarry_gpu-*.whl' >/dev/null || fail "there are no wheels in dist: run make wheel"
folder=$PWD/build/wheels
dist=$PWD/dist
tests=$PWD/python/tests
mapfile -t requirements < <(requirements_of run; requirements_of test)
[ $# -gt 0 ] || set -- "${python_versions[@]}"
tested=() left_out=()
for version in "$@"; do
  if ! python=$(python_of "$version"); then left_out+=("$version"); continue; fi
  venv=$folder/test-$version
  step "installing the wheel for Python $version"
  make_python_venv "$python" "$venv" "${requirements[@]}"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-index --no-deps --only-binary :all: --find-links "$dist" quarry-gpu ||
    fail "no wheel of dist suits Python $version"
  "$venv/bin/quarry" info
  mkdir -p "$folder/run-$version"
  (cd "$folder/run-$version" && "$venv/bin/python" -m pytest --quiet -c ../../../pyproject.toml --rootdir ../../.. -p no:cacheprovider "$tests") ||
    fail "tests failed with Python $version"
  tested+=("$version")
done
[ ${#tested[@]} -gt 0 ] || fail "none of Python $* was found"
step "tested with Python ${tested[*]}${left_out[*]:+; not on this machine, so not tested: ${left_out[*]}}"
