// SPDX-License-Identifier: Apache-2.0
// What programs for several GPUs do without GPU MPI: a process for each GPU, kernels by hand, and an
// MPI that sends the GPU's memory.
//
// mpi/ping_pong/round_trip  us: a message and its answer between two processes, buffers on the GPUs
// mpi/ping_pong/bandwidth   GB/s: the bytes of a message by half of a round trip
// mpi/stencil/step          ms: a Jacobi step on a plate of 8192 x 8192 cells with its exchange. Each
//                           process has a part of the rows; a thread computes a cell.
//
// usage: processes ping_pong|stencil
#include "../measure.h"

#include <cuda_runtime.h>

#include <cstring>

namespace {

void check(cudaError_t status) { require(status == cudaSuccess, cudaGetErrorString(status)); }

int rank, size;

double* device_doubles(size_t count) {
  double* memory = nullptr;
  check(cudaMalloc(&memory, count * sizeof(double)));
  check(cudaMemset(memory, 0, count * sizeof(double)));
  return memory;
}

double round_trip(double* data, int bytes, int steps) {
  MPI_Barrier(MPI_COMM_WORLD);
  double const start = MPI_Wtime();
  for (int i = 0; i < steps; ++i) {
    if (rank == 0) MPI_Send(data, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    if (rank < 2) MPI_Recv(data, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Send(data, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
  }
  return (MPI_Wtime() - start) / steps;
}

void ping_pong() {
  constexpr int most = 64 << 20;
  double* const data = device_doubles(most / sizeof(double));
  for (int const bytes : {8, 64, 512, 4096, 32768, 262144, 1 << 20, 4 << 20, 16 << 20, most}) {
    round_trip(data, bytes, 20);
    int const steps = steps_of_sample(round_trip(data, bytes, 20));
    double times[samples], speeds[samples];
    for (int i = 0; i < samples; ++i) {
      times[i] = round_trip(data, bytes, steps);
      speeds[i] = bytes / (times[i] / 2) * 1e-9;
    }
    if (rank != 0) continue;
    char params[100];
    snprintf(params, sizeof params, "\"ranks\":2,\"bytes\":%d,\"buffer\":\"heap\"", bytes);
    print_times("ping_pong/round_trip", params, times, samples, 1e6, "us");
    print_times("ping_pong/bandwidth", params, speeds, samples, 1.0, "GB/s");
  }
  check(cudaFree(data));
}

__global__ void relax(double const* old, double* next, int height, int width) {
  int const j = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) + 1;
  int const i = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y) + 1;
  if (i > height || j > width) return;
  size_t const at = static_cast<size_t>(i) * (width + 2) + j;
  next[at] = 0.25 * (old[at - width - 2] + old[at + width + 2] + old[at - 1] + old[at + 1]);
}

__global__ void fill(double* cells, int height, int width, double step) {
  int const j = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  int const i = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
  if (i > height + 1 || j > width + 1) return;
  cells[static_cast<size_t>(i) * (width + 2) + j] = 1.0 - j * step;
}

struct plate {
  int height, width;
  double* blocks[2];

  [[nodiscard]] dim3 grid(int more) const {
    return {static_cast<unsigned>(width + more + 63) / 64,
            static_cast<unsigned>(height + more + 3) / 4};
  }
  void exchange(double* cells) const {
    int const above = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    int const below = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
    size_t const row = static_cast<size_t>(width) + 2;
    MPI_Request requests[4];
    MPI_Irecv(cells, width + 2, MPI_DOUBLE, above, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(cells + (height + 1) * row, width + 2, MPI_DOUBLE, below, 1, MPI_COMM_WORLD,
              &requests[1]);
    MPI_Isend(cells + row, width + 2, MPI_DOUBLE, above, 1, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(cells + height * row, width + 2, MPI_DOUBLE, below, 0, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
  }
  /// The seconds of a step, by the slowest process. `steps` is even.
  [[nodiscard]] double run(int steps) const {
    MPI_Barrier(MPI_COMM_WORLD);
    double const start = MPI_Wtime();
    for (int step = 0; step < steps; ++step) {
      exchange(blocks[step % 2]);
      relax<<<grid(0), dim3{64, 4}>>>(blocks[step % 2], blocks[1 - step % 2], height, width);
      check(cudaDeviceSynchronize());
    }
    double const seconds = (MPI_Wtime() - start) / steps;
    double longest = 0;
    MPI_Allreduce(&seconds, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return longest;
  }
};

void stencil() {
  constexpr int cells = 8192;
  plate const whole{cells / size,
                    cells,
                    {device_doubles((cells / size + 2) * (cells + 2ul)),
                     device_doubles((cells / size + 2) * (cells + 2ul))}};
  for (double* const block : whole.blocks)
    fill<<<whole.grid(2), dim3{64, 4}>>>(block, whole.height, cells, 1.0 / (cells + 1));
  check(cudaDeviceSynchronize());
  (void)whole.run(2);
  int const steps = (steps_of_sample(whole.run(2)) + 1) / 2 * 2;
  double times[samples];
  for (double& time : times) time = whole.run(steps);
  double found = 0;  // a linear profile along the rows stays
  check(cudaMemcpy(&found, whole.blocks[0] + 3 * (cells + 2ul) + 4096, sizeof found,
                   cudaMemcpyDeviceToHost));
  require(fabs(found - (1.0 - 4096.0 / (cells + 1))) < 1e-9, "a cell of the plate");
  char params[100];
  snprintf(params, sizeof params, "\"ranks\":%d,\"cells\":%d", size, cells);
  if (rank == 0) print_times("stencil/step", params, times, samples, 1e3, "ms");
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  check(cudaSetDevice(rank));
  require(argc == 2, "the name of a part: ping_pong or stencil");
  if (std::strcmp(argv[1], "stencil") == 0)
    stencil();
  else
    ping_pong();
  MPI_Finalize();
  return 0;
}
