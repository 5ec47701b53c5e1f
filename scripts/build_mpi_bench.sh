#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles bench/mpi with quarry-mpicc (NAME.quarry) and, if one is installed, with another MPI's mpicc (NAME.openmpi) into FOLDER,
# and the programs of tests/mpi/programs that allocate, with a clock (NAME.timed.quarry). Programs of private arrays are made with
# contiguous and with interleaved arrays (NAME.contiguous.quarry, NAME.interleaved.quarry), those with a clock with contiguous ones.
# FOLDER also gets quarry-mpirun and the scripts that measure, so it can be copied to another machine.
# usage: build_mpi_bench.sh FOLDER [PRESET]      (cuda)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

folder=$1 preset=${2:-cuda}
build "$preset" quarry-mpicc quarry-mpirun
mkdir -p "$folder"
install -s "build/$preset/mpi/quarry-mpirun" "$folder"
install scripts/run_mpi_{bench,malloc_bench,scale}.sh "$folder"
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
for name in cannon conjugate_gradient copies heat_1d heat_2d monte_carlo n_body pi ping_pong primes random_messages ring sample_sort word_count; do
  "build/$preset/mpi/quarry-mpicc" -O2 --contiguous-arrays -std=gnu11 -include bench/mpi/whole_program.h -DQUARRY_PROGRAM="\"$name\"" \
    "tests/mpi/programs/$name.c" -o "$folder/$name.timed.quarry" -lm
done
"build/$preset/mpi/quarry-mpicc" -O2 --separate-arms bench/mpi/arms.c -o "$folder/arms-separate.quarry" -lm
programs=("$folder"/*.quarry)
step "$folder: ${#programs[@]} programs"
