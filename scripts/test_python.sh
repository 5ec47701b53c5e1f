#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Python package (scripts/build_python.sh), and runs python/tests on it.
# usage: scripts/test_python.sh [JUNIT]      (JUNIT: the file for the results)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

junit=$(realpath -m "${1:-build/test-results/python.xml}")
mkdir -p "$(dirname "$junit")"
scripts/build_python.sh test
step "testing the installed package"
cd build/python && venv/bin/python -m pytest --quiet -c ../../pyproject.toml --rootdir ../.. --junit-xml "$junit" -p no:cacheprovider ../../python/tests
