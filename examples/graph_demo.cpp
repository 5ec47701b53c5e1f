// SPDX-License-Identifier: Apache-2.0
// Builds a graph in kernels, on Quarry's heap and on the platform's malloc, changes it in batches,
// and checks every answer. Runs on the GPU if the build has CUDA and there is a GPU.
#include "graph/demo.hpp"
#include "graph/edge_list.hpp"
#include "graph/rmat.hpp"

#include <charconv>
#include <chrono>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string_view>

namespace quarry::graph_demo {
namespace {

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

double mebibytes(bytes size) { return static_cast<double>(size) / (1 << 20); }

/// Prints the results of the steps as one table for each allocator.
class step_printer {
 public:
  void operator()(step_result const& step) {
    if (step.allocator != allocator_) print_header(step);
    std::printf("%-34s %10.2f %10.2f", step.name.c_str(), step.ms,
                step.ms == 0 ? 0 : static_cast<double>(step.edges) / step.ms / 1e3);
    if (step.stats) {
      std::printf(" %13.1f %12.1f %9.1f %%", mebibytes(step.stats->allocated),
                  mebibytes(step.stats->reserved), 100 * step.stats->fragmentation());
    }
    std::printf("\n");
    std::fflush(stdout);
  }

 private:
  void print_header(step_result const& step) {
    allocator_ = step.allocator;
    std::printf("\n%-34s %10s %10s", (allocator_ + ": step").c_str(), "ms", "M edges/s");
    if (step.stats) std::printf(" %13s %12s %11s", "allocated MiB", "reserved MiB", "fragmented");
    std::printf("\n");
  }

  std::string allocator_;
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
  backend const kind = backend_for(backend::automatic);
  std::printf("%s: %zu edges, %zu of them distinct, from %llu vertices; on %s\n",
              chosen.file.empty() ? "R-MAT" : chosen.file.c_str(), edges.size(),
              empty.known().size(), static_cast<unsigned long long>(empty.sources()),
              kind == backend::cuda ? "the GPU" : "the CPU");
  std::fflush(stdout);
  if (edges.empty()) return;
  run(edges, empty, chosen.seed, kind, {progress, step_printer{}});
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
