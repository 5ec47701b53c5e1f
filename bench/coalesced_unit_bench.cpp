// SPDX-License-Identifier: Apache-2.0
// What do private arrays cost each thread: to allocate, to initialise, to work with, to free?
// (Seed: GPU MPI coalescing, section 4.1, the unit benchmark.) workloads.hpp has the workloads.
//
// Each thread allocates n floats, sets them to 0, 1, ..., n - 1, runs a workload and frees. It
// reads its multiprocessor's clock around each of the four phases; on the CPU, the host's clock in
// ns. A run gives the means over all threads. Over 20 runs after 2 warm-ups the benchmark records
// median, mean, standard deviation, p10 and p90. The seed's work phase is `work`. `total` is the
// sum of all four phases.
//
// mode none      as in the seed: threads do not wait for each other. A slow malloc staggers them,
//                and then their work looks fast, since few threads compete for memory.
// mode barrier   an untimed grid barrier before each phase: all threads work at once.
// grid paper     12 blocks of 1024 threads (CPU: 2 of 32).
// grid full      a block of 1024 threads on each multiprocessor (CPU: 4 of 32): the maximum that a
//                kernel can run at once with every allocator.
//
// Both modes run the same code. Every launch is cooperative, and every kernel is limited to 1024
// threads and so to 64 registers. With one block on a multiprocessor, fewer registers make no
// difference. The code that uses the arrays is compiled separately, so that the compiler unrolls it
// alike for every allocator. The kernel compares each workload's sum with the host's. All arrays
// hold the same numbers, so sums cannot show that arrays overlap: the host compares the addresses
// after the first run of each case with barriers.
//
// Without options the program measures, in both modes and grids: linear and quadratic at 100, 200,
// 300 and 400 floats; strided, gather and scan at 100 and 400. Linear with barriers has all sizes
// from 25 to 400 in steps of 25, except for the ways of coalescing over CUDA's malloc. CUDA's
// malloc takes a thousand times as long. On the full grid it has one or two sizes, and on all grids
// no case that would take longer than `max_run_ms`. Options take lists separated by commas. A case
// runs if all options name it:
//   --sizes=100,400 --workloads=linear --modes=barrier --grids=paper,264 (also a number of blocks)
//   --case-ms=700      after this time a case ends, with at least one run
//   --seconds=60       after this time an allocator begins no further case (default: 14, for CUDA's
//                      malloc 45; all allocators then take four minutes)
#include "coalesced_allocators.hpp"
#include "kernels.hpp"
#include "unit_kernel.hpp"
#include "workloads.hpp"

#include <array>
#include <map>
#include <set>
#include <string_view>

namespace {

using bench::grid;
using quarry::bytes;
using namespace quarry::literals;

constexpr double max_run_ms = 8000;
constexpr char const* unit = bench::on_gpu ? "cycles" : "ns";

struct options {
  std::set<std::string> workloads, modes, grids;
  std::set<std::uint32_t> sizes;
  double case_ms = bench::on_gpu ? 700 : 100;
  double seconds = 0;  // 0: the default of the allocator
  std::vector<std::string> allocators;
};

/// The requested grids with their names; without a request, `paper` and `full`.
std::vector<std::pair<std::string, grid>> grids_of(options const& selected) {
  std::uint32_t const threads = bench::on_gpu ? 1024 : 32;
  std::uint32_t full = 4;
#ifdef __CUDACC__
  int multiprocessors = 0;
  quarry::simt::check_cuda(
      cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0),
      "cudaDeviceGetAttribute");
  full = static_cast<std::uint32_t>(multiprocessors);
#endif
  std::vector<std::pair<std::string, grid>> found;
  for (std::string const& name :
       selected.grids.empty() ? std::set<std::string>{"paper", "full"} : selected.grids) {
    if (name == "paper")
      found.insert(found.begin(), {name, {bench::on_gpu ? 12u : 2u, threads}});
    else if (name == "full")
      found.push_back({name, {full, threads}});
    else
      found.push_back({name, {static_cast<std::uint32_t>(std::stoul(name)), threads}});
  }
  return found;
}

/// The time of one run in ms, by grid and floats.
using history = std::map<std::pair<std::string, std::uint32_t>, double>;

/// The cases of one allocator in one grid.
template <class Allocator>
class session {
 public:
  session(std::string name, grid lanes, options const& selected, history& past)
      : name_{std::move(name)},
        lanes_{lanes},
        options_{selected},
        past_{past},
        allocator_{make(lanes)},
        ticks_{bench::phases * threads()},
        arrays_{threads()} {}

  /// Runs all cases. Returns false if `end` passed before the last case began.
  bool run_all(std::chrono::steady_clock::time_point end) {
    bool has_time = true;
    bench::for_all_workloads([&]<class Workload>() {
      for (bool const has_barriers : {false, true})
        for (std::uint32_t const floats : sizes<Workload>(has_barriers)) {
          has_time = has_time && std::chrono::steady_clock::now() < end;
          if (has_time) measure<Workload>(has_barriers, floats);
        }
    });
    if (auto const text = bench::complaint(upstream(), 0); !text.empty())
      bench::record_failure("coalesced/unit/audit", params(), text, unit);
    return has_time;
  }

 private:
  static constexpr bool is_cuda_itself = bench::is_cuda_malloc<Allocator>;
  static constexpr bool is_coalesced = requires(Allocator& allocator) { allocator.upstream(); };
  static constexpr bool is_over_cuda = std::string_view{Allocator::name}.starts_with("cuda");

  template <class Workload>
  [[nodiscard]] std::vector<std::uint32_t> sizes(bool has_barriers) const {
    if (!options_.workloads.empty() && !options_.workloads.contains(Workload::name)) return {};
    if (!options_.modes.empty() && !options_.modes.contains(has_barriers ? "barrier" : "none"))
      return {};
    if (!options_.sizes.empty()) return {options_.sizes.begin(), options_.sizes.end()};
    bool const is_main =
        std::is_same_v<Workload, bench::linear> || std::is_same_v<Workload, bench::quadratic>;
    bool const is_slow = is_cuda_itself && name_ != "paper";
    if (is_slow)
      return is_main ? std::vector<std::uint32_t>{100, 400} : std::vector<std::uint32_t>{100};
    if (!is_main) return {100, 400};
    if (std::is_same_v<Workload, bench::quadratic> || !has_barriers ||
        (is_over_cuda && !is_cuda_itself))
      return {100, 200, 300, 400};
    std::vector<std::uint32_t> steps;
    for (std::uint32_t floats = 25; floats <= 400; floats += 25) steps.push_back(floats);
    return steps;
  }

  [[nodiscard]] bench::parameters params() const {
    return bench::parameters{}
        .add("allocator", Allocator::name)
        .add("grid", name_)
        .add("threads", std::uint64_t{lanes_.blocks} * lanes_.threads)
        .add("mhz", std::lround(bench::ticks_per_us()));
  }
  [[nodiscard]] auto& upstream() {
    if constexpr (is_coalesced)
      return allocator_.upstream();
    else
      return allocator_;
  }

  template <class Workload>
  void measure(bool has_barriers, std::uint32_t floats) {
    std::string const bench = "coalesced/unit/";
    bench::trial rounds{params()
                            .add("workload", Workload::name)
                            .add("mode", has_barriers ? "barrier" : "none")
                            .add("floats", floats),
                        {{bench + "allocate", unit},
                         {bench + "initialise", unit},
                         {bench + "work", unit},
                         {bench + "free", unit},
                         {bench + "total", unit}},
                        {.max_ms = options_.case_ms, .moments = true}};
    if (double const ms = expected_ms(floats); ms > max_run_ms)
      return rounds.fail("not run: one run would take " +
                         std::to_string(static_cast<int>(ms / 1e3)) + " s");
    sums_.from_host(expected_sums<Workload>(floats));
    allocator_.reset();
    double last_ms = 0;
    for (bool is_first = true; rounds.next(); is_first = false) {
      if (bench::never_frees<Allocator>) allocator_.reset();
      counts_.zero();
      last_ms = bench::run_together(
          lanes_, bench::unit_kernel<typename Allocator::ref, Workload>{
                      allocator_.device(),
                      floats,
                      has_barriers,
                      sums_.data(),
                      {ticks_.data(), arrays_.data(), counts_.data(), counts_.data() + 1}});
      auto const means = means_of_run();
      if (auto const text = faults_of_run(has_barriers && is_first, floats); !text.empty())
        return rounds.fail(text);
      rounds.add({means[bench::allocate], means[bench::initialise], means[bench::work],
                  means[bench::deallocate],
                  means[bench::allocate] + means[bench::initialise] + means[bench::work] +
                      means[bench::deallocate]});
    }
    past_[{name_, floats}] = last_ms;
    rounds.finish();
  }

  [[nodiscard]] std::array<double, bench::phases> means_of_run() {
    bench::run(bench::lanes(bench::on_gpu ? 8192 : 1),
               bench::add_up{threads(), ticks_.data(), counts_.data() + 2});
    auto const sums = counts_.to_host();
    std::array<double, bench::phases> means{};
    for (std::uint32_t i = 0; i < bench::phases; ++i)
      means[i] = static_cast<double>(sums[2 + i]) / static_cast<double>(threads());
    return means;
  }

  /// Describes the errors of a run; empty if there are none. `has_addresses`: the kernel stored the
  /// address of each array while all arrays were live.
  [[nodiscard]] std::string faults_of_run(bool has_addresses, std::uint32_t floats) {
    auto const counts = counts_.to_host();
    std::string text;
    if (counts[0] != 0) text += std::to_string(counts[0]) + " threads got no memory; ";
    if (counts[1] != 0) text += std::to_string(counts[1]) + " sums are wrong; ";
    if constexpr (is_coalesced) text += allocator_.first_fault();
    if constexpr (requires { upstream().heap(); })
      if (auto const fault = upstream().heap().first_fault()) text += quarry::name_of(fault->kind);
    if (text.empty() && has_addresses) {
      auto const found =
          bench::layout_of(arrays_.to_host(), bench::one_size{floats * sizeof(float)});
      if (found.overlaps != 0) text = std::to_string(found.overlaps) + " arrays overlap";
    }
    return text;
  }

  template <class Workload>
  [[nodiscard]] static std::vector<float> expected_sums(std::uint32_t floats) {
    std::vector<float> sums;
    for (std::uint32_t lane = 0; lane < bench::warp_size; ++lane) {
      std::vector<float> data;
      for (std::uint32_t i = 0; i < floats; ++i) data.push_back(static_cast<float>(i));
      sums.push_back(Workload::run(floats, data, lane));
    }
    return sums;
  }

  /// The expected time of one run in ms, or 0 if it is unknown. Assumes that the time depends on
  /// the size as in the small grid.
  [[nodiscard]] double expected_ms(std::uint32_t floats) const {
    if (past_.contains({name_, floats})) return past_.at({name_, floats});
    for (auto const& [key, ms] : past_)
      if (key.first == name_ && past_.contains({"paper", key.second}) &&
          past_.contains({"paper", floats}))
        return ms * past_.at({"paper", floats}) / past_.at({"paper", key.second});
    return 0;
  }

  [[nodiscard]] std::uint64_t threads() const {
    return std::uint64_t{lanes_.blocks} * lanes_.threads;
  }

  static Allocator make(grid lanes) {
    // The paper's 1 GiB suffices for the small grid only, and CUDA's limit can be set only once.
    constexpr bytes size = is_over_cuda ? 2_GiB : bench::heap_bytes;
    if constexpr (is_coalesced)
      return Allocator{size, lanes};
    else
      return Allocator{size};
  }

  std::string name_;
  grid lanes_;
  options const& options_;
  history& past_;
  Allocator allocator_;
  bench::array<std::uint64_t> ticks_;
  bench::array<void*> arrays_;
  bench::array<float> sums_{bench::warp_size};
  bench::array<std::uint64_t> counts_{2 + bench::phases};  // missing, wrong, ticks of each phase
};

template <class Allocator>
void measure_all(options const& selected) {
  double const standard = bench::is_cuda_malloc<Allocator> ? 45 : 14;
  double const seconds = selected.seconds > 0 ? selected.seconds : standard;
  auto const end = std::chrono::steady_clock::now() +
                   std::chrono::milliseconds{static_cast<std::int64_t>(seconds * 1e3)};
  history past;
  for (auto const& [name, lanes] : grids_of(selected)) {
    session<Allocator> cases{name, lanes, selected, past};
    if (cases.run_all(end)) continue;
    std::fprintf(stderr, "%s: skipped the rest of grid '%s' and later grids after %.0f s\n",
                 Allocator::name, name.c_str(), seconds);
    return;
  }
}

/// Throws std::invalid_argument for an unknown option.
options parse(std::vector<std::string> const& arguments) {
  options selected;
  for (std::string const& argument : arguments) {
    auto const equals = argument.find('=');
    if (equals == std::string::npos) {
      selected.allocators.push_back(argument);
      continue;
    }
    std::set<std::string> list;
    std::string const values = argument.substr(equals + 1);
    for (std::size_t begin = 0, comma = 0; comma != std::string::npos; begin = comma + 1) {
      comma = values.find(',', begin);
      list.insert(values.substr(begin, comma - begin));
    }
    std::string const key = argument.substr(0, equals);
    if (key == "--workloads")
      selected.workloads = list;
    else if (key == "--modes")
      selected.modes = list;
    else if (key == "--grids")
      selected.grids = list;
    else if (key == "--sizes")
      for (auto const& size : list)
        selected.sizes.insert(static_cast<std::uint32_t>(std::stoul(size)));
    else if (key == "--case-ms")
      selected.case_ms = std::stod(values);
    else if (key == "--seconds")
      selected.seconds = std::stod(values);
    else
      throw std::invalid_argument{"unknown option '" + key + "'"};
  }
  return selected;
}

}  // namespace

int main(int argc, char** argv) {
  options selected;
  try {
    selected = parse({argv + 1, argv + argc});
  } catch (std::exception const& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 2;
  }
  return bench::for_each_named(selected.allocators, bench::all_coalesced_allocators{},
                               [&]<class Allocator>() { measure_all<Allocator>(selected); });
}
