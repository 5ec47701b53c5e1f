// SPDX-License-Identifier: Apache-2.0
// How long does it take to build a graph, to insert and delete edges, and to double its arrays, if
// the adjacency arrays grow and shrink by powers of two? (After the graph tests of Winter, Parger,
// Mlakar and Steinberger, "Are dynamic memory managers on GPUs really slow?".)
//
// The graph has 2^20 vertices, with one thread each, and 11.7 million edges; on the CPU a sixteenth
// of both. Few vertices have many edges: degrees follow a power law with exponent -3, up to about
// ten thousand. `init` allocates and writes each array. `insert` appends 0 to 3 edges to each
// vertex and replaces a full array by one of twice its size. `delete` removes the last 0 to 15
// edges of each vertex. It halves the capacity of an array until at least a quarter is in use, and
// frees an empty array. `expand` works on a new graph: it appends edges to each vertex that has
// edges until its array has been replaced once by one of twice its size. After each of the four
// kernels an untimed kernel checks every edge.
#include "trial.hpp"

#include <cmath>

namespace {

constexpr std::uint64_t vertex_count = 1u << (bench::on_gpu ? 20 : 16);
constexpr std::uint64_t edge_count = bench::on_gpu ? 11'700'000 : 731'250;

/// Four edges: the minimum capacity, and the unit of copies.
struct alignas(16) quad {
  std::uint32_t edges[4];
};

struct vertex {
  quad* quads;
  std::uint32_t size;
  std::uint32_t capacity;  // of the array: 0, or a power of two of at least 4

  [[nodiscard]] QUARRY_HD std::uint32_t& edge_at(std::uint32_t i) const {
    return reinterpret_cast<std::uint32_t*>(quads)[i];
  }
};

/// The target of the `i`th edge of vertex `source`.
QUARRY_HD std::uint32_t target_of(std::uint32_t source, std::uint32_t i) {
  return (source * 7 + i) % vertex_count;
}

QUARRY_HD std::uint32_t inserted_at(std::uint32_t id) { return quarry::mix(id + 1) % 4; }
QUARRY_HD std::uint32_t deleted_at(std::uint32_t id) { return quarry::mix(id + 1) / 4 % 16; }

/// The arguments of all kernels.
template <class Ref>
struct graph {
  Ref heap;
  vertex* vertices;
  std::uint32_t const* degrees;
  std::uint64_t* failures;

  QUARRY_HD void count_failure() const {
    quarry::simt::atomic_ref<std::uint64_t>{*failures}.fetch_add(1, quarry::simt::relaxed);
  }

  [[nodiscard]] QUARRY_HD quad* allocate(std::uint32_t capacity) const {
    auto* const quads =
        static_cast<quad*>(heap.malloc(std::uint64_t{capacity} * sizeof(std::uint32_t)));
    if (quads == nullptr) count_failure();
    return quads;
  }

  /// Moves the edges of `target` to a new array of `capacity` edges. Returns false and changes
  /// nothing if the heap has no memory.
  QUARRY_HD bool resize(vertex& target, std::uint32_t capacity) const {
    quad* const quads = allocate(capacity);
    if (quads == nullptr) return false;
    for (std::uint32_t i = 0; i < (target.size + 3) / 4; ++i) quads[i] = target.quads[i];
    heap.free(target.quads);
    target.quads = quads;
    target.capacity = capacity;
    return true;
  }
};

/// Stores the id of the lane's vertex in `id`. Returns false if the lane has no vertex.
[[nodiscard]] QUARRY_HD bool find_vertex(std::uint32_t& id) {
  std::uint64_t const rank = quarry::simt::this_place().rank();
  id = static_cast<std::uint32_t>(rank);
  return rank < vertex_count;
}

/// The smallest capacity for `size` edges.
[[nodiscard]] QUARRY_HD std::uint32_t capacity_for(std::uint32_t size) {
  return size <= 4 ? 4 : 2u << quarry::highest_one(size - 1);
}

template <class Ref>
struct init_kernel {
  graph<Ref> state;

  QUARRY_HD void operator()() const {
    std::uint32_t id;
    if (!find_vertex(id)) return;
    vertex node{nullptr, 0, 0};
    if (std::uint32_t const degree = state.degrees[id]; degree != 0) {
      node.capacity = capacity_for(degree);
      node.quads = state.allocate(node.capacity);
      if (node.quads == nullptr) {
        node.capacity = 0;
      } else {
        for (; node.size < degree; ++node.size) node.edge_at(node.size) = target_of(id, node.size);
      }
    }
    state.vertices[id] = node;
  }
};

template <class Ref>
struct insert_kernel {
  graph<Ref> state;

  QUARRY_HD void operator()() const {
    std::uint32_t id;
    if (!find_vertex(id)) return;
    vertex node = state.vertices[id];
    for (std::uint32_t i = inserted_at(id); i > 0; --i) {
      if (node.size == node.capacity && !state.resize(node, capacity_for(node.size + 1))) break;
      node.edge_at(node.size) = target_of(id, node.size);
      ++node.size;
    }
    state.vertices[id] = node;
  }
};

template <class Ref>
struct expand_kernel {
  graph<Ref> state;

  QUARRY_HD void operator()() const {
    std::uint32_t id;
    if (!find_vertex(id)) return;
    vertex node = state.vertices[id];
    if (node.size == 0) return;
    for (std::uint32_t remaining = node.capacity - node.size + 1; remaining > 0; --remaining) {
      if (node.size == node.capacity && !state.resize(node, node.capacity * 2)) break;
      node.edge_at(node.size) = target_of(id, node.size);
      ++node.size;
    }
    state.vertices[id] = node;
  }
};

template <class Ref>
struct delete_kernel {
  graph<Ref> state;

  QUARRY_HD void operator()() const {
    std::uint32_t id;
    if (!find_vertex(id)) return;
    vertex node = state.vertices[id];
    std::uint32_t const removed = deleted_at(id);
    node.size = node.size < removed ? 0 : node.size - removed;
    if (node.size == 0) {
      state.heap.free(node.quads);
      node = {nullptr, 0, 0};
    } else {
      std::uint32_t capacity = node.capacity;
      while (capacity > 4 && node.size < capacity / 4) capacity /= 2;
      if (capacity != node.capacity) (void)state.resize(node, capacity);
    }
    state.vertices[id] = node;
  }
};

/// Frees all arrays.
template <class Ref>
struct clear_kernel {
  graph<Ref> state;

  QUARRY_HD void operator()() const {
    std::uint32_t id;
    if (!find_vertex(id)) return;
    state.heap.free(state.vertices[id].quads);
    state.vertices[id] = {nullptr, 0, 0};
  }
};

enum class stage { init, insert, remove, expand };

/// Counts the vertices whose edges are wrong after stage `last`.
template <class Ref>
struct verify_kernel {
  graph<Ref> state;
  stage last;

  QUARRY_HD void operator()() const {
    std::uint32_t id;
    if (!find_vertex(id)) return;
    vertex const& node = state.vertices[id];
    std::uint32_t expected = state.degrees[id];
    if (last == stage::insert || last == stage::remove) expected += inserted_at(id);
    if (last == stage::remove) expected = expected < deleted_at(id) ? 0 : expected - deleted_at(id);
    if (last == stage::expand && expected != 0) expected = capacity_for(expected) + 1;
    bool is_right = node.size == expected && (node.quads == nullptr) == (expected == 0);
    for (std::uint32_t i = 0; is_right && i < node.size; ++i)
      is_right = node.edge_at(i) == target_of(id, i);
    if (!is_right) state.count_failure();
  }
};

/// Degrees with the sum `edge_count`: a (u^(-1/2) - 1) for u uniform in (0, 1], whose mean is a.
std::vector<std::uint32_t> skewed_degrees() {
  std::vector<std::uint32_t> degrees(vertex_count);
  double const scale = static_cast<double>(edge_count) / static_cast<double>(vertex_count);
  std::uint64_t sum = 0;
  for (std::uint32_t id = 0; id < vertex_count; ++id) {
    double const u = (quarry::mix(id ^ 0x9e3779b9u) + 1.0) / 4294967296.0;
    degrees[id] =
        static_cast<std::uint32_t>(std::min(scale * (1 / std::sqrt(u) - 1) + 0.5, 20000.0));
    sum += degrees[id];
  }
  for (std::uint32_t id = 0; sum != edge_count;
       id = (id + 1) % vertex_count) {  // corrects the sum after rounding
    if (sum < edge_count) {
      ++degrees[id];
      ++sum;
    } else if (degrees[id] > 1) {
      --degrees[id];
      --sum;
    }
  }
  return degrees;
}

/// A graph in the heap of an allocator. Times its kernels and checks their results.
template <class Allocator>
class graph_under_test {
 public:
  using ref = typename Allocator::ref;

  graph_under_test(Allocator& allocator, std::vector<std::uint32_t> const& degrees)
      : allocator_{allocator} {
    degrees_.from_host(degrees);
  }

  /// Runs the kernel of a stage and checks the graph. Returns the kernel's milliseconds.
  template <template <class> class Kernel>
  double time(stage last) {
    double const ms = bench::time_ms(grid_, Kernel<ref>{state()});
    bench::run(grid_, verify_kernel<ref>{state(), last});
    return ms;
  }
  void clear() { bench::run(grid_, clear_kernel<ref>{state()}); }

  /// Describes the errors that the checks found; empty if there are none.
  [[nodiscard]] std::string complaint() const {
    auto const wrong = failures_.to_host()[0];
    return wrong == 0 ? std::string{} : std::to_string(wrong) + " arrays are missing or wrong";
  }

 private:
  [[nodiscard]] graph<ref> state() const {
    return {allocator_.device(), vertices_.data(), degrees_.data(), failures_.data()};
  }

  Allocator& allocator_;
  bench::array<vertex> vertices_{vertex_count};
  bench::array<std::uint32_t> degrees_{vertex_count};
  bench::array<std::uint64_t> failures_{1};
  bench::grid grid_ = bench::lanes(vertex_count);
};

template <class Allocator>
bench::parameters params_of() {
  return bench::parameters{}
      .add("allocator", Allocator::name)
      .add("vertices", vertex_count)
      .add("edges", edge_count);
}

template <class Allocator>
void measure_batches(Allocator& allocator, std::vector<std::uint32_t> const& degrees) {
  bench::trial rounds{
      params_of<Allocator>(),
      {{"heap/graph/init", "ms"}, {"heap/graph/insert", "ms"}, {"heap/graph/delete", "ms"}},
      {.max_ms = 3000}};
  graph_under_test graph{allocator, degrees};
  while (rounds.next()) {
    allocator.reset();
    double const init = graph.template time<init_kernel>(stage::init);
    double const inserted = graph.template time<insert_kernel>(stage::insert);
    double const deleted = graph.template time<delete_kernel>(stage::remove);
    graph.clear();
    if (auto const wrong = graph.complaint(); !wrong.empty()) return rounds.fail(wrong);
    rounds.add({init, inserted, deleted});
  }
  rounds.finish(allocator);
}

template <class Allocator>
void measure_expansion(Allocator& allocator, std::vector<std::uint32_t> const& degrees) {
  bench::trial rounds{params_of<Allocator>(), {{"heap/graph/expand", "ms"}}, {.max_ms = 3000}};
  graph_under_test graph{allocator, degrees};
  while (rounds.next()) {
    allocator.reset();
    (void)graph.template time<init_kernel>(stage::init);
    double const expanded = graph.template time<expand_kernel>(stage::expand);
    graph.clear();
    if (auto const wrong = graph.complaint(); !wrong.empty()) return rounds.fail(wrong);
    rounds.add({expanded});
  }
  rounds.finish(allocator);
}

}  // namespace

int main(int argc, char** argv) {
  auto const degrees = skewed_degrees();
  return bench::for_each_allocator(argc, argv, [&]<class Allocator>() {
    Allocator allocator{bench::heap_bytes};
    measure_batches(allocator, degrees);
    measure_expansion(allocator, degrees);
  });
}
