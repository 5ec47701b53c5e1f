# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Finds the versions of Python on this machine, for build_wheels.sh and test_wheels.sh.

readonly python_versions=(3.10 3.11 3.12 3.13 3.14)  # those that the wheels are for

# python_of VERSION: prints the path of this Python, from PATH, pyenv or uv. It can make a venv, and its headers are there. Fails if
# there is none.
python_of() {
  local version=$1 candidate
  for candidate in "$(command -v "python$version")" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/"python$version" \
    "${XDG_DATA_HOME:-$HOME/.local/share}"/uv/python/cpython-"$version".*/bin/"python$version"; do
    if [ -x "$candidate" ] && "$candidate" -c 'import ensurepip, os, sysconfig, venv
raise SystemExit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  return 1
}

# requirements_of TABLE: prints requirements of pyproject.toml, one a line: `build`, `run` or `test`.
requirements_of() {
  python3 -c 'import sys, tomllib
project = tomllib.load(open("pyproject.toml", "rb"))
tables = {"build": project["build-system"]["requires"] + ["ninja"], "run": project["project"]["dependencies"],
          "test": project["project"]["optional-dependencies"]["test"]}
print(*tables[sys.argv[1]], sep="\n")' "$1"
}

# make_python_venv PYTHON FOLDER REQUIREMENT...: a new venv with these packages from the index that pip is set up for.
make_python_venv() {
  local python=$1 venv=$2
  shift 2
  "$python" -m venv --clear "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: "$@" || fail "pip could not install $*"
}
