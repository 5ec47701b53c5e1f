#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Relaxes one labelled memory order at a time (src/*/layer.cmake lists the files after MUTANTS). Under ThreadSanitizer, runs the
# tests that must detect this mutant. Prints a line for each label. Exits with 1 if the tests miss a mutant. One build has all mutants:
# the environment variable QUARRY_MUTANT chooses one. Each takes up to a minute.
# usage: scripts/check_mutants.sh [--list] [LABEL...]      (TEST_SECONDS: the time limit for the tests of one mutant, 600)
# With --list, builds nothing: prints each label with the program whose tests must detect it, and checks that CMake knows them.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
without_wide_randomisation scripts/check_mutants.sh "$@"

readonly build=build/mutant seconds=${TEST_SECONDS:-600}
# With less history ThreadSanitizer forgets an access before it sees the other access of a race.
export TSAN_OPTIONS='halt_on_error=1 history_size=5'

# logged COMMAND...: runs the command. If it fails, prints its output and exits.
logged() { "$@" >build/mutant.log 2>&1 || { cat build/mutant.log >&2; fail "$build does not build"; }; }

# check LABEL PROGRAM: tests the mutant and prints the result. The empty label is the program without a mutant. Its tests must pass,
# else the results prove nothing. A program that hangs has detected its mutant, since without a mutant the tests end.
check() {
  local label=$1 program=$2 log=build/mutant-tests.log status how=
  QUARRY_MUTANT=$label timeout --kill-after=5 "$seconds" "$build/tests/$program" --gtest_fail_fast >"$log" 2>&1
  status=$?
  if [ "$status" -eq 0 ]; then
    [ -n "$label" ] || { echo "no mutant: $program passes"; return 0; }
    echo "order $label: NOT caught"
    return 1
  fi
  [ -n "$label" ] || { tail -n 40 "$log" >&2; fail "$program fails without a mutant (status $status)"; }
  case $status in 124 | 137) how=", which does not end in $seconds s" ;; esac
  echo "order $label: caught by $(sed -n 's/^\[ RUN      \] //p' "$log" | tail -n 1)$how"
}

# CMake writes the list of orders: a label and the program whose tests must detect the mutant (MUTANTS in src/*/layer.cmake).
mkdir -p build
logged cmake --preset tsan -B "$build" -DQUARRY_MUTANTS=ON
declare -A program_of
while read -r label program; do program_of[$label]=$program; done <"$build/mutants.txt"
is_listing=no
if [ "${1:-}" = --list ]; then
  is_listing=yes
  shift
fi
labels=("$@")
[ $# -gt 0 ] || mapfile -t labels < <(cut -d' ' -f1 "$build/mutants.txt")
for label in "${labels[@]}"; do [ -n "${program_of[$label]:-}" ] || fail "no order has the label '$label'"; done
mapfile -t programs < <(for label in "${labels[@]}"; do echo "${program_of[$label]}"; done | sort -u)
if [ "$is_listing" = yes ]; then
  known=$(cmake --build "$build" --target help)
  for program in "${programs[@]}"; do grep -q "^$program:" <<<"$known" || fail "$build has no target '$program'"; done
  for label in "${labels[@]}"; do echo "order $label: ${program_of[$label]}"; done
  exit
fi
logged cmake --build "$build" --target "${programs[@]}"
for program in "${programs[@]}"; do check '' "$program"; done
missed=0
for label in "${labels[@]}"; do check "$label" "${program_of[$label]}" || missed=$((missed + 1)); done
echo "${#labels[@]} orders relaxed, $missed of them missed"
[ "$missed" -eq 0 ]
