#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles bench/torch_pool_bench.cpp against an installed PyTorch with CUDA.
# usage: build_torch_bench.sh FOLDER [PYTHON]      (writes FOLDER/torch_pool_bench; PYTHON: python3)
#
# QUARRY_TORCH names the folder `torch` of a PyTorch that is not installed for PYTHON. QUARRY_CUDA_INCLUDE names the folder
# of CUDA's headers. Without it the script searches nvcc's folder, CUDA_HOME and PyTorch's packages.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
folder=${1:?FOLDER is missing}
python=${2:-python3}

torch=${QUARRY_TORCH:-$("$python" -c 'import importlib.util as u; s = u.find_spec("torch"); print(s.submodule_search_locations[0] if s else "")')}
[ -n "$torch" ] || fail "$python has no PyTorch; set QUARRY_TORCH or pass another PYTHON"
[ -f "$torch/include/c10/cuda/CUDACachingAllocator.h" ] || fail "$torch has no include/c10/cuda/CUDACachingAllocator.h; install PyTorch with CUDA"
version=$(sed -n "s/^__version__ = '\(.*\)'$/\1/p" "$torch/version.py")
[ -n "$version" ] || fail "$torch/version.py has no line __version__ = '...'"

# cuda_include: prints the first folder with CUDA's headers.
cuda_include() {
  local candidate nvcc
  nvcc=$(readlink -f "$(command -v nvcc)" || true)
  for candidate in "${QUARRY_CUDA_INCLUDE:-}" "${nvcc%/bin/nvcc}/include" "${CUDA_HOME:-/usr/local/cuda}/include" \
    "$torch"/../nvidia/cu*/include "$torch"/../nvidia/cuda_runtime/include; do
    if [ -f "$candidate/cuda_runtime_api.h" ]; then echo "$candidate"; return; fi
  done
  fail "no folder has cuda_runtime_api.h; set QUARRY_CUDA_INCLUDE"
}
cuda=$(cuda_include)

# CUDA's runtime comes with PyTorch as a separate package. PyTorch's libraries know its folder.
mkdir -p "$folder"
step "building $folder/torch_pool_bench with PyTorch $version"
"${CXX:-g++}" -std=c++20 -O3 -DNDEBUG -pthread -DQUARRY_BENCH_TORCH="\"$version\"" -Iinclude -Ibench \
  -isystem "$torch/include" -isystem "$cuda" -isystem "$cuda/cccl" bench/torch_pool_bench.cpp -o "$folder/torch_pool_bench" \
  -L"$torch/lib" -Wl,-rpath,"$torch/lib" -lc10_cuda -lc10 -Wl,--allow-shlib-undefined
