// SPDX-License-Identifier: Apache-2.0
// How long does it take to build, to extend, to thin out and to double a graph whose adjacency
// arrays grow and shrink by powers of two? (After the graph tests of Winter, Parger, Mlakar and
// Steinberger, "Are dynamic memory managers on GPUs really slow?".)
//
// 2^20 vertices, a thread each, and 11.7 million edges (a sixteenth of both on the CPU), few
// vertices having many: degrees follow a power law with exponent -3, up to some ten thousand.
// `init` allocates each array and writes it. `insert` appends 0 to 3 edges to each vertex; a full
// array is replaced by one twice as large. `delete` removes the last 0 to 15 edges of each; an
// array used to less than a quarter is replaced by the largest, of half its size, a quarter and so
// on, that is not; an empty one is freed. `expand`, on a graph just built, appends to each vertex
// that has edges so many that its array must be replaced by one twice as large, once. After each of
// the four every edge is checked, untimed.
#include "trial.hpp"

#include <cmath>

namespace {

constexpr std::uint64_t vertex_count = 1u << (bench::on_gpu ? 20 : 16);
constexpr std::uint64_t edge_count = bench::on_gpu ? 11'700'000 : 731'250;

/// Four edges: the least capacity, and what is copied at once.
struct alignas(16) quad {
  std::uint32_t edges[4];
};

struct vertex {
  quad* quads;
  std::uint32_t size;
  std::uint32_t capacity;  // of the array, 0 or a power of two from 4

  [[nodiscard]] QUARRY_HD std::uint32_t& at(std::uint32_t i) const {
    return reinterpret_cast<std::uint32_t*>(quads)[i];
  }
};

/// The `i`th edge of a vertex ends there.
QUARRY_HD std::uint32_t target_of(std::uint32_t source, std::uint32_t i) {
  return (source * 7 + i) % vertex_count;
}

QUARRY_HD std::uint32_t inserted_at(std::uint32_t id) { return quarry::mix(id + 1) % 4; }
QUARRY_HD std::uint32_t deleted_at(std::uint32_t id) { return quarry::mix(id + 1) / 4 % 16; }

/// What all kernels here work on.
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

  /// Moves what `which` holds to an array of `capacity`. False, with nothing changed, if there is
  /// none.
  QUARRY_HD bool resize(vertex& which, std::uint32_t capacity) const {
    quad* const quads = allocate(capacity);
    if (quads == nullptr) return false;
    for (std::uint32_t i = 0; i < (which.size + 3) / 4; ++i) quads[i] = which.quads[i];
    heap.free(which.quads);
    which.quads = quads;
    which.capacity = capacity;
    return true;
  }
};

[[nodiscard]] QUARRY_HD bool own_vertex(std::uint32_t& id) {
  std::uint64_t const rank = quarry::simt::this_place().rank();
  id = static_cast<std::uint32_t>(rank);
  return rank < vertex_count;
}

/// The least capacity for `size` edges.
[[nodiscard]] QUARRY_HD std::uint32_t capacity_for(std::uint32_t size) {
  return size <= 4 ? 4 : 2u << quarry::highest_one(size - 1);
}

template <class Ref>
struct init_kernel {
  graph<Ref> all;

  QUARRY_HD void operator()() const {
    std::uint32_t id;
    if (!own_vertex(id)) return;
    vertex own{nullptr, 0, 0};
    if (std::uint32_t const degree = all.degrees[id]; degree != 0) {
      own.capacity = capacity_for(degree);
      own.quads = all.allocate(own.capacity);
      if (own.quads == nullptr) {
        own.capacity = 0;
      } else {
        for (; own.size < degree; ++own.size) own.at(own.size) = target_of(id, own.size);
      }
    }
    all.vertices[id] = own;
  }
};

template <class Ref>
struct insert_kernel {
  graph<Ref> all;

  QUARRY_HD void operator()() const {
    std::uint32_t id;
    if (!own_vertex(id)) return;
    vertex own = all.vertices[id];
    for (std::uint32_t i = inserted_at(id); i > 0; --i) {
      if (own.size == own.capacity && !all.resize(own, capacity_for(own.size + 1))) break;
      own.at(own.size) = target_of(id, own.size);
      ++own.size;
    }
    all.vertices[id] = own;
  }
};

template <class Ref>
struct expand_kernel {
  graph<Ref> all;

  QUARRY_HD void operator()() const {
    std::uint32_t id;
    if (!own_vertex(id)) return;
    vertex own = all.vertices[id];
    if (own.size == 0) return;
    for (std::uint32_t left = own.capacity - own.size + 1; left > 0; --left) {
      if (own.size == own.capacity && !all.resize(own, own.capacity * 2)) break;
      own.at(own.size) = target_of(id, own.size);
      ++own.size;
    }
    all.vertices[id] = own;
  }
};

template <class Ref>
struct delete_kernel {
  graph<Ref> all;

  QUARRY_HD void operator()() const {
    std::uint32_t id;
    if (!own_vertex(id)) return;
    vertex own = all.vertices[id];
    std::uint32_t const removed = deleted_at(id);
    own.size = own.size < removed ? 0 : own.size - removed;
    if (own.size == 0) {
      all.heap.free(own.quads);
      own = {nullptr, 0, 0};
    } else {
      std::uint32_t capacity = own.capacity;
      while (capacity > 4 && own.size < capacity / 4) capacity /= 2;
      if (capacity != own.capacity) (void)all.resize(own, capacity);
    }
    all.vertices[id] = own;
  }
};

/// Frees what is left.
template <class Ref>
struct clear_kernel {
  graph<Ref> all;

  QUARRY_HD void operator()() const {
    std::uint32_t id;
    if (!own_vertex(id)) return;
    all.heap.free(all.vertices[id].quads);
    all.vertices[id] = {nullptr, 0, 0};
  }
};

enum class stage { init, insert, remove, expand };

/// Counts vertices that do not have the edges that they must after `last`.
template <class Ref>
struct verify_kernel {
  graph<Ref> all;
  stage last;

  QUARRY_HD void operator()() const {
    std::uint32_t id;
    if (!own_vertex(id)) return;
    vertex const& own = all.vertices[id];
    std::uint32_t expected = all.degrees[id];
    if (last == stage::insert || last == stage::remove) expected += inserted_at(id);
    if (last == stage::remove) expected = expected < deleted_at(id) ? 0 : expected - deleted_at(id);
    if (last == stage::expand && expected != 0) expected = capacity_for(expected) + 1;
    bool right = own.size == expected && (own.quads == nullptr) == (expected == 0);
    for (std::uint32_t i = 0; right && i < own.size; ++i) right = own.at(i) == target_of(id, i);
    if (!right) all.count_failure();
  }
};

/// Degrees that sum up to `edge_count`: a (u^(-1/2) - 1) for u uniform in (0, 1], whose mean is a.
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
       id = (id + 1) % vertex_count) {  // what rounding and chance left
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

/// A graph in the heap of an allocator, whose kernels are timed and checked.
template <class Allocator>
class graph_under_test {
 public:
  using ref = typename Allocator::ref;

  graph_under_test(Allocator& allocator, std::vector<std::uint32_t> const& degrees)
      : allocator_{allocator} {
    degrees_.from_host(degrees);
  }

  /// Milliseconds of a kernel, after which the graph is checked as after `which`.
  template <template <class> class Kernel>
  double time(stage which) {
    double const took = bench::time_ms(grid_, Kernel<ref>{all()});
    bench::run(grid_, verify_kernel<ref>{all(), which});
    return took;
  }
  void clear() { bench::run(grid_, clear_kernel<ref>{all()}); }

  /// What was found wrong. Empty if nothing was.
  [[nodiscard]] std::string complaint() const {
    auto const wrong = failures_.to_host()[0];
    return wrong == 0 ? std::string{} : std::to_string(wrong) + " arrays are missing or wrong";
  }

 private:
  [[nodiscard]] graph<ref> all() const {
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
  bench::trial all{
      params_of<Allocator>(),
      {{"heap/graph/init", "ms"}, {"heap/graph/insert", "ms"}, {"heap/graph/delete", "ms"}},
      {.max_ms = 3000}};
  graph_under_test graph{allocator, degrees};
  while (all.next()) {
    allocator.reset();
    double const init = graph.template time<init_kernel>(stage::init);
    double const inserted = graph.template time<insert_kernel>(stage::insert);
    double const deleted = graph.template time<delete_kernel>(stage::remove);
    graph.clear();
    if (auto const wrong = graph.complaint(); !wrong.empty()) return all.fail(wrong);
    all.add({init, inserted, deleted});
  }
  all.finish(allocator);
}

template <class Allocator>
void measure_expansion(Allocator& allocator, std::vector<std::uint32_t> const& degrees) {
  bench::trial all{params_of<Allocator>(), {{"heap/graph/expand", "ms"}}, {.max_ms = 3000}};
  graph_under_test graph{allocator, degrees};
  while (all.next()) {
    allocator.reset();
    (void)graph.template time<init_kernel>(stage::init);
    double const expanded = graph.template time<expand_kernel>(stage::expand);
    graph.clear();
    if (auto const wrong = graph.complaint(); !wrong.empty()) return all.fail(wrong);
    all.add({expanded});
  }
  all.finish(allocator);
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
