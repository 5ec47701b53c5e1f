#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles what the table of GPU MPI beside kernels by hand needs, into FOLDER: programs of bench/mpi with quarry-mpicc, the kernels
# of bench/mpi/by_hand with nvcc, quarry-mpirun, the programs' sources for another MPI, and run.sh (scripts/run_mpi_table.sh). Copy
# FOLDER to a machine with a GPU and run `run.sh RESULTS` there. It needs a driver and glibc; it compiles the other MPI's programs.
# usage: build_mpi_table.sh FOLDER [PRESET]      (cuda)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

folder=$1 preset=${2:-cuda}
has_nvcc || fail "no nvcc on PATH or in /usr/local/cuda: install the CUDA toolkit"
build "$preset" quarry-mpicc quarry-mpirun
mkdir -p "$folder/sources/by_hand"
install -s "build/$preset/mpi/quarry-mpirun" "$folder"
install scripts/run_mpi_table.sh "$folder/run.sh"
install -m 644 bench/mpi/measure.h "$folder/sources"
install -m 644 bench/mpi/by_hand/{nccl.cu,measure.cuh} "$folder/sources/by_hand"
commit >"$folder/COMMIT"
programs=(ping_pong ring barrier neighbours collectives stencil sample_sort particles)
for name in "${programs[@]}"; do
  step "$name"
  "build/$preset/mpi/quarry-mpicc" -O2 "bench/mpi/$name.c" -o "$folder/$name.quarry" -lm
  strip "$folder/$name.quarry"
  install -m 644 "bench/mpi/$name.c" "$folder/sources"
done
step "kernels by hand"
nvcc -std=c++20 -O3 -arch=sm_90 -Xcompiler -static-libstdc++,-static-libgcc -Xlinker -s bench/mpi/by_hand/by_hand.cu -o "$folder/by_hand"
# The programs are alike, so that a window larger than a program makes the archive small.
tar -C "$folder" --remove-files -c by_hand quarry-mpirun "${programs[@]/%/.quarry}" | xz -T2 --lzma2=preset=1,dict=128MiB >"$folder/programs.tar.xz"
step "$folder: $(du -sh "$folder" | cut -f 1)"
