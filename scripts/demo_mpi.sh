#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles an MPI program with quarry-mpicc, and runs its ranks: 65,536 on a GPU, 1,024 on the CPU. Does nothing but a message if
# LLVM and Clang 19 are not installed.
# usage: scripts/demo_mpi.sh PRESET
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

preset=$1 source=examples/mpi/wave.c
if ! grep -q 'build quarry-mpicc:' "build/$preset/build.ninja"; then
  step "no quarry-mpicc, so no MPI program runs: 'scripts/setup.sh mpi' installs LLVM and Clang 19"
  exit 0
fi
build "$preset" quarry-mpicc quarry-mpirun
device=cpu ranks=1024
if [ "$preset" = cuda ]; then device=gpu ranks=65536; fi
mkdir -p build/demo
step "running $source as an MPI program with $ranks ranks"
"build/$preset/mpi/quarry-mpicc" -O2 "$source" -o build/demo/wave -lm
"build/$preset/mpi/quarry-mpirun" -n "$ranks" --device "$device" build/demo/wave
