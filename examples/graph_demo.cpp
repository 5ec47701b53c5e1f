// SPDX-License-Identifier: Apache-2.0
// Builds a graph in kernels, on Quarry's heap and on the platform's malloc, changes it in batches,
// and checks every answer.
#include "allocators.hpp"
#include "graph/edge_list.hpp"
#include "graph/reference.hpp"
#include "graph/rmat.hpp"
#include "quarry/device/graph_kernels.hpp"

#include <charconv>
#include <exception>
#include <iostream>
#include <numeric>
#include <optional>
#include <sstream>
#include <string_view>

namespace quarry::graph_demo {
namespace {

constexpr int rounds = 10;
constexpr std::chrono::seconds progress_interval{2};
constexpr char const* usage =
    "usage: graph_demo FILE                                        an edge list or Matrix Market "
    "file, plain or gzip\n"
    "       graph_demo --rmat SCALE [EDGES_PER_VERTEX] [--seed N]  a random graph of 2^SCALE "
    "vertices\n";

/// The arguments are invalid.
class bad_arguments : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Prints the present step to stderr, but at most every two seconds.
void progress(std::string const& step) {
  using clock = std::chrono::steady_clock;
  static auto const begin = clock::now();
  static auto last = begin;
  if (clock::now() - last < progress_interval) return;
  last = clock::now();
  auto const seconds = std::chrono::duration_cast<std::chrono::seconds>(last - begin).count();
  std::cerr << "  [" << seconds << " s] " << step << " ...\n";
}

/// Lanes for `count` items: one lane for each item, up to a number that keeps a GPU busy.
bench::grid lanes_for(std::uint64_t count) {
  return bench::lanes(std::clamp<std::uint64_t>(count, 1, bench::on_gpu ? 1u << 20 : 1u << 14));
}

/// Runs a kernel of the graph and waits for it.
struct run_and_wait {
  template <class Kernel>
  void operator()(bench::grid lanes, Kernel const& kernel) const {
    bench::run(lanes, kernel);
  }
};

double mebibytes(bytes size) { return static_cast<double>(size) / (1 << 20); }

/// Prints a line of the table: the time of a step, and the state of the heap after it.
void print_step(char const* name, double ms, std::uint64_t edges,
                std::optional<heap_stats> const& stats) {
  std::printf("%-34s %10.2f %10.2f", name, ms, ms == 0 ? 0 : static_cast<double>(edges) / ms / 1e3);
  if (stats) {
    std::printf(" %13.1f %12.1f %9.1f %%", mebibytes(stats->allocated), mebibytes(stats->reserved),
                100 * stats->fragmentation());
  }
  std::printf("\n");
  std::fflush(stdout);
}

/// Runs the batches on one allocator and compares the graph with a reference.
template <class Allocator>
class demo {
 public:
  using heap_type = typename Allocator::ref;
  using graph_type = dynamic_graph<run_and_wait, heap_type>;

  demo(Allocator& allocator, std::vector<edge> const& edges, reference const& empty,
       std::uint64_t seed)
      : allocator_{allocator},
        edges_{edges},
        expected_{empty},
        random_{seed},
        table_{graph_type::bytes_for(static_cast<std::uint32_t>(2 * empty.sources() + 1))},
        graph_{run_and_wait{}, allocator.device(), {table_.data(), table_.size()}},
        batch_{std::max<std::size_t>(1, edges.size())},
        results_{batch_.size()},
        answers_{batch_.size()} {}

  void run() {
    std::printf("\n%-34s %10s %10s", (std::string{Allocator::name} + ": step").c_str(), "ms",
                "M edges/s");
    if (has_stats) std::printf(" %13s %12s %11s", "allocated MiB", "reserved MiB", "fragmented");
    std::printf("\n");

    auto const& known = expected_.known();
    step("insert all", edges_.size(),
         [&] { return change<insert_edges>(edges_, expected_.places_of(edges_), true); });
    step("find all", known.size(), [&] { return find_all(); });
    step("export to rows", known.size(), [&] { return export_rows(); });

    double delete_ms = 0, insert_ms = 0;
    std::uint64_t changed = 0;
    for (int round = 0; round < rounds; ++round) {
      progress("round " + std::to_string(round + 1) + " of " + std::to_string(rounds) + " on " +
               Allocator::name);
      auto const indices = random_tenth();
      std::vector<edge> tenth;
      for (auto const index : indices) tenth.push_back(known[index]);
      delete_ms += change<delete_edges>(tenth, indices, false);
      (void)find_all();
      (void)change<delete_edges>(tenth, indices, false);  // the graph must refuse each deletion
      insert_ms += change<insert_edges>(tenth, indices, true);
      changed += tenth.size();
    }
    print_step(("delete a tenth, " + std::to_string(rounds) + " times").c_str(), delete_ms, changed,
               stats());
    print_step("insert that tenth again each time", insert_ms, changed, stats());
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
    progress(std::string{name} + " on " + Allocator::name);
    double const ms = work();
    print_step(name, ms, edges, stats());
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
  std::vector<edge> const& edges_;
  reference expected_;
  splitmix64 random_;
  bench::array<std::byte> table_;
  graph_type graph_;
  bench::array<edge> batch_;
  bench::array<change_result> results_;
  bench::array<std::uint8_t> answers_;
};

std::uint64_t parse(std::string_view text, char const* name, std::uint64_t low,
                    std::uint64_t high) {
  std::uint64_t value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < low || value > high) {
    throw bad_arguments{std::string{name} + " '" + std::string{text} + "' is not an integer from " +
                        std::to_string(low) + " to " + std::to_string(high)};
  }
  return value;
}

struct arguments {
  std::string file;
  unsigned scale = 0;
  std::uint64_t edges_per_vertex = 8;
  std::uint64_t seed = 1;
};

arguments parse_arguments(std::vector<std::string_view> words) {
  arguments result;
  for (std::size_t i = 0; i < words.size();) {
    if (words[i] != "--seed") {
      ++i;
      continue;
    }
    if (i + 1 == words.size()) throw bad_arguments{"--seed needs a number"};
    result.seed = parse(words[i + 1], "seed", 0, UINT64_MAX);
    words.erase(words.begin() + static_cast<std::ptrdiff_t>(i),
                words.begin() + static_cast<std::ptrdiff_t>(i) + 2);
  }
  if (words.empty()) throw bad_arguments{"no graph is given"};
  if (words[0] == "--rmat") {
    if (words.size() < 2 || words.size() > 3)
      throw bad_arguments{"--rmat needs SCALE and accepts EDGES_PER_VERTEX"};
    result.scale = static_cast<unsigned>(parse(words[1], "scale", 1, 26));
    if (words.size() == 3) result.edges_per_vertex = parse(words[2], "edges per vertex", 1, 1024);
  } else {
    if (words.size() != 1 || words[0].starts_with("-"))
      throw bad_arguments{"unknown argument '" + std::string{words.back()} + "'"};
    result.file = words[0];
  }
  return result;
}

std::vector<edge> load(arguments const& chosen) {
  progress("reading");
  if (!chosen.file.empty()) return read_edge_list(chosen.file).edges;
  return rmat(chosen.scale, chosen.edges_per_vertex << chosen.scale, chosen.seed);
}

void run(arguments const& chosen) {
  auto const edges = load(chosen);
  progress("sorting the edges for the reference");
  reference const empty{edges};
  std::printf("%s: %zu edges, %zu of them distinct, from %llu vertices; on %s\n",
              chosen.file.empty() ? "R-MAT" : chosen.file.c_str(), edges.size(),
              empty.known().size(), static_cast<unsigned long long>(empty.sources()),
              bench::on_gpu ? "the GPU" : "the CPU");
  std::fflush(stdout);
  if (edges.empty()) return;

  // An edge takes at most 16 bytes, and so does a small vertex. During a replacement both arrays
  // exist.
  bytes const heap_bytes = std::max<bytes>(512_MiB, 64 * (empty.known().size() + empty.sources()));
  // Constructed first, because CUDA accepts the size of its malloc's heap only before any kernel.
  bench::platform_allocator platform{heap_bytes};
  {
    bench::quarry_allocator quarry{heap_bytes};
    demo{quarry, edges, empty, chosen.seed}.run();
  }
  demo{platform, edges, empty, chosen.seed}.run();
  std::printf("\nEvery answer, every degree and every row agrees with the reference.\n");
}

}  // namespace
}  // namespace quarry::graph_demo

/// Exit status 0: every answer is right. 1: an answer is wrong, the heap recorded a fault, or the
/// system failed. 2: bad input or arguments.
int main(int argc, char** argv) {
  using namespace quarry::graph_demo;
  try {
    run(parse_arguments({argv + 1, argv + argc}));
    return 0;
  } catch (bad_arguments const& error) {
    std::cerr << "graph_demo: " << error.what() << '\n' << usage;
    return 2;
  } catch (malformed_input const& error) {
    std::cerr << error.what() << '\n';
    return 2;
  } catch (std::filesystem::filesystem_error const& error) {
    std::cerr << "graph_demo: " << error.what() << '\n';
    return 2;
  } catch (wrong_answer const& error) {
    std::cerr << "graph_demo: verification failed: " << error.what() << '\n';
    return 1;
  } catch (std::exception const& error) {
    std::cerr << "graph_demo: " << error.what() << '\n';
    return 1;
  }
}
