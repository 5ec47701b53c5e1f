#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the programs of tests/mpi with 50 seeds of the scheduler (QUARRY_MPI_SEEDS), on the CPU; on a machine with a GPU also there, and with
# two GPUs on both, with those of --check.
# Compiles and runs 10,000 random functions (QUARRY_MPI_FUNCTIONS) and compares what ranks allocate with the compiler's answers.
# With a table and a folder, also runs programs that you have: see scripts/mpi_programs.py.
# usage: scripts/test_mpi.sh [TABLE FOLDER]
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

preset=dev devices=cpu failed=0
if has_nvcc && has_gpu; then preset=cuda devices='cpu gpu'; fi
build "$preset" quarry-mpicc quarry-mpirun || fail "build/$preset does not build; 'scripts/setup.sh mpi' installs LLVM and Clang 19"
tools=$PWD/build/$preset/mpi
step "random programs, and an order that is prone to deadlock with 1,000 seeds"
QUARRY_MPI_TOOLS=$tools QUARRY_MPI_FUNCTIONS=${QUARRY_MPI_FUNCTIONS:-10000} QUARRY_MPI_SEEDS=${QUARRY_MPI_SEEDS:-1000} \
  python3 tests/mpi/analysis_fuzz.py || failed=1
for device in $devices; do
  step "tests/mpi/programs on the $device"
  QUARRY_MPI_TOOLS=$tools QUARRY_MPI_DEVICE=$device QUARRY_MPI_SEEDS=${QUARRY_MPI_SEEDS:-50} \
    python3 tests/mpi/programs_test.py || failed=1
  if [ $# -eq 2 ]; then
    step "the programs of $1 on the $device"
    python3 scripts/mpi_programs.py "$1" "$2" --tools "$tools" --device "$device" --seeds 3 || failed=1
  fi
done
if [ "$preset" = cuda ] && [ "$(nvidia-smi --list-gpus | wc -l)" -gt 1 ]; then
  step "tests/mpi/programs on two GPUs"
  export QUARRY_MPI_DEVICE=gpu QUARRY_MPI_GPUS=2
  QUARRY_MPI_TOOLS=$tools python3 tests/mpi/programs_test.py || failed=1
  python3 tests/mpi/checks_test.py "$tools" || failed=1
fi
exit "$failed"
