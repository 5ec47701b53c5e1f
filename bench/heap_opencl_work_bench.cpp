// SPDX-License-Identifier: Apache-2.0
// What does a heap that OpenCL kernels share with all devices cost? The work of opencl_heap_bench,
// with the same kernels, sizes and numbers of threads, on the heap for CUDA kernels.
//
//   heap/opencl_work/pair      one thread, 10,000 pairs of malloc and free              ns a pair
//   heap/opencl_work/pairs     threads x 100 pairs; sizes: none 8 B, low 8/16 B, high 4..64 B  ms
//   heap/opencl_work/allocate  threads x 10 allocations of 4 or 8 B that stay                  ms
//   heap/opencl_work/graph     65,536 edges over 10,000 nodes, allocated one by one            ms
//                              on GPUs also 16,777,216 edges over 1,048,576 nodes
//
// Thread blocks of 64 threads, as the work-groups there, and a heap of 256 MiB that is reset before
// each round. A table of the graph has pointers of 8 bytes, where OpenCL's has references of 4. On
// the CPU the threads of the grid share OS threads, and the heap is the emulation for tests.
#include "trial.hpp"

#include <bit>
#include <initializer_list>
#include <random>

namespace {

using bench::bytes;
using quarry::simt::atomic_ref;
using quarry::simt::this_place;
using ref = bench::quarry_allocator::ref;

constexpr std::uint32_t block_size = 64;

QUARRY_HD void count_failure(std::uint32_t* failures) {
  atomic_ref<std::uint32_t>{*failures}.fetch_add(1, quarry::simt::relaxed);
}

enum class variance : std::uint32_t { none, low, high };
constexpr char const* names[] = {"none", "low", "high"};

QUARRY_HD std::uint32_t size_of(variance kind, std::uint32_t seed) {
  if (kind == variance::none) return 8;
  if (kind == variance::low) return 8 + (seed >> 8) % 2 * 8;
  return 4u << (seed >> 8) % 5;
}

struct pair_kernel {
  ref heap;
  std::uint32_t size;
  std::uint32_t count;
  std::uint32_t* failures;

  QUARRY_HD void operator()() const {
    for (std::uint32_t i = 0; i < count; ++i) {
      void* const memory = heap.malloc(size);
      if (memory == nullptr) count_failure(failures);
      heap.free(memory);
    }
  }
};

struct pairs_kernel {
  ref heap;
  variance kind;
  std::uint32_t count;
  std::uint32_t* failures;

  QUARRY_HD void operator()() const {
    auto random = static_cast<std::uint32_t>(this_place().rank()) * 2654435761u;
    for (std::uint32_t i = 0; i < count; ++i) {
      random = random * 1664525u + 1013904223u;
      auto* const word = static_cast<std::uint32_t*>(heap.malloc(size_of(kind, random)));
      if (word == nullptr) {
        count_failure(failures);
        continue;
      }
      *word = random;
      if (*static_cast<std::uint32_t volatile*>(word) != random) count_failure(failures);
      heap.free(word);
    }
  }
};

struct allocate_kernel {
  ref heap;
  std::uint32_t count;
  std::uint32_t* failures;

  QUARRY_HD void operator()() const {
    for (std::uint32_t i = 0; i < count; ++i) {
      auto* const word = static_cast<std::uint32_t*>(heap.malloc(4 + i % 2 * 4));
      if (word == nullptr)
        count_failure(failures);
      else
        *word = i;
    }
  }
};

struct link;

struct node {
  std::uint32_t id;
  link* links;
};
struct link {
  link* next;
  node* target;
};
struct edge {
  std::uint32_t source;
  std::uint32_t target;
};

/// Each thread adds every n-th edge to the lists of its nodes, and the nodes where they are new.
struct graph_kernel {
  ref heap;
  node** table;
  std::uint32_t mask;
  edge const* edges;
  std::uint32_t count;
  std::uint32_t* failures;

  QUARRY_HD void operator()() const {
    auto const place = this_place();
    node* spare = nullptr;
    for (std::uint64_t i = place.rank(); i < count; i += place.count()) {
      node* const source = ensure(edges[i].source, spare);
      node* const target = ensure(edges[i].target, spare);
      auto* const fresh = static_cast<link*>(heap.malloc(sizeof(link)));
      if (source == nullptr || target == nullptr || fresh == nullptr) {
        count_failure(failures);
        continue;
      }
      fresh->target = target;
      atomic_ref<link*> const links{source->links};
      link* first = links.load(quarry::simt::relaxed);
      do {
        fresh->next = first;
      } while (!links.compare_exchange(first, fresh, quarry::simt::acq_rel));
    }
    heap.free(spare);
  }

 private:
  /// Returns the node of `id`, and makes it if there is none.
  [[nodiscard]] QUARRY_HD node* ensure(std::uint32_t id, node*& spare) const {
    std::uint32_t place = (id * 0x9e3779b1u) ^ (id >> 15);
    for (std::uint32_t step = 0; step <= mask; ++step, ++place) {
      atomic_ref<node*> const at{table[place & mask]};
      node* found = at.load(quarry::simt::acquire);
      if (found == nullptr) {
        if (spare == nullptr) spare = static_cast<node*>(heap.malloc(sizeof(node)));
        if (spare == nullptr) return nullptr;
        *spare = {id, nullptr};
        if (at.compare_exchange(found, spare, quarry::simt::acq_rel)) {
          found = spare;
          spare = nullptr;
          return found;
        }
        found = at.load(quarry::simt::acquire);  // the failed exchange loaded it relaxed
      }
      if (found->id == id) {
        heap.free(spare);
        spare = nullptr;
        return found;
      }
    }
    return nullptr;
  }
};

/// Measures `kernel(heap, failures)` by `items` threads, each time from a reset. `live`: the
/// allocations that it leaves, if all rounds leave equally many. `prepare` runs before each round.
template <class Make, class Prepare>
void measure(std::string const& name, bench::quarry_allocator& allocator, bench::parameters params,
             std::uint32_t items, double scale, char const* unit, std::uint64_t live,
             Make const& kernel, Prepare const& prepare) {
  bench::trial rounds{params.add("allocator", bench::quarry_allocator::name).add("items", items),
                      {{name, unit}},
                      {.max_ms = 4000, .warm_ups = 1, .rounds = 11}};
  bench::array<std::uint32_t> failures{1};
  bench::grid const lanes{std::max(items / block_size, 1u), std::min(items, block_size)};
  while (rounds.next()) {
    allocator.reset();
    prepare();
    double const ms = bench::time_ms(lanes, kernel(allocator.device(), failures.data()));
    if (auto const count = failures.to_host()[0]; count != 0)
      return rounds.fail(std::to_string(count) + " calls failed");
    if (!rounds.is_sound(allocator, live)) return;
    rounds.add({ms * scale});
  }
  allocator.reset();
  rounds.finish(allocator);
}

void measure_pairs(bench::quarry_allocator& allocator) {
  auto const nothing = [] {};
  for (std::uint32_t const size : {4u, 64u, 1024u})
    measure(
        "heap/opencl_work/pair", allocator, bench::parameters{}.add("size", size), 1, 1e6 / 10'000,
        "ns", 0,
        [size](ref heap, std::uint32_t* failures) {
          return pair_kernel{heap, size, 10'000, failures};
        },
        nothing);
  for (std::uint32_t const items : {384, 1536, 4608, 16'384, 65'536, 262'144, 1'048'576}) {
    if (!bench::on_gpu && items > 65'536) continue;
    for (variance const kind : {variance::none, variance::low, variance::high})
      measure(
          "heap/opencl_work/pairs", allocator,
          bench::parameters{}.add("variance", names[static_cast<std::uint32_t>(kind)]), items, 1,
          "ms", 0,
          [kind](ref heap, std::uint32_t* failures) {
            return pairs_kernel{heap, kind, 100, failures};
          },
          nothing);
    if (items > 65'536) continue;
    measure(
        "heap/opencl_work/allocate", allocator, {}, items, 1, "ms", items * std::uint64_t{10},
        [](ref heap, std::uint32_t* failures) { return allocate_kernel{heap, 10, failures}; },
        nothing);
  }
}

void measure_graphs(bench::quarry_allocator& allocator, std::uint32_t edge_count,
                    std::uint32_t nodes, bench::parameters const& params,
                    std::initializer_list<std::uint32_t> items) {
  std::mt19937 random{1};
  std::vector<bool> is_used(nodes);
  auto const id = [&] {
    auto const index = static_cast<std::uint32_t>(random() % nodes);
    is_used[index] = true;
    return index * 7;
  };
  std::vector<edge> edges(edge_count);
  for (auto& edge : edges) edge = {id(), id()};
  auto const used = std::count(is_used.begin(), is_used.end(), true);
  bench::array<edge> input{edges.size()};
  input.from_host(edges);
  std::uint32_t const places = std::bit_ceil(2 * nodes);
  bench::array<node*> table{places};
  for (std::uint32_t const count : items)
    measure(
        "heap/opencl_work/graph", allocator, params, count, 1, "ms",
        static_cast<std::uint64_t>(used) + edge_count,
        [&](ref heap, std::uint32_t* failures) {
          return graph_kernel{heap, table.data(), places - 1, input.data(), edge_count, failures};
        },
        [&] { table.zero(); });
}

}  // namespace

int main(int argc, char** argv) {
  using namespace quarry::literals;
  if (!bench::is_requested(argc, argv)) return 0;
  try {
    {
      bench::quarry_allocator allocator{256_MiB};
      measure_pairs(allocator);
      measure_graphs(allocator, 65'536, 10'000, {}, {64, 384, 1536, 4608});
    }
    if (!bench::on_gpu) return 0;
    constexpr std::uint32_t edges = 1 << 24;
    constexpr std::uint32_t nodes = 1 << 20;
    bench::quarry_allocator allocator{1_GiB};
    measure_graphs(allocator, edges, nodes,
                   bench::parameters{}.add("edges", edges).add("nodes", nodes), {16'384, 65'536});
    return 0;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
  }
  return 1;
}
