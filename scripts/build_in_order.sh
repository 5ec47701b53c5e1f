#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds what scripts/run_tests.sh tests later, one after the other, and tests the Python package. Runs beside the tests of presets that
# are built already. For each word, writes the output to FOLDER/build-WORD.log and then the exit status to FOLDER/build-WORD.
# usage: scripts/build_in_order.sh FOLDER WORD...      (WORD: as for build_for_tests in scripts/common.sh, or python)
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

folder=$1
shift
export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
for word; do
  case $word in
    python) scripts/test_python.sh "$folder/python.xml" ;;
    *) build_for_tests "$word" ;;
  esac >"$folder/build-$word.log" 2>&1
  echo $? >"$folder/status"
  mv "$folder/status" "$folder/build-$word"
done
