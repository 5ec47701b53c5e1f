// SPDX-License-Identifier: Apache-2.0
// The steps of the demo. The compiler decides where they run: nvcc compiles them for a GPU, a C++
// compiler for threads of the CPU. A program may have both copies.
#pragma once

#include "allocators.hpp"
#include "graph/demo.hpp"
#include "graph/rmat.hpp"
#include "quarry/device/graph_kernels.hpp"

#include <numeric>
#include <sstream>

namespace quarry::graph_demo::inline BENCH_COPY {

inline constexpr int rounds = 10;

/// Lanes for `count` items: one lane for each item, up to a number that keeps a GPU busy.
inline bench::grid lanes_for(std::uint64_t count) {
  return bench::lanes(std::clamp<std::uint64_t>(count, 1, bench::on_gpu ? 1u << 20 : 1u << 14));
}

/// Runs a kernel of the graph and waits for it.
struct run_and_wait {
  template <class Kernel>
  void operator()(bench::grid lanes, Kernel const& kernel) const {
    bench::run(lanes, kernel);
  }
};

/// Runs the batches on one allocator and compares the graph with a reference.
template <class Allocator>
class demo {
 public:
  using heap_type = typename Allocator::ref;
  using graph_type = dynamic_graph<run_and_wait, heap_type>;

  demo(Allocator& allocator, std::vector<edge> const& edges, reference const& empty,
       std::uint64_t seed, demo_callbacks const& callbacks)
      : allocator_{allocator},
        callbacks_{callbacks},
        edges_{edges},
        expected_{empty},
        random_{seed},
        table_{graph_type::bytes_for(static_cast<std::uint32_t>(2 * empty.sources() + 1))},
        graph_{run_and_wait{}, allocator.device(), {table_.data(), table_.size()}},
        batch_{std::max<std::size_t>(1, edges.size())},
        results_{batch_.size()},
        answers_{batch_.size()} {}

  void run() {
    auto const& known = expected_.known();
    step("insert all", edges_.size(),
         [&] { return change<insert_edges>(edges_, expected_.places_of(edges_), true); });
    step("find all", known.size(), [&] { return find_all(); });
    step("export to rows", known.size(), [&] { return export_rows(); });

    double delete_ms = 0, insert_ms = 0;
    std::uint64_t changed = 0;
    for (int round = 0; round < rounds; ++round) {
      callbacks_.begin_step("round " + std::to_string(round + 1) + " of " + std::to_string(rounds) +
                            " on " + Allocator::name);
      auto const indices = random_tenth();
      std::vector<edge> tenth;
      for (auto const index : indices) tenth.push_back(known[index]);
      delete_ms += change<delete_edges>(tenth, indices, false);
      (void)find_all();
      (void)change<delete_edges>(tenth, indices, false);  // the graph must refuse each deletion
      insert_ms += change<insert_edges>(tenth, indices, true);
      changed += tenth.size();
    }
    report("delete a tenth, " + std::to_string(rounds) + " times", delete_ms, changed);
    report("insert that tenth again each time", insert_ms, changed);
    step("find all", known.size(), [&] { return find_all(); });
    step("export to rows", known.size(), [&] { return export_rows(); });
    step("delete all", known.size(),
         [&] { return change<delete_edges>(known, expected_.places_of(known), false); });
    (void)export_rows();
    check_heap();
  }

 private:
  static constexpr bool has_stats = requires(Allocator& allocator) { allocator.heap(); };

  template <class Work>
  void step(char const* name, std::uint64_t edges, Work work) {
    callbacks_.begin_step(std::string{name} + " on " + Allocator::name);
    double const ms = work();
    report(name, ms, edges);
  }

  void report(std::string const& name, double ms, std::uint64_t edges) {
    callbacks_.end_step({Allocator::name, name, ms, edges, stats()});
  }

  [[nodiscard]] std::optional<heap_stats> stats() {
    if constexpr (has_stats) return allocator_.heap().stats();
    return std::nullopt;
  }

  /// Runs a batch of edges with the given indices in the reference. Checks the result of each edge.
  template <template <class, class> class Kernel>
  double change(std::span<edge const> batch, std::span<std::size_t const> indices, bool inserts) {
    upload(batch);
    double const ms = bench::time_ms(
        lanes_for(batch.size()),
        Kernel<edge, heap_type>{graph_.ref(), batch_.data(), batch.size(), results_.data()});
    auto const results = results_.to_host();
    std::vector<bool> done(batch.size());
    for (std::size_t i = 0; i < batch.size(); ++i) {
      done[i] = results[i] == change_result::done;
      bool const is_refused =
          results[i] == (inserts ? change_result::duplicate : change_result::absent);
      if (!done[i] && !is_refused)
        throw wrong_answer{text_of(batch[i]) + ": " + name_of(results[i])};
    }
    expected_.check_batch(indices, done, inserts);
    return ms;
  }

  /// Looks up every known edge, and a tenth as many edges with random ends.
  double find_all() {
    auto const& known = expected_.known();
    double const ms = find(known);
    expected_.check_known(answers_.to_host());
    std::vector<edge> random_edges(known.size() / 10);
    for (auto& drawn : random_edges)
      drawn = {known[random_() % known.size()].source, known[random_() % known.size()].target};
    (void)find(random_edges);
    expected_.check_any(random_edges, answers_.to_host());
    return ms;
  }
  double find(std::span<edge const> requested) {
    upload(requested);
    return bench::time_ms(lanes_for(requested.size()),
                          find_edges<edge, heap_type>{graph_.ref(), batch_.data(), requested.size(),
                                                      answers_.data()});
  }

  /// Runs both passes of the export and checks every row. Between the passes the host adds up the
  /// degrees, untimed.
  double export_rows() {
    auto const graph = graph_.ref();
    std::uint64_t const capacity = graph.capacity();
    bench::array<std::uint32_t> ids{capacity};
    bench::array<std::uint64_t> degrees{capacity};
    double ms = bench::time_ms(lanes_for(capacity),
                               measure_rows<heap_type>{graph, ids.data(), degrees.data()});
    auto const degree = degrees.to_host();
    std::vector<std::uint64_t> begins(capacity);
    std::exclusive_scan(degree.begin(), degree.end(), begins.begin(), std::uint64_t{0});
    std::uint64_t const edges = begins.back() + degree.back();
    if (edges != expected_.present()) {
      throw wrong_answer{"the degrees add up to " + std::to_string(edges) + ", not " +
                         std::to_string(expected_.present())};
    }
    bench::array<std::uint64_t> ends{capacity};
    ends.from_host(begins);
    bench::array<std::uint32_t> columns{std::max<std::uint64_t>(1, edges)};
    constexpr std::uint32_t lanes_per_row = bench::on_gpu ? simt::warp_size : 1;
    ms += bench::time_ms(lanes_for(capacity * lanes_per_row),
                         fill_rows<heap_type>{graph, ends.data(), columns.data(), lanes_per_row});
    expected_.check_rows(ids.to_host(), degree, begins, columns.to_host());
    return ms;
  }

  /// The indices of about one edge in ten, in a random order.
  std::vector<std::size_t> random_tenth() {
    std::vector<std::size_t> result;
    for (std::size_t i = 0; i < expected_.known().size(); ++i) {
      if (random_() % 10 == 0) result.push_back(i);
    }
    for (std::size_t i = result.size(); i > 1; --i) std::swap(result[i - 1], result[random_() % i]);
    return result;
  }

  void upload(std::span<edge const> edges) {
    if (edges.size() > batch_.size()) throw std::logic_error{"graph_demo: the batch is too large"};
    batch_.from_host(edges);
  }

  /// Checks the heap after all edges are deleted: it must be sound and empty.
  void check_heap() {
    if constexpr (has_stats) {
      auto const& heap = allocator_.heap();
      if (auto const fault = heap.first_fault()) {
        std::ostringstream text;
        text << *fault;
        throw wrong_answer{text.str()};
      }
      for (auto const& line : heap.audit()) throw wrong_answer{"the heap is damaged: " + line};
      if (auto const leaked = heap.live_allocations(); !leaked.empty()) {
        throw wrong_answer{std::to_string(leaked.size()) +
                           " allocations are not freed after all edges were deleted"};
      }
    }
  }

  Allocator& allocator_;
  demo_callbacks const& callbacks_;
  std::vector<edge> const& edges_;
  reference expected_;
  splitmix64 random_;
  bench::array<std::byte> table_;
  graph_type graph_;
  bench::array<edge> batch_;
  bench::array<change_result> results_;
  bench::array<std::uint8_t> answers_;
};

/// Runs the demo on Quarry's heap, then on the platform's malloc.
inline void run_steps(std::vector<edge> const& edges, reference const& empty, std::uint64_t seed,
                      demo_callbacks const& callbacks) {
  if (edges.empty()) return;
  // An edge takes at most 16 bytes, and so does a small vertex. During a replacement both arrays
  // exist.
  bytes const heap_bytes = std::max<bytes>(512_MiB, 64 * (empty.known().size() + empty.sources()));
  // Constructed first, because CUDA accepts the size of its malloc's heap only before any kernel.
  bench::platform_allocator platform{heap_bytes};
  {
    bench::quarry_allocator quarry{heap_bytes};
    demo{quarry, edges, empty, seed, callbacks}.run();
  }
  demo{platform, edges, empty, seed, callbacks}.run();
}

}  // namespace quarry::graph_demo::inline BENCH_COPY
