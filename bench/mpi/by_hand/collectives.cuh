// SPDX-License-Identifier: Apache-2.0
// Collective operations by hand: what bench/mpi/collectives.c does. The buffers of all ranks lie
// one after another. All threads of the GPU work for all ranks, whatever the number of ranks is.
#pragma once

#include "measure.cuh"

namespace by_hand {

/// Writes the same `count` values to the buffers of all ranks. `own` of `all` threads do this.
template <class T>
__device__ void write_to_all(T const* from, T* to, index count, index ranks, index own, index all) {
  if (count >= all) {  // a thread reads a value once, and writes it for all ranks
    for (index i = own; i < count; i += all) {
      T const value = from[i];
#pragma unroll 8
      for (index rank = 0; rank < ranks; ++rank) to[rank * count + i] = value;
    }
  } else {
    index const total = count * ranks;
#pragma unroll 8
    for (index i = own; i < total; i += all) to[i] = from[i & (count - 1)];
  }
}

template <class T>
__global__ void __launch_bounds__(1024, 2)
    broadcast_kernel(T const* from, T* to, index count, index ranks, int steps) {
  auto const grid = cooperative_groups::this_grid();
  for (int step = 0; step < steps; ++step) {
    write_to_all(from, to, count, ranks, grid.thread_rank(), grid.size());
    grid.sync();
  }
}

/// The sums of vectors of at most 16 values. Blocks meet once; `partial` alternates between two
/// halves, so that a block may be a step ahead.
__global__ void __launch_bounds__(1024, 2)
    allreduce_short_kernel(double const* from, double* to, double* partial, unsigned count,
                           index ranks, int steps) {
  __shared__ double of_warps[32][16];
  __shared__ double sums[16];
  auto const grid = cooperative_groups::this_grid();
  index const total = ranks * count, own = grid.thread_rank(), all = grid.size();
  unsigned const warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int step = 0; step < steps; ++step) {
    double* const shared = partial + (step % 2) * gridDim.x * 16;
    double sum = 0.0;
#pragma unroll 4
    for (index i = own; i < total; i += all) sum += from[i];  // `all` is a multiple of `count`
    for (unsigned distance = 16; distance >= count; distance /= 2)
      sum += __shfl_xor_sync(~0u, sum, distance);
    if (lane < count) of_warps[warp][lane] = sum;
    __syncthreads();
    if (warp < count) {
      sum = of_warps[lane][warp];
      for (unsigned distance = 16; distance > 0; distance /= 2)
        sum += __shfl_xor_sync(~0u, sum, distance);
      if (lane == 0) shared[blockIdx.x * 16 + warp] = sum;
    }
    grid.sync();
    if (warp < count) {
      sum = 0.0;
      for (unsigned block = lane; block < gridDim.x; block += 32) sum += shared[block * 16 + warp];
      for (unsigned distance = 16; distance > 0; distance /= 2)
        sum += __shfl_xor_sync(~0u, sum, distance);
      if (lane == 0) sums[warp] = sum;
    }
    __syncthreads();
#pragma unroll 4
    for (index i = own; i < total; i += all) to[i] = sums[i & (count - 1)];
  }
}

/// The sums of longer vectors. If there are more threads than values, several threads share the
/// ranks of a value, and a warp adds their sums.
__global__ void __launch_bounds__(1024)
    allreduce_kernel(double const* from, double* to, double* partial, double* sums, index count,
                     index ranks, int steps) {
  auto const grid = cooperative_groups::this_grid();
  index const own = grid.thread_rank(), all = grid.size();
  index const parts = min(all / count, ranks);
  for (int step = 0; step < steps; ++step) {
    if (parts <= 1) {
      for (index i = own; i < count; i += all) {
        double sum = 0.0;
#pragma unroll 16
        for (index rank = 0; rank < ranks; ++rank) sum += from[rank * count + i];
#pragma unroll 8
        for (index rank = 0; rank < ranks; ++rank) to[rank * count + i] = sum;
      }
      grid.sync();
      continue;
    }
    if (own < parts * count) {
      index const part = own / count, i = own % count;
      double sum = 0.0;
#pragma unroll 16
      for (index rank = part; rank < ranks; rank += parts) sum += from[rank * count + i];
      partial[own] = sum;
    }
    grid.sync();
    for (index i = own / 32; i < count; i += all / 32) {
      double sum = 0.0;
#pragma unroll 8
      for (index part = own % 32; part < parts; part += 32) sum += partial[part * count + i];
      for (unsigned distance = 16; distance > 0; distance /= 2)
        sum += __shfl_xor_sync(~0u, sum, distance);
      if (own % 32 == 0) sums[i] = sum;
    }
    grid.sync();
    write_to_all(sums, to, count, ranks, own, all);
    grid.sync();  // nobody writes `sums` or `partial` before all have read
  }
}

/// Messages of one value: a transposition through shared memory.
__global__ void __launch_bounds__(1024, 2)
    alltoall_values_kernel(double const* from, double* to, index ranks, int steps) {
  __shared__ double tile[32][33];
  auto const grid = cooperative_groups::this_grid();
  unsigned const x = threadIdx.x % 32, y = threadIdx.x / 32;
  index const side = ranks / 32;
  for (int step = 0; step < steps; ++step) {
    for (index t = blockIdx.x; t < side * side; t += gridDim.x) {
      index const row = t / side * 32, column = t % side * 32;
      tile[y][x] = from[(row + y) * ranks + column + x];
      __syncthreads();
      to[(column + y) * ranks + row + x] = tile[x][y];
      __syncthreads();
    }
    grid.sync();
  }
}

/// Longer messages, by tiles of 16 senders and 16 receivers.
__global__ void __launch_bounds__(1024, 2)
    alltoall_kernel(double2 const* from, double2* to, index count, index ranks, int steps) {
  auto const grid = cooperative_groups::this_grid();
  index const side = ranks / 16, of_tile = 256 * count;
  for (int step = 0; step < steps; ++step) {
    for (index t = blockIdx.x; t < side * side; t += gridDim.x) {
      index const first_receiver = t / side * 16, first_sender = t % side * 16;
#pragma unroll 4
      for (index i = threadIdx.x; i < of_tile; i += 1024) {
        index const at = i & (count - 1), pair = i / count;
        index const sender = first_sender + pair % 16, receiver = first_receiver + pair / 16;
        to[(receiver * ranks + sender) * count + at] =
            from[(sender * ranks + receiver) * count + at];
      }
    }
    grid.sync();
  }
}

enum class operation { bcast, allreduce, alltoall };

/// As bench/mpi/collectives.c prepares its operands.
__global__ void prepare_kernel(operation which, double* to, index count, index ranks) {
  index const all = static_cast<index>(gridDim.x) * blockDim.x;
  index const of_rank = which == operation::alltoall ? count * ranks : count;
  index const total = which == operation::bcast ? count : of_rank * ranks;
  for (index i = static_cast<index>(blockIdx.x) * blockDim.x + threadIdx.x; i < total; i += all) {
    index const rank = i / of_rank, at = i % of_rank;
    if (which == operation::bcast) to[i] = static_cast<double>(at % 1021) + 1.0;
    if (which == operation::allreduce) to[i] = static_cast<double>(at % 1021 + rank % 16);
    if (which == operation::alltoall)
      to[i] = static_cast<double>(rank) * 4.0 + static_cast<double>(at / count) * 0.25;
  }
}

/// Counts wrong results.
__global__ void check_kernel(operation which, double const* results, index count, index ranks,
                             double sum_of_ranks, unsigned* wrong) {
  index const all = static_cast<index>(gridDim.x) * blockDim.x;
  index const of_rank = which == operation::alltoall ? count * ranks : count;
  for (index i = static_cast<index>(blockIdx.x) * blockDim.x + threadIdx.x; i < of_rank * ranks;
       i += all) {
    index const rank = i / of_rank, at = i % of_rank;
    auto const value = static_cast<double>(at % 1021);
    double expected = value + 1.0;
    if (which == operation::allreduce) expected = value * static_cast<double>(ranks) + sum_of_ranks;
    if (which == operation::alltoall)
      expected = static_cast<double>(at / count) * 4.0 + static_cast<double>(rank) * 0.25;
    if (results[i] != expected) atomicAdd(wrong, 1u);
  }
}

inline void collective(operation which, char const* name, int ranks, index bytes) {
  index const count = bytes / sizeof(double), of_all = count * static_cast<index>(ranks);
  bool const is_bcast = which == operation::bcast, is_alltoall = which == operation::alltoall;
  index const results = is_alltoall ? of_all * static_cast<index>(ranks) : of_all;
  buffer<double> from{is_bcast ? count : results}, to{results}, sums{count};
  buffer<double> partial{static_cast<index>(multiprocessors()) * 2 * 1024};
  buffer<unsigned> wrong{1};
  auto const as_pairs = [](buffer<double> const& of) {
    return reinterpret_cast<double2*>(of.data());
  };
  prepare_kernel<<<2 * multiprocessors(), 1024>>>(which, from.data(), count, ranks);
  std::vector<way> ways;
  if (is_bcast && count == 1) {
    ways = ways_of_blocks(broadcast_kernel<double>, [&](int blocks, int steps) {
      launch(broadcast_kernel<double>, blocks, 1024, from.data(), to.data(), count, ranks, steps);
    });
  } else if (is_bcast) {
    ways = ways_of_blocks(broadcast_kernel<double2>, [&](int blocks, int steps) {
      launch(broadcast_kernel<double2>, blocks, 1024, as_pairs(from), as_pairs(to), count / 2,
             ranks, steps);
    });
  } else if (is_alltoall && count == 1) {
    ways = ways_of_blocks(alltoall_values_kernel, [&](int blocks, int steps) {
      launch(alltoall_values_kernel, blocks, 1024, from.data(), to.data(), ranks, steps);
    });
  } else if (is_alltoall) {
    ways = ways_of_blocks(alltoall_kernel, [&](int blocks, int steps) {
      launch(alltoall_kernel, blocks, 1024, as_pairs(from), as_pairs(to), count / 2, ranks, steps);
    });
  } else if (count <= 16) {
    ways = ways_of_blocks(allreduce_short_kernel, [&](int blocks, int steps) {
      launch(allreduce_short_kernel, blocks, 1024, from.data(), to.data(), partial.data(),
             static_cast<unsigned>(count), ranks, steps);
    });
  } else {
    ways = ways_of_blocks(allreduce_kernel, [&](int blocks, int steps) {
      launch(allreduce_kernel, blocks, 1024, from.data(), to.data(), partial.data(), sums.data(),
             count, ranks, steps);
    });
  }
  // One block alone would copy gigabytes for seconds.
  if (results * sizeof(double) > (index{64} << 20)) ways.erase(ways.begin(), ways.begin() + 3);
  result const found = measure(ways);
  double sum_of_ranks = 0.0;
  for (int rank = 0; rank < ranks; ++rank) sum_of_ranks += rank % 16;
  check_kernel<<<2 * multiprocessors(), 1024>>>(which, to.data(), count, ranks, sum_of_ranks,
                                                wrong.data());
  require(wrong.host(0) == 0, name);
  double const moved = static_cast<double>(results) * sizeof(double) * (is_bcast ? 1.0 : 2.0);
  std::string const params = "\"ranks\":" + std::to_string(ranks) +
                             ",\"bytes\":" + std::to_string(bytes) + quoted("operation", name) +
                             quoted("way", found.name);
  print("collectives/time", params, found.seconds, 1e6, "us");
  std::vector<double> rates;
  for (double const seconds : found.seconds) rates.push_back(moved / seconds);
  print("collectives/bandwidth", params, rates, 1e-9, "GB/s");
}

inline void collectives(operation which, char const* name, int ranks, double limit) {
  for (index bytes = 8; bytes <= (index{64} << 20); bytes *= 8) {
    double const of_all = static_cast<double>(bytes) * ranks;
    double const buffers = which == operation::bcast       ? of_all
                           : which == operation::allreduce ? 2.0 * of_all
                                                           : 2.0 * of_all * ranks;
    if (buffers > limit) break;
    collective(which, name, ranks, bytes);
  }
}

}  // namespace by_hand
