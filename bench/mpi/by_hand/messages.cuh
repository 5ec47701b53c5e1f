// SPDX-License-Identifier: Apache-2.0
// Messages by hand: what bench/mpi/{ping_pong,ring,barrier,neighbours}.c do.
#pragma once

#include <cuda/atomic>

#include "measure.cuh"

namespace by_hand {

/// 4 bytes of a message and its number, in a word that is written at once. A unit has arrived when
/// it has the number of the message, so no fence is needed.
__device__ inline void send_unit(index* to, unsigned data, unsigned number) {
  cuda::atomic_ref<index, cuda::thread_scope_device>{*to}.store(
      static_cast<index>(number) << 32 | data, cuda::memory_order_relaxed);
}

__device__ inline bool unit_arrived(index* from, unsigned number, unsigned& data) {
  index const unit =
      cuda::atomic_ref<index, cuda::thread_scope_device>{*from}.load(cuda::memory_order_relaxed);
  data = static_cast<unsigned>(unit);
  return unit >> 32 == number;
}

/// Two sides, a thread block each. All threads of a block send and receive units.
__global__ void ping_pong_units(unsigned const* out, unsigned* in, unsigned* echoed,
                                index* mailboxes, int words, unsigned first, int steps) {
  int const side = static_cast<int>(blockIdx.x);
  index* const own = mailboxes + side * words;
  index* const other = mailboxes + (1 - side) * words;
  for (int step = 0; step < steps; ++step) {
    unsigned const number = first + static_cast<unsigned>(step);
    for (int turn = 0; turn < 2; ++turn) {
      if (turn == side) {
        for (int i = static_cast<int>(threadIdx.x); i < words; i += static_cast<int>(blockDim.x))
          send_unit(other + i, side == 0 ? out[i] : echoed[i], number);
      } else {
        unsigned data;
        for (int i = static_cast<int>(threadIdx.x); i < words; i += static_cast<int>(blockDim.x)) {
          while (!unit_arrived(own + i, number, data)) {
          }
          (side == 0 ? in : echoed)[i] = data;
        }
        if (blockDim.x > 32)
          __syncthreads();  // all of the message is here
        else
          __syncwarp();
      }
    }
  }
}

/// Two sides, a thread block each, which copies the message from the other side's buffer.
__global__ void ping_pong_blocks(uint4 const* out, uint4* in, uint4* echoed, unsigned* flags,
                                 int units, unsigned first, int steps) {
  cuda::atomic_ref<unsigned, cuda::thread_scope_device> forth{flags[0]}, back{flags[32]};
  int const side = static_cast<int>(blockIdx.x);
  for (int step = 0; step < steps; ++step) {
    unsigned const number = first + static_cast<unsigned>(step);
    auto& arrives = side == 0 ? back : forth;
    if (side == 0 && threadIdx.x == 0) forth.store(number, cuda::memory_order_release);
    if (threadIdx.x == 0)
      while (arrives.load(cuda::memory_order_acquire) != number) {
      }
    __syncthreads();
    uint4 const* const from = side == 0 ? echoed : out;
    uint4* const to = side == 0 ? in : echoed;
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < units; i += 1024) to[i] = from[i];
    __syncthreads();
    if (side == 1 && threadIdx.x == 0) back.store(number, cuda::memory_order_release);
  }
}

/// All threads of the GPU copy each message.
__global__ void ping_pong_grid(uint4 const* out, uint4* in, uint4* echoed, int units, int steps) {
  auto const grid = cooperative_groups::this_grid();
  int const all = static_cast<int>(grid.size()), own = static_cast<int>(grid.thread_rank());
  for (int step = 0; step < steps; ++step) {
#pragma unroll 4
    for (int i = own; i < units; i += all) echoed[i] = out[i];
    grid.sync();
#pragma unroll 4
    for (int i = own; i < units; i += all) in[i] = echoed[i];
    grid.sync();
  }
}

inline void ping_pong(int bytes) {
  index const words = std::max(bytes, 16) / 4;
  buffer<unsigned> out{words}, in{words}, echoed{words}, flags{64};
  buffer<index> mailboxes{2 * words};
  std::vector<unsigned> message(words);
  for (index i = 0; i < words; ++i) message[i] = static_cast<unsigned>(i * 2654435761u + 1);
  check(cudaMemcpy(out.data(), message.data(), words * 4, cudaMemcpyHostToDevice), "cudaMemcpy");
  auto const as_units = [](buffer<unsigned> const& of) {
    return reinterpret_cast<uint4*>(of.data());
  };
  unsigned number = 1;
  std::vector<way> ways;
  if (bytes <= 4096)
    for (int const threads : {32, 128, 1024})
      ways.push_back({std::to_string(threads) + " threads", [&, threads](int steps) {
                        launch(ping_pong_units, 2, threads, out.data(), in.data(), echoed.data(),
                               mailboxes.data(), bytes / 4, number, steps);
                        number += static_cast<unsigned>(steps);
                      }});
  int const units = bytes / 16;
  if (bytes >= 512) {
    ways.push_back({"a block", [&](int steps) {
                      launch(ping_pong_blocks, 2, 1024, as_units(out), as_units(in),
                             as_units(echoed), flags.data(), units, number, steps);
                      number += static_cast<unsigned>(steps);
                    }});
    for (way& each : ways_of_blocks(ping_pong_grid, [&](int blocks, int steps) {
           launch(ping_pong_grid, blocks, 1024, as_units(out), as_units(in), as_units(echoed),
                  units, steps);
         }))
      ways.push_back(each);
  }
  result const found = measure(ways);
  std::vector<unsigned> answer(words);
  check(cudaMemcpy(answer.data(), in.data(), words * 4, cudaMemcpyDeviceToHost), "cudaMemcpy");
  for (int i = 0; i < bytes / 4; ++i)
    require(answer[i] == message[i], "the message that came back");
  std::string const params = "\"ranks\":2,\"bytes\":" + std::to_string(bytes) +
                             ",\"buffer\":\"heap\"" + quoted("way", found.name);
  print("ping_pong/round_trip", params, found.seconds, 1e6, "us");
  std::vector<double> rates;
  for (double const seconds : found.seconds) rates.push_back(bytes / (seconds / 2.0));
  print("ping_pong/bandwidth", params, rates, 1e-9, "GB/s");
}

/// Each thread waits for a token of its own value, and gives the next value to the next thread. All
/// threads of a warp look together, so that those that have passed the token on keep none waiting.
__global__ void ring_kernel(index* tokens, int ranks, index first, int laps) {
  int const rank = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  int const next = (rank + 1) % ranks;
  cuda::atomic_ref<index, cuda::thread_scope_device> own{tokens[rank]}, other{tokens[next]};
  index expected = first + static_cast<index>(rank);
  if (rank == 0) own.store(expected, cuda::memory_order_relaxed);
  for (int lap = 0; lap < laps;) {
    if (own.load(cuda::memory_order_relaxed) != expected) continue;
    if (rank != ranks - 1 || lap != laps - 1) other.store(expected + 1, cuda::memory_order_relaxed);
    expected += static_cast<index>(ranks);
    ++lap;
  }
}

inline void ring(int ranks) {
  int const threads = std::min(ranks, 1024);
  if (!fits(ring_kernel, ranks / threads, threads)) return;
  buffer<index> tokens{static_cast<index>(ranks)};
  index first = 1;
  double const hops = ranks;
  auto const run = [&](int laps) {
    launch(ring_kernel, ranks / threads, threads, tokens.data(), ranks, first, laps);
    first += static_cast<index>(laps) * static_cast<index>(ranks) + 1;
  };
  double const lap = seconds_of([&] { run(1); });
  int const laps = static_cast<int>(std::clamp(sample_seconds / lap, 1.0, 20000.0));
  std::vector<double> times;
  for (int sample = 0; sample < 5; ++sample)
    times.push_back(seconds_of([&] { run(laps); }) / laps / hops);
  print("ring/hop", "\"ranks\":" + std::to_string(ranks), times, 1e6, "us");
}

__global__ void barrier_kernel(int steps) {
  for (int step = 0; step < steps; ++step) cooperative_groups::this_grid().sync();
}

/// One thread block needs no memory of the GPU.
__global__ void barrier_of_block_kernel(int steps) {
  for (int step = 0; step < steps; ++step) __syncthreads();
}

inline void barrier(int ranks) {
  std::vector<way> ways;
  if (ranks <= 1024)
    ways.push_back(
        {"one block", [=](int steps) { launch(barrier_of_block_kernel, 1, ranks, steps); }});
  for (int const threads : {256, 512, 1024})
    if (ranks >= threads && fits(barrier_kernel, ranks / threads, threads))
      ways.push_back({"blocks of " + std::to_string(threads),
                      [=](int steps) { launch(barrier_kernel, ranks / threads, threads, steps); }});
  if (ways.empty()) return;
  result const found = measure(ways);
  print("barrier/time", "\"ranks\":" + std::to_string(ranks) + quoted("way", found.name),
        found.seconds, 1e6, "us");
}

/// Threads of a block exchange in shared memory; the ends of blocks exchange units. Blocks always
/// exchange in both directions, so that none is more than a step ahead.
__global__ void neighbours_kernel(index* edges, int ranks, unsigned first, int directions,
                                  int steps, unsigned* wrong) {
  __shared__ unsigned long long values[2][1024];
  int const own = static_cast<int>(threadIdx.x), last = static_cast<int>(blockDim.x) - 1;
  int const rank = static_cast<int>(blockIdx.x * blockDim.x) + own;
  int const blocks = static_cast<int>(gridDim.x), block = static_cast<int>(blockIdx.x);
  int const right = (block + 1) % blocks, left = (block + blocks - 1) % blocks;
  auto const value_of = [](int of, int step) {
    return static_cast<index>(of) * 20011 + static_cast<index>(step);
  };
  auto const place = [&](int of, int side, unsigned number) {  // two units
    return edges +
           ((static_cast<index>(number & 1) * static_cast<index>(blocks) + static_cast<index>(of)) *
                2 +
            static_cast<index>(side)) *
               2;
  };
  unsigned errors = 0;
  for (int step = 0; step < steps; ++step) {
    unsigned const number = first + static_cast<unsigned>(step);
    index const value = value_of(rank, step);
    index from_left = 0, from_right = 0;
    unsigned parts[2];
    if (own == 0 || own == last) {
      int const to = own == 0 ? left : right;
      index* const slot = place(to, own == 0 ? 1 : 0, number);  // side 0: what comes from the left
      send_unit(slot, static_cast<unsigned>(value), number);
      send_unit(slot + 1, static_cast<unsigned>(value >> 32), number);
    }
    values[number & 1][own] = value;
    __syncthreads();
    if (own > 0) from_left = values[number & 1][own - 1];
    if (own < last) from_right = values[number & 1][own + 1];
    if (own == 0 || own == last) {
      index* const slot = place(block, own == 0 ? 0 : 1, number);
      while (!unit_arrived(slot, number, parts[0]) || !unit_arrived(slot + 1, number, parts[1])) {
      }
      (own == 0 ? from_left : from_right) = static_cast<index>(parts[1]) << 32 | parts[0];
    }
    errors += from_left != value_of((rank + ranks - 1) % ranks, step);
    if (directions == 2) errors += from_right != value_of((rank + 1) % ranks, step);
  }
  if (errors != 0) atomicAdd(wrong, errors);
}

inline void neighbours(int ranks, int directions) {
  buffer<unsigned> wrong{1};
  buffer<index> edges{static_cast<index>(ranks) * 8};
  unsigned number = 1;
  std::vector<way> ways;
  for (int const threads : {256, 512, 1024})
    if (ranks >= threads && fits(neighbours_kernel, ranks / threads, threads))
      ways.push_back({"blocks of " + std::to_string(threads), [&, threads](int steps) {
                        launch(neighbours_kernel, ranks / threads, threads, edges.data(), ranks,
                               number, directions, steps, wrong.data());
                        number += static_cast<unsigned>(steps);
                      }});
  if (ways.empty()) return;
  result const found = measure(ways);
  require(wrong.host(0) == 0, "a number of a neighbour");
  for (char const* const calls : {"sendrecv", "isend"})  // the same work
    print("neighbours/time",
          "\"ranks\":" + std::to_string(ranks) + ",\"bytes\":8" + quoted("calls", calls) +
              ",\"directions\":" + std::to_string(directions) + quoted("way", found.name),
          found.seconds, 1e6, "us");
}

}  // namespace by_hand
