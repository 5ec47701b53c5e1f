// SPDX-License-Identifier: Apache-2.0
// What programs for two GPUs do without GPU MPI: kernels by hand, and NCCL between the GPUs. One
// process has both.
//
// mpi/ping_pong/round_trip  us: a message and its answer between two GPUs
// mpi/ping_pong/bandwidth   GB/s: the bytes of a message by half of a round trip
// mpi/stencil/step          ms: a Jacobi step on a plate of 8192 x 8192 cells with its exchange.
//                           Each GPU has half of the rows; a thread computes a cell.
//
// usage: nccl ping_pong|stencil
#include <nccl.h>

#include <cstring>

#include "measure.cuh"

namespace by_hand {
namespace {

constexpr int gpus = 2;

void check_nccl(ncclResult_t status) { require(status == ncclSuccess, ncclGetErrorString(status)); }

struct gpu {
  int device;
  ncclComm_t group;
  cudaStream_t stream;
};

std::vector<gpu> connect() {
  std::vector<gpu> all(gpus);
  ncclComm_t groups[gpus];
  check_nccl(ncclCommInitAll(groups, gpus, nullptr));
  for (int i = 0; i < gpus; ++i) {
    check(cudaSetDevice(i), "cudaSetDevice");
    all[i] = {i, groups[i], nullptr};
    check(cudaStreamCreateWithFlags(&all[i].stream, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  return all;
}

/// The seconds of a step; `work(steps)` puts the steps into the streams of all GPUs.
std::vector<double> seconds_of_steps(std::vector<gpu> const& all,
                                     std::function<void(int)> const& work) {
  auto const time = [&](int steps) {
    cudaEvent_t begin, end;
    check(cudaSetDevice(0), "cudaSetDevice");
    check(cudaEventCreate(&begin), "event");
    check(cudaEventCreate(&end), "event");
    check(cudaEventRecord(begin, all[0].stream), "event");
    work(steps);
    check(cudaSetDevice(0), "cudaSetDevice");
    check(cudaEventRecord(end, all[0].stream), "event");
    for (gpu const& each : all) check(cudaStreamSynchronize(each.stream), "steps");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin, end), "event");
    return milliseconds * 1e-3 / steps;
  };
  time(20);
  int const steps = 2 * static_cast<int>(std::clamp(sample_seconds / time(20) / 2.0, 1.0, 500.0));
  std::vector<double> seconds;
  for (int i = 0; i < samples; ++i) seconds.push_back(time(steps));
  return seconds;
}

void ping_pong(std::vector<gpu> const& all) {
  constexpr std::size_t most = 64 << 20;
  char* data[gpus];
  for (gpu const& each : all) {
    check(cudaSetDevice(each.device), "cudaSetDevice");
    check(cudaMalloc(&data[each.device], most), "cudaMalloc");
  }
  for (std::size_t const bytes :
       {8, 64, 512, 4096, 32768, 262144, 1 << 20, 4 << 20, 16 << 20, 64 << 20}) {
    auto const move = [&](int from) {
      check_nccl(ncclGroupStart());
      check_nccl(
          ncclSend(data[from], bytes, ncclChar, 1 - from, all[from].group, all[from].stream));
      check_nccl(ncclRecv(data[1 - from], bytes, ncclChar, from, all[1 - from].group,
                          all[1 - from].stream));
      check_nccl(ncclGroupEnd());
    };
    auto const seconds = seconds_of_steps(all, [&](int steps) {
      for (int i = 0; i < steps; ++i) {
        move(0);
        move(1);
      }
    });
    std::vector<double> speeds;
    for (double const each : seconds) speeds.push_back(static_cast<double>(bytes) / (each / 2));
    std::string const params =
        "\"ranks\":2,\"bytes\":" + std::to_string(bytes) + ",\"buffer\":\"heap\"";
    print("ping_pong/round_trip", params, seconds, 1e6, "us");
    print("ping_pong/bandwidth", params, speeds, 1e-9, "GB/s");
  }
}

__global__ void relax(double const* old, double* next, int height, int width) {
  int const j = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) + 1;
  int const i = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y) + 1;
  if (i > height || j > width) return;
  index const at = static_cast<index>(i) * static_cast<index>(width + 2) + static_cast<index>(j);
  next[at] = 0.25 * (old[at - width - 2] + old[at + width + 2] + old[at - 1] + old[at + 1]);
}

void stencil(std::vector<gpu> const& all) {
  constexpr int cells = 8192, height = cells / gpus;
  constexpr index row = cells + 2, size = row * (height + 2);
  std::vector<double> plate(size);  // a linear profile along the rows, which stays
  for (index i = 0; i < size; ++i) plate[i] = 1.0 - static_cast<double>(i % row) / (cells + 1);
  double* blocks[gpus][2];
  for (gpu const& each : all) {
    check(cudaSetDevice(each.device), "cudaSetDevice");
    for (double*& block : blocks[each.device]) {
      check(cudaMalloc(&block, size * sizeof(double)), "cudaMalloc");
      check(cudaMemcpy(block, plate.data(), size * sizeof(double), cudaMemcpyHostToDevice), "copy");
    }
  }
  dim3 const grid{cells / 64, height / 4}, block{64, 4};
  auto const seconds = seconds_of_steps(all, [&](int steps) {
    for (int step = 0; step < steps; ++step) {
      check_nccl(ncclGroupStart());
      for (gpu const& each : all) {
        double* const own = blocks[each.device][step % 2];
        int const other = 1 - each.device;
        index const edge = each.device == 0 ? height : 1, halo = each.device == 0 ? height + 1 : 0;
        check_nccl(ncclSend(own + edge * row, row, ncclDouble, other, each.group, each.stream));
        check_nccl(ncclRecv(own + halo * row, row, ncclDouble, other, each.group, each.stream));
      }
      check_nccl(ncclGroupEnd());
      for (gpu const& each : all) {
        check(cudaSetDevice(each.device), "cudaSetDevice");
        relax<<<grid, block, 0, each.stream>>>(blocks[each.device][step % 2],
                                               blocks[each.device][1 - step % 2], height, cells);
      }
    }
  });
  check(cudaMemcpy(plate.data(), blocks[1][0], size * sizeof(double), cudaMemcpyDeviceToHost),
        "copy");
  require(std::abs(plate[3 * row + 4096] - (1.0 - 4096.0 / (cells + 1))) < 1e-9, "a cell");
  print("stencil/step", "\"ranks\":2,\"cells\":" + std::to_string(cells), seconds, 1e3, "ms");
}

}  // namespace
}  // namespace by_hand

int main(int argc, char** argv) {
  using namespace by_hand;
  require(argc == 2, "the name of a part: ping_pong or stencil");
  auto const all = connect();
  if (std::strcmp(argv[1], "stencil") == 0)
    stencil(all);
  else
    ping_pong(all);
  return 0;
}
