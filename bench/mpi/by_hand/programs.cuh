// SPDX-License-Identifier: Apache-2.0
// Programs by hand: what bench/mpi/{stencil,sample_sort,particles}.c do. Their work does not depend
// on the number of ranks, so they run once, and print a line for each number of ranks.
#pragma once

#include <cub/device/device_radix_sort.cuh>

#include "measure.cuh"

namespace by_hand {

constexpr int pitch_margin = 16, strip_rows = 32;

/// A thread block takes 1,024 columns of a strip of rows. A thread walks down its column, and keeps
/// three values of it in registers.
__global__ void __launch_bounds__(1024)
    stencil_kernel(double* first, double* second, int cells, int steps) {
  auto const grid = cooperative_groups::this_grid();
  index const pitch = static_cast<index>(cells + 2 * pitch_margin);
  int const across = cells / 1024, strips = cells / strip_rows;
  for (int step = 0; step < steps; ++step) {
    double const* const old = step % 2 == 0 ? first : second;
    double* const next = step % 2 == 0 ? second : first;
    for (int item = static_cast<int>(blockIdx.x); item < across * strips;
         item += static_cast<int>(gridDim.x)) {
      index const column = static_cast<index>(item % across * 1024) + threadIdx.x + pitch_margin;
      index const row = static_cast<index>(item / across * strip_rows) + 1;
      double above = old[(row - 1) * pitch + column], own = old[row * pitch + column];
#pragma unroll 8
      for (int i = 0; i < strip_rows; ++i) {
        index const at = (row + static_cast<index>(i)) * pitch + column;
        double const below = old[at + pitch];
        next[at] = 0.25 * (above + below + old[at - 1] + old[at + 1]);
        above = own;
        own = below;
      }
    }
    grid.sync();
  }
}

inline void stencil(std::vector<int> const& ranks, int cells) {
  index const pitch = static_cast<index>(cells + 2 * pitch_margin);
  index const all = pitch * static_cast<index>(cells + 2);
  buffer<double> first{all}, second{all};
  std::vector<double> plate(all);
  for (index i = 0; i < all; ++i)
    plate[i] = 1.0 - (static_cast<double>(i % pitch) - pitch_margin + 1.0) / (cells + 1);
  for (auto* const each : {&first, &second})
    check(cudaMemcpy(each->data(), plate.data(), all * sizeof(double), cudaMemcpyHostToDevice),
          "copy");
  index const center = pitch * static_cast<index>(cells / 2) + static_cast<index>(cells / 2);
  first.set(center, first.host(center) + 1.0);
  result const found = measure(ways_of_blocks(stencil_kernel, [&](int blocks, int steps) {
    launch(stencil_kernel, blocks, 1024, first.data(), second.data(), cells, steps);
  }));
  check(cudaMemcpy(plate.data(), first.data(), all * sizeof(double), cudaMemcpyDeviceToHost),
        "copy");
  double rest = 0.0;
  for (index row = 1; row <= static_cast<index>(cells); ++row)
    for (index column = pitch_margin; column < pitch - pitch_margin; ++column)
      rest += plate[row * pitch + column] -
              (1.0 - (static_cast<double>(column) - pitch_margin + 1.0) / (cells + 1));
  require(std::abs(rest - 1.0) < 1e-3, "the sum of the disturbances");
  for (int const each : ranks)
    print("stencil/step",
          "\"ranks\":" + std::to_string(each) + ",\"cells\":" + std::to_string(cells),
          found.seconds, 1e3, "ms");
}

/// CUB's radix sort, which is not a cooperative kernel.
inline void sort(std::vector<int> const& ranks, int keys) {
  buffer<double> original{static_cast<index>(keys)}, first{static_cast<index>(keys)},
      second{static_cast<index>(keys)};
  std::vector<double> numbers(static_cast<index>(keys));
  index state = 88172645463325252u;
  for (double& number : numbers) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    number = static_cast<double>(state >> 11) / 9007199254740992.0;
  }
  index const bytes = numbers.size() * sizeof(double);
  check(cudaMemcpy(original.data(), numbers.data(), bytes, cudaMemcpyHostToDevice), "copy");
  std::size_t temporary_bytes = 0;
  cub::DoubleBuffer<double> sorted{first.data(), second.data()};
  check(cub::DeviceRadixSort::SortKeys(nullptr, temporary_bytes, sorted, keys), "sort");
  buffer<char> temporary{temporary_bytes};
  std::vector<double> times;
  for (int run = -1; run < samples; ++run) {
    sorted = {first.data(), second.data()};
    check(cudaMemcpy(first.data(), original.data(), bytes, cudaMemcpyDeviceToDevice), "copy");
    double const seconds = seconds_of([&] {
      check(cub::DeviceRadixSort::SortKeys(temporary.data(), temporary_bytes, sorted, keys),
            "sort");
    });
    if (run >= 0) times.push_back(seconds);
  }
  std::vector<double> found(numbers.size());
  check(cudaMemcpy(found.data(), sorted.Current(), bytes, cudaMemcpyDeviceToHost), "copy");
  std::ranges::sort(numbers);
  require(found == numbers, "the order of the keys");
  for (int const each : ranks)
    print("sample_sort/time",
          "\"ranks\":" + std::to_string(each) + ",\"keys\":" + std::to_string(keys), times, 1e3,
          "ms");
}

constexpr int capacity = 24, per_cell = 8;
constexpr double spacing = 1.25, time_step = 0.002, cutoff = 2.5, edge = 2.0 * spacing;

struct alignas(16) quadruple {
  double x, y, z, w;
};

/// Atoms by cells: cell c has `counts[c]` atoms from place c * capacity on.
struct cells_of_atoms {
  quadruple* at;  // `w` is the atom's number
  quadruple* speed;
  int* counts;
};

struct particles {
  cells_of_atoms cells[2];  // of the even steps and of the odd ones
  quadruple* forces;
  double* energy;
  unsigned* failed;
  int side;
};

__device__ inline int wrapped(int value, int side) {
  return value < 0 ? value + side : value >= side ? value - side : value;
}

/// Half a kick and a drift. Atoms go to their cells of the next step.
__device__ inline void move_atoms(particles const& of, cells_of_atoms const& old,
                                  cells_of_atoms const& next, index own, index all) {
  int const side = of.side;
  double const box = side * edge;
  index const places = static_cast<index>(side) * side * side * capacity;
  for (index i = own; i < places; i += all) {
    if (static_cast<int>(i % capacity) >= old.counts[i / capacity]) continue;
    quadruple at = old.at[i], speed = old.speed[i];
    quadruple const force = of.forces[i];
    double* const coordinates[3] = {&at.x, &at.y, &at.z};
    speed.x += 0.5 * time_step * force.x;
    speed.y += 0.5 * time_step * force.y;
    speed.z += 0.5 * time_step * force.z;
    at.x += time_step * speed.x;
    at.y += time_step * speed.y;
    at.z += time_step * speed.z;
    int cell = 0;
    for (int d = 2; d >= 0; --d) {
      double& x = *coordinates[d];
      x = x < 0.0 ? x + box : x >= box ? x - box : x;
      cell = cell * side + min(static_cast<int>(x / edge), side - 1);
    }
    int const place = atomicAdd(&next.counts[cell], 1);
    if (place >= capacity) {
      *of.failed = 1;
      continue;
    }
    next.at[static_cast<index>(cell) * capacity + static_cast<index>(place)] = at;
    next.speed[static_cast<index>(cell) * capacity + static_cast<index>(place)] = speed;
  }
}

/// Forces and half a kick: a warp for each cell, four lanes for each of eight atoms.
__device__ inline double kick_atoms(particles const& of, cells_of_atoms const& cells, index own,
                                    index all) {
  int const side = of.side, lane = static_cast<int>(own % 32), part = lane % 4;
  double const box = side * edge;
  double energy = 0.0;
  for (int cell = static_cast<int>(own / 32); cell < side * side * side;
       cell += static_cast<int>(all / 32)) {
    int const count = cells.counts[cell];
    int const x = cell % side, y = cell / side % side, z = cell / side / side;
    for (int first = 0; first < count; first += 8) {
      int const atom = first + lane / 4;
      bool const is_atom = atom < count;
      index const i =
          static_cast<index>(cell) * capacity + static_cast<index>(is_atom ? atom : first);
      quadruple const at = cells.at[i];
      double force_x = 0.0, force_y = 0.0, force_z = 0.0;
      for (int n = 0; n < 27; ++n) {
        int const other_x = x + n % 3 - 1, other_y = y + n / 3 % 3 - 1, other_z = z + n / 9 - 1;
        double const shift_x = other_x < 0 ? box : other_x >= side ? -box : 0.0;
        double const shift_y = other_y < 0 ? box : other_y >= side ? -box : 0.0;
        double const shift_z = other_z < 0 ? box : other_z >= side ? -box : 0.0;
        int const other = (wrapped(other_z, side) * side + wrapped(other_y, side)) * side +
                          wrapped(other_x, side);
        int const others = cells.counts[other];
        for (int j = part; j < others; j += 4) {
          quadruple const that =
              cells.at[static_cast<index>(other) * capacity + static_cast<index>(j)];
          double const dx = at.x - that.x + shift_x, dy = at.y - that.y + shift_y,
                       dz = at.z - that.z + shift_z;
          double const square = dx * dx + dy * dy + dz * dz;
          if (square >= cutoff * cutoff || square == 0.0 || !is_atom) continue;
          double const inverse = 1.0 / square, sixth = inverse * inverse * inverse;
          double const strength = 24.0 * inverse * sixth * (2.0 * sixth - 1.0);
          energy += 2.0 * sixth * (sixth - 1.0);
          force_x += strength * dx;
          force_y += strength * dy;
          force_z += strength * dz;
        }
      }
      for (int distance = 1; distance < 4; distance *= 2) {
        force_x += __shfl_xor_sync(~0u, force_x, distance);
        force_y += __shfl_xor_sync(~0u, force_y, distance);
        force_z += __shfl_xor_sync(~0u, force_z, distance);
      }
      if (is_atom && part == 0) {
        quadruple speed = cells.speed[i];
        speed.x += 0.5 * time_step * force_x;
        speed.y += 0.5 * time_step * force_y;
        speed.z += 0.5 * time_step * force_z;
        cells.speed[i] = speed;
        of.forces[i] = {force_x, force_y, force_z, 0.0};
        energy += 0.5 * (speed.x * speed.x + speed.y * speed.y + speed.z * speed.z);
      }
    }
  }
  return energy;
}

/// `steps` is even, so that the next launch finds the atoms where this one did.
__global__ void __launch_bounds__(256) particles_kernel(particles of, int steps) {
  auto const grid = cooperative_groups::this_grid();
  index const own = grid.thread_rank(), all = grid.size();
  index const cells = static_cast<index>(of.side) * of.side * of.side;
  for (int step = 0; step < steps; ++step) {
    move_atoms(of, of.cells[step % 2], of.cells[1 - step % 2], own, all);
    if (own == 0) *of.energy = 0.0;
    grid.sync();
    double energy = kick_atoms(of, of.cells[1 - step % 2], own, all);
    for (unsigned distance = 16; distance > 0; distance /= 2)
      energy += __shfl_xor_sync(~0u, energy, distance);
    if (own % 32 == 0) atomicAdd(of.energy, energy);
    for (index i = own; i < cells; i += all) of.cells[step % 2].counts[i] = 0;
    grid.sync();
  }
}

inline void simulate(std::vector<int> const& ranks, int side) {
  index const cells = static_cast<index>(side) * side * side, places = cells * capacity;
  buffer<quadruple> at[2] = {buffer<quadruple>{places}, buffer<quadruple>{places}};
  buffer<quadruple> speed[2] = {buffer<quadruple>{places}, buffer<quadruple>{places}};
  buffer<int> counts[2] = {buffer<int>{cells}, buffer<int>{cells}};
  buffer<quadruple> forces{places};
  buffer<double> energy{1};
  buffer<unsigned> failed{1};
  std::vector<quadruple> atoms(places), speeds(places);
  std::vector<int> numbers(cells, per_cell);
  for (index cell = 0; cell < cells; ++cell)
    for (int k = 0; k < per_cell; ++k) {
      long const sites[3] = {2 * static_cast<long>(cell % side) + (k & 1),
                             2 * static_cast<long>(cell / side % side) + (k >> 1 & 1),
                             2 * static_cast<long>(cell / side / side) + (k >> 2)};
      long const number = (sites[2] * 2 * side + sites[1]) * 2 * side + sites[0];
      double random[3];
      for (int d = 0; d < 3; ++d) {
        unsigned const mixed = static_cast<unsigned>(number * 3 + d) * 2654435761u;
        random[d] = (static_cast<double>(mixed >> 16) / 65536.0 - 0.5) * 2.0;
      }
      double const shift = 0.25 * spacing;
      atoms[cell * capacity + k] = {sites[0] * spacing + shift, sites[1] * spacing + shift,
                                    sites[2] * spacing + shift, static_cast<double>(number)};
      speeds[cell * capacity + k] = {random[0], random[1], random[2], 0.0};
    }
  check(cudaMemcpy(at[0].data(), atoms.data(), places * sizeof(quadruple), cudaMemcpyHostToDevice),
        "copy");
  check(cudaMemcpy(speed[0].data(), speeds.data(), places * sizeof(quadruple),
                   cudaMemcpyHostToDevice),
        "copy");
  check(cudaMemcpy(counts[0].data(), numbers.data(), cells * sizeof(int), cudaMemcpyHostToDevice),
        "copy");
  particles const all{{{at[0].data(), speed[0].data(), counts[0].data()},
                       {at[1].data(), speed[1].data(), counts[1].data()}},
                      forces.data(),
                      energy.data(),
                      failed.data(),
                      side};
  int resident = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, particles_kernel, 256, 0),
        "occupancy");
  constexpr int steps = 6;  // as in particles.c, so that energies agree
  double energy_before = 0.0;
  std::vector<double> times;
  for (int run = -1; run < 5; ++run) {
    double const seconds = seconds_of(
        [&] { launch(particles_kernel, resident * multiprocessors(), 256, all, steps); });
    if (run < 0) energy_before = energy.host(0);
    if (run >= 0) times.push_back(seconds / steps);
  }
  check(cudaMemcpy(numbers.data(), counts[0].data(), cells * sizeof(int), cudaMemcpyDeviceToHost),
        "copy");
  index count = 0;
  for (int const each : numbers) count += static_cast<index>(each);
  require(failed.host(0) == 0 && count == cells * per_cell, "the number of atoms");
  require(std::abs(energy.host(0) - energy_before) < 1e-3 * std::abs(energy_before), "the energy");
  char text[100];
  std::snprintf(text, sizeof text, ",\"atoms\":%llu,\"energy_of_atom\":%.9f", count,
                energy_before / static_cast<double>(count));
  for (int const each : ranks)
    print("particles/step", "\"ranks\":" + std::to_string(each) + text, times, 1e3, "ms");
}

}  // namespace by_hand
