#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds what scripts/run_tests.sh tests later, one after the other. Runs beside the tests of presets that are built already. The Python
# package is built and tested beside what comes after it, since its tests use one core. Builds have a low priority: a test may need its
# threads to run within a second. For each word, writes the output to FOLDER/build-WORD.log and then the exit status to FOLDER/build-WORD.
# usage: scripts/build_in_order.sh FOLDER WORD...      (WORD: as for build_for_tests in scripts/common.sh, or python)
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

folder=$1
shift
export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}

# record WORD COMMAND...: runs the command and writes what it printed and its status.
record() {
  local word=$1
  shift
  "$@" >"$folder/build-$word.log" 2>&1
  echo $? >"$folder/status-$word"
  mv "$folder/status-$word" "$folder/build-$word"
}

for word; do
  case $word in
    # Bash lets programs in the background ignore SIGINT, which some of these tests send.
    python) record python env --default-signal=INT,QUIT scripts/test_python.sh "$folder/python.xml" & ;;
    *) (renice -n 10 "$BASHPID" >/dev/null; record "$word" build_for_tests "$word") ;;
  esac
done
wait
