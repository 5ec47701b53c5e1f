#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles bench/mpi with quarry-mpicc (NAME.quarry) and, if one is installed, with another MPI's mpicc (NAME.openmpi) into FOLDER.
# Programs of private arrays get contiguous ones, too (NAME.contiguous.quarry, NAME.interleaved.quarry).
# FOLDER also gets quarry-mpirun and run_mpi_bench.sh, so it can be copied to another machine.
# usage: build_mpi_bench.sh FOLDER [PRESET]      (cuda)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

folder=$1 preset=${2:-cuda}
build "$preset" quarry-mpicc quarry-mpirun
mkdir -p "$folder"
install -s "build/$preset/mpi/quarry-mpirun" "$folder"
install scripts/run_mpi_bench.sh scripts/run_mpi_arrays_bench.sh "$folder"
commit >"$folder/COMMIT"
for source in bench/mpi/*.c; do
  name=$(basename "$source" .c)
  "build/$preset/mpi/quarry-mpicc" -O2 "$source" -o "$folder/$name.quarry" -lm
  if command -v mpicc >/dev/null; then mpicc -O2 "$source" -o "$folder/$name.openmpi" -lm; fi
done
for name in workload arrays; do
  mv "$folder/$name.quarry" "$folder/$name.interleaved.quarry"
  "build/$preset/mpi/quarry-mpicc" -O2 --contiguous-arrays "bench/mpi/$name.c" -o "$folder/$name.contiguous.quarry" -lm
done
programs=("$folder"/*.quarry)
step "$folder: ${#programs[@]} programs"
