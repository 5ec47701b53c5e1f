// SPDX-License-Identifier: Apache-2.0
// Does a pool make a mesh code faster or slower, and what do tracking and lookups cost? (The seed
// of the host pools measured -1.2 % to +25 % of run time.)
//
// The program is a small diffusion and advection solver on an n x n mesh with six permanent fields.
// In each step its flux, limiter and update routines allocate and free 20 temporaries of the size
// of a row, an edge and the mesh. It runs with the C library's malloc, with mimalloc if it is
// installed, with an untracked pool, and with a tracked pool. With the tracked pool each step looks
// up a record for each routine's input. All allocators align to 16 bytes. Values are per step.
// State: in use, after a step that is not timed.
//
// A round runs the same steps with each allocator in a rotating order, so that other work on the
// machine affects all of them alike. The placement of the arrays alone changes times by 10 % and
// more. Other permanent data between the fields therefore changes it at random for each round
// (Mytkowicz et al., "Producing wrong data without doing anything obviously wrong!", 2009).
//
// Everything runs twice, each time in its own process: with the default settings of glibc's malloc,
// which returns large allocations to the system each time, and with its thresholds raised
// (`malloc` is "keeps"), so that it keeps them, as a pool does.
#include "peers.hpp"
#include "trial.hpp"

#include "quarry/host/pools/pool.hpp"
#include "quarry/host/resources/host_resource.hpp"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <random>

#include <sys/wait.h>
#include <unistd.h>

namespace {

using quarry::bytes;

template <class Peer>
struct peer : Peer {
  static void find(void const*) {}
};
template <bool Tracked>
struct pooled {
  quarry::pool<quarry::host_resource> pool{quarry::host_resource{}, {.is_tracked = Tracked}};
  void* allocate(bytes size) { return pool.allocate(size); }
  void deallocate(void* memory, bytes) { pool.deallocate(memory); }
  /// Looks up a record, as a checked copy or kernel launch does for its arguments.
  static void find(void const* memory) {
    if constexpr (Tracked) {
      if (!quarry::registry::find(memory)) std::abort();
    }
  }
};

template <class Source>
class array {
 public:
  array(Source& source, std::size_t size)
      : source_{&source},
        data_{static_cast<double*>(source.allocate(size * sizeof(double)))},
        size_{size} {}
  array(array&& other) = delete;
  ~array() { source_->deallocate(data_, size_ * sizeof(double)); }
  double& operator[](std::size_t i) { return data_[i]; }
  double operator[](std::size_t i) const { return data_[i]; }
  [[nodiscard]] double* data() { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  Source* source_;
  double* data_;
  std::size_t size_;
};

template <class Source>
class solver {
 public:
  solver(std::size_t n, unsigned layout)
      : n_{n},
        random_{layout},
        density_{source_, n * n},
        pad_1_{source_, pad()},
        energy_{source_, n * n},
        pad_2_{source_, pad()},
        u_{source_, n * n},
        pad_3_{source_, pad()},
        v_{source_, n * n},
        pad_4_{source_, pad()},
        pressure_{source_, n * n},
        pad_5_{source_, pad()},
        mass_{source_, n * n},
        pad_6_{source_, pad()} {
    for (std::size_t i = 0; i < n * n; ++i) {
      double const x = static_cast<double>(i % n) / static_cast<double>(n),
                   y = static_cast<double>(i / n) / static_cast<double>(n);
      density_[i] = 1 + 0.5 * std::exp(-40 * ((x - 0.5) * (x - 0.5) + (y - 0.5) * (y - 0.5)));
      energy_[i] = 2.5;
      u_[i] = y - 0.5;
      v_[i] = 0.5 - x;
      mass_[i] = density_[i];
    }
  }

  void step() {
    equation_of_state();
    advect(density_);
    advect(energy_);
    diffuse(energy_, 0.1);
    diffuse(u_, 0.05);
    diffuse(v_, 0.05);
  }
  [[nodiscard]] double sum() const {
    double result = 0;
    for (std::size_t i = 0; i < n_ * n_; ++i) result += density_[i] + energy_[i];
    return result;
  }

 private:
  using field = array<Source>;

  void equation_of_state() {
    Source::find(density_.data());
    array<Source> row{source_, n_};
    for (std::size_t y = 0; y < n_; ++y) {
      for (std::size_t x = 0; x < n_; ++x)
        row[x] = 0.4 * density_[y * n_ + x] * energy_[y * n_ + x];
      std::memcpy(&pressure_[y * n_], row.data(), n_ * sizeof(double));
    }
  }
  void advect(field& values) {
    Source::find(values.data());
    array<Source> flux_x{source_, n_ * n_}, flux_y{source_, n_ * n_}, slope{source_, n_},
        edge{source_, 4 * n_};
    for (std::size_t i = 0; i < 4 * n_; ++i) edge[i] = values[i % n_];
    for (std::size_t y = 0; y < n_; ++y) {
      for (std::size_t x = 0; x < n_; ++x) {
        std::size_t const i = y * n_ + x, right = y * n_ + (x + 1) % n_,
                          upper = (y + 1) % n_ * n_ + x;
        slope[x] = 0.5 * (values[right] - values[i]);
        flux_x[i] = u_[i] * (u_[i] > 0 ? values[i] + 0.1 * slope[x] : values[right]);
        flux_y[i] = v_[i] * (v_[i] > 0 ? values[i] : values[upper]);
      }
    }
    array<Source> next{source_, n_ * n_};
    for (std::size_t y = 0; y < n_; ++y) {
      for (std::size_t x = 0; x < n_; ++x) {
        std::size_t const i = y * n_ + x, left = y * n_ + (x + n_ - 1) % n_,
                          lower = (y + n_ - 1) % n_ * n_ + x;
        next[i] = values[i] - 0.01 * (flux_x[i] - flux_x[left] + flux_y[i] - flux_y[lower]);
      }
    }
    std::memcpy(values.data(), next.data(), n_ * n_ * sizeof(double));
  }
  void diffuse(field& values, double rate) {
    Source::find(values.data());
    array<Source> next{source_, n_ * n_}, upper{source_, n_}, lower{source_, n_};
    for (std::size_t y = 0; y < n_; ++y) {
      std::memcpy(upper.data(), &values[(y + 1) % n_ * n_], n_ * sizeof(double));
      std::memcpy(lower.data(), &values[(y + n_ - 1) % n_ * n_], n_ * sizeof(double));
      for (std::size_t x = 0; x < n_; ++x) {
        std::size_t const i = y * n_ + x;
        next[i] = values[i] + rate * 0.25 *
                                  (upper[x] + lower[x] + values[y * n_ + (x + 1) % n_] +
                                   values[y * n_ + (x + n_ - 1) % n_] - 4 * values[i]);
      }
    }
    std::memcpy(values.data(), next.data(), n_ * n_ * sizeof(double));
  }

  [[nodiscard]] std::size_t pad() { return 1 + random_() % 512; }

  Source source_;
  std::size_t n_;
  std::minstd_rand random_;
  field density_, pad_1_, energy_, pad_2_, u_, pad_3_, v_, pad_4_, pressure_, pad_5_, mass_, pad_6_;
};

enum class setting { defaults, keeps };

void measure(std::size_t n, setting malloc_setting) {
  std::uint64_t const steps = std::max<std::uint64_t>(1, 1'000'000 / (n * n));
  auto const params = bench::parameters{}.add("mesh", n).add(
      "malloc", malloc_setting == setting::keeps ? "keeps" : "defaults");
  std::vector<bench::quantity> quantities{{"host/mesh/libc", "us"},
                                          {"host/mesh/pool", "us"},
                                          {"host/mesh/pool_tracked", "us"},
                                          {"host/mesh/pool_by_libc", "ratio"},
                                          {"host/mesh/tracked_by_pool", "ratio"}};
  if (bench::has_mimalloc) {
    quantities.push_back({"host/mesh/mimalloc", "us"});
    quantities.push_back({"host/mesh/pool_by_mimalloc", "ratio"});
  }
  bench::trial rounds{params, std::move(quantities), {.max_ms = 4500, .warm_ups = 2, .rounds = 41}};
  auto const time_of = [&](auto& contender) {
    contender.step();  // touches the memory
    auto const begin = std::chrono::steady_clock::now();
    for (std::uint64_t i = 0; i < steps; ++i) contender.step();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
               .count() /
           static_cast<double>(steps);
  };
  constexpr unsigned contenders = bench::has_mimalloc ? 4 : 3;
  for (unsigned first = 0; rounds.next(); ++first) {
    solver<peer<bench::c_library>> plain{n, first};
    solver<pooled<false>> untracked{n, first};
    solver<pooled<true>> tracked{n, first};
    std::optional<solver<peer<bench::mimalloc_on_host>>> mimalloc;
    if (bench::has_mimalloc) mimalloc.emplace(n, first);
    double malloc_us = 0, pool_us = 0, tracked_us = 0, mimalloc_us = 0;
    for (unsigned i = 0; i < contenders; ++i) {
      switch ((first + i) % contenders) {
        case 0:
          malloc_us = time_of(plain);
          break;
        case 1:
          pool_us = time_of(untracked);
          break;
        case 2:
          tracked_us = time_of(tracked);
          break;
        default:
          mimalloc_us = time_of(*mimalloc);
      }
    }
    if (plain.sum() != untracked.sum() || plain.sum() != tracked.sum() ||
        (mimalloc && plain.sum() != mimalloc->sum()))
      return rounds.fail("the solvers' results differ");
    if (mimalloc) {
      rounds.add({malloc_us, pool_us, tracked_us, pool_us / malloc_us, tracked_us / pool_us,
                  mimalloc_us, pool_us / mimalloc_us});
    } else {
      rounds.add({malloc_us, pool_us, tracked_us, pool_us / malloc_us, tracked_us / pool_us});
    }
  }
  rounds.finish();
}

/// Measures in a separate process, since malloc's settings cannot be undone. Returns its exit
/// status.
int measure_separately(std::size_t n, setting malloc_setting) {
  std::fflush(stdout);
  pid_t const child = fork();
  if (child == -1) {
    std::perror("mesh_bench: fork");
    return 1;
  }
  if (child == 0) {
    if (malloc_setting == setting::keeps && !bench::make_malloc_keep_memory()) {
      std::fprintf(stderr, "mesh_bench: mallopt refused to keep memory\n");
      _exit(1);
    }
    measure(n, malloc_setting);
    std::fflush(stdout);
    _exit(0);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) return 1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (!bench::is_requested(argc, argv)) return 0;
  for (std::size_t const n : {8, 15, 16, 32, 50, 64, 100, 128, 256, 512, 1024}) {
    for (setting const malloc_setting : {setting::defaults, setting::keeps}) {
      if (int const status = measure_separately(n, malloc_setting); status != 0) return status;
    }
  }
}
