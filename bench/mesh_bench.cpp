// SPDX-License-Identifier: Apache-2.0
// Does a pool help or hurt a mesh code, and what does introspection cost it? (The seed of host
// pools saw -1.2 % to +25 % of run time.)
//
// A small diffusion and advection solver on an n x n mesh: six permanent fields; in each step
// flux, limiter and update routines take 20 temporaries of a row's, an edge's and the mesh's size
// and return them. The same program with the C library's malloc, with mimalloc if there is one,
// with a pool that is not tracked, and with one that is, where each step looks up a record for
// each routine's input; all align to 16 bytes. A round is the same steps with each, in an order
// that goes round, so that what else the machine does touches all alike; and where arrays lie by
// chance, which alone makes 10 % and more, is drawn anew for each round, by other permanent data
// between the fields (Mytkowicz et al., "Producing wrong data without doing anything obviously
// wrong!", 2009). Values are per step. State: in use, after a step that is not timed.
//
// All of it twice, each in a process of its own: with glibc's malloc as it is set by default,
// which gives large allocations back to the system each time, and (`malloc` is "keeps") with its
// thresholds raised, so that it keeps them, as a pool does.
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
  static void look(void const*) {}
};
template <bool Tracked>
struct pooled {
  quarry::pool<quarry::host_resource> from{quarry::host_resource{}, {.is_tracked = Tracked}};
  void* allocate(bytes size) { return from.allocate(size); }
  void deallocate(void* memory, bytes) { from.deallocate(memory); }
  /// As a checked copy or kernel launch does for its arguments.
  static void look(void const* memory) {
    if constexpr (Tracked) {
      if (!quarry::registry::find(memory)) std::abort();
    }
  }
};

template <class From>
class array {
 public:
  array(From& from, std::size_t size)
      : from_{&from},
        data_{static_cast<double*>(from.allocate(size * sizeof(double)))},
        size_{size} {}
  array(array&& other) = delete;
  ~array() { from_->deallocate(data_, size_ * sizeof(double)); }
  double& operator[](std::size_t at) { return data_[at]; }
  double operator[](std::size_t at) const { return data_[at]; }
  [[nodiscard]] double* data() { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  From* from_;
  double* data_;
  std::size_t size_;
};

template <class From>
class solver {
 public:
  solver(std::size_t n, unsigned layout)
      : n_{n},
        random_{layout},
        density_{from_, n * n},
        pad_1_{from_, pad()},
        energy_{from_, n * n},
        pad_2_{from_, pad()},
        u_{from_, n * n},
        pad_3_{from_, pad()},
        v_{from_, n * n},
        pad_4_{from_, pad()},
        pressure_{from_, n * n},
        pad_5_{from_, pad()},
        mass_{from_, n * n},
        pad_6_{from_, pad()} {
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
  using field = array<From>;

  void equation_of_state() {
    From::look(density_.data());
    array<From> row{from_, n_};
    for (std::size_t y = 0; y < n_; ++y) {
      for (std::size_t x = 0; x < n_; ++x)
        row[x] = 0.4 * density_[y * n_ + x] * energy_[y * n_ + x];
      std::memcpy(&pressure_[y * n_], row.data(), n_ * sizeof(double));
    }
  }
  void advect(field& what) {
    From::look(what.data());
    array<From> flux_x{from_, n_ * n_}, flux_y{from_, n_ * n_}, slope{from_, n_},
        edge{from_, 4 * n_};
    for (std::size_t i = 0; i < 4 * n_; ++i) edge[i] = what[i % n_];
    for (std::size_t y = 0; y < n_; ++y) {
      for (std::size_t x = 0; x < n_; ++x) {
        std::size_t const i = y * n_ + x, right = y * n_ + (x + 1) % n_, up = (y + 1) % n_ * n_ + x;
        slope[x] = 0.5 * (what[right] - what[i]);
        flux_x[i] = u_[i] * (u_[i] > 0 ? what[i] + 0.1 * slope[x] : what[right]);
        flux_y[i] = v_[i] * (v_[i] > 0 ? what[i] : what[up]);
      }
    }
    array<From> next{from_, n_ * n_};
    for (std::size_t y = 0; y < n_; ++y) {
      for (std::size_t x = 0; x < n_; ++x) {
        std::size_t const i = y * n_ + x, left = y * n_ + (x + n_ - 1) % n_,
                          down = (y + n_ - 1) % n_ * n_ + x;
        next[i] = what[i] - 0.01 * (flux_x[i] - flux_x[left] + flux_y[i] - flux_y[down]);
      }
    }
    std::memcpy(what.data(), next.data(), n_ * n_ * sizeof(double));
  }
  void diffuse(field& what, double rate) {
    From::look(what.data());
    array<From> next{from_, n_ * n_}, above{from_, n_}, below{from_, n_};
    for (std::size_t y = 0; y < n_; ++y) {
      std::memcpy(above.data(), &what[(y + 1) % n_ * n_], n_ * sizeof(double));
      std::memcpy(below.data(), &what[(y + n_ - 1) % n_ * n_], n_ * sizeof(double));
      for (std::size_t x = 0; x < n_; ++x) {
        std::size_t const i = y * n_ + x;
        next[i] = what[i] + rate * 0.25 *
                                (above[x] + below[x] + what[y * n_ + (x + 1) % n_] +
                                 what[y * n_ + (x + n_ - 1) % n_] - 4 * what[i]);
      }
    }
    std::memcpy(what.data(), next.data(), n_ * n_ * sizeof(double));
  }

  [[nodiscard]] std::size_t pad() { return 1 + random_() % 512; }

  From from_;
  std::size_t n_;
  std::minstd_rand random_;
  field density_, pad_1_, energy_, pad_2_, u_, pad_3_, v_, pad_4_, pressure_, pad_5_, mass_, pad_6_;
};

enum class setting { defaults, keeps };

void measure(std::size_t n, setting of_malloc) {
  std::uint64_t const steps = std::max<std::uint64_t>(1, 1'000'000 / (n * n));
  auto const params = bench::parameters{}.add("mesh", n).add(
      "malloc", of_malloc == setting::keeps ? "keeps" : "defaults");
  std::vector<bench::quantity> quantities{{"host/mesh/libc", "us"},
                                          {"host/mesh/pool", "us"},
                                          {"host/mesh/pool_tracked", "us"},
                                          {"host/mesh/pool_by_libc", "ratio"},
                                          {"host/mesh/tracked_by_pool", "ratio"}};
  if (bench::has_mimalloc) {
    quantities.push_back({"host/mesh/mimalloc", "us"});
    quantities.push_back({"host/mesh/pool_by_mimalloc", "ratio"});
  }
  bench::trial all{params, std::move(quantities), {.max_ms = 4500, .warm_ups = 2, .rounds = 41}};
  auto const time_of = [&](auto& one) {
    one.step();  // touches the memory
    auto const begin = std::chrono::steady_clock::now();
    for (std::uint64_t i = 0; i < steps; ++i) one.step();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
               .count() /
           static_cast<double>(steps);
  };
  constexpr unsigned contenders = bench::has_mimalloc ? 4 : 3;
  for (unsigned first = 0; all.next(); ++first) {
    solver<peer<bench::c_library>> plain{n, first};
    solver<pooled<false>> in_a_pool{n, first};
    solver<pooled<true>> tracked{n, first};
    std::optional<solver<peer<bench::mimalloc_on_host>>> in_mimalloc;
    if (bench::has_mimalloc) in_mimalloc.emplace(n, first);
    double a = 0, b = 0, c = 0, d = 0;
    for (unsigned i = 0; i < contenders; ++i) {
      switch ((first + i) % contenders) {
        case 0:
          a = time_of(plain);
          break;
        case 1:
          b = time_of(in_a_pool);
          break;
        case 2:
          c = time_of(tracked);
          break;
        default:
          d = time_of(*in_mimalloc);
      }
    }
    if (plain.sum() != in_a_pool.sum() || plain.sum() != tracked.sum() ||
        (in_mimalloc && plain.sum() != in_mimalloc->sum()))
      return all.fail("they do not agree");
    if (in_mimalloc) {
      all.add({a, b, c, b / a, c / b, d, b / d});
    } else {
      all.add({a, b, c, b / a, c / b});
    }
  }
  all.finish();
}

/// In a process of its own: how malloc is set cannot be undone. Gives its exit status.
int measure_apart(std::size_t n, setting of_malloc) {
  std::fflush(stdout);
  pid_t const child = fork();
  if (child == -1) {
    std::perror("mesh_bench: fork");
    return 1;
  }
  if (child == 0) {
    if (of_malloc == setting::keeps && !bench::make_malloc_keep_memory()) {
      std::fprintf(stderr, "mesh_bench: mallopt refused to keep memory\n");
      _exit(1);
    }
    measure(n, of_malloc);
    std::fflush(stdout);
    _exit(0);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) return 1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (!bench::is_asked_for(argc, argv)) return 0;
  for (std::size_t const n : {8, 15, 16, 32, 50, 64, 100, 128, 256, 512, 1024}) {
    for (setting const each : {setting::defaults, setting::keeps}) {
      if (int const status = measure_apart(n, each); status != 0) return status;
    }
  }
}
