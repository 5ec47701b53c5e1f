// SPDX-License-Identifier: Apache-2.0
// How long does it take to build, to extend and to thin out a graph whose adjacency arrays grow and shrink by powers of two?
// (After the graph tests of Winter, Parger, Mlakar and Steinberger, "Are dynamic memory managers on GPUs really slow?".)
//
// 2^20 vertices, a thread each, and 11.7 million edges (a sixteenth of both on the CPU), few vertices having many: degrees
// follow a power law with exponent -3, up to some ten thousand. `init` allocates each array and writes it. `insert` appends 0
// to 3 edges to each vertex; a full array is replaced by one twice as large. `delete` removes the last 0 to 15 edges of each;
// an array used to less than a quarter is replaced by the largest, of half its size, a quarter and so on, that is not; an empty
// one is freed. After each of the three every edge is checked, untimed.
#include "rounds.hpp"

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

  /// Moves what `which` holds to an array of `capacity`. False, with nothing changed, if there is none.
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

/// Gives back what is left.
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

enum class stage { init, insert, remove };

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
    if (last != stage::init) expected += inserted_at(id);
    if (last == stage::remove) expected = expected < deleted_at(id) ? 0 : expected - deleted_at(id);
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

template <class Allocator>
void measure(std::vector<std::uint32_t> const& degrees_on_host) {
  using ref = typename Allocator::ref;
  auto const params = bench::parameters{}
                          .add("allocator", Allocator::name)
                          .add("vertices", vertex_count)
                          .add("edges", edge_count);
  Allocator allocator{bench::heap_bytes};
  bench::array<vertex> vertices{vertex_count};
  bench::array<std::uint32_t> degrees{vertex_count};
  degrees.from_host(degrees_on_host);
  bench::array<std::uint64_t> failures{1};
  graph<ref> const all{allocator.device(), vertices.data(), degrees.data(), failures.data()};
  auto const grid = bench::lanes(vertex_count);

  std::vector<double> init_ms, insert_ms, delete_ms;
  for (bench::rounds round{3000}; round.next();) {
    allocator.reset();
    double const init = bench::time_ms(grid, init_kernel<ref>{all});
    bench::run(grid, verify_kernel<ref>{all, stage::init});
    double const inserted = bench::time_ms(grid, insert_kernel<ref>{all});
    bench::run(grid, verify_kernel<ref>{all, stage::insert});
    double const deleted = bench::time_ms(grid, delete_kernel<ref>{all});
    bench::run(grid, verify_kernel<ref>{all, stage::remove});
    bench::run(grid, clear_kernel<ref>{all});
    if (auto const wrong = failures.to_host()[0]; wrong != 0) {
      bench::record_failure("heap/graph/init", params,
                            std::to_string(wrong) + " arrays are missing or wrong", "ms");
      return;
    }
    if (!round.counts()) continue;
    init_ms.push_back(init);
    insert_ms.push_back(inserted);
    delete_ms.push_back(deleted);
  }
  if (!bench::record_complaint("heap/graph/init", params, allocator, 0, "ms")) return;
  bench::record_spread("heap/graph/init", params, bench::spread_of(init_ms), "ms");
  bench::record_spread("heap/graph/insert", params, bench::spread_of(insert_ms), "ms");
  bench::record_spread("heap/graph/delete", params, bench::spread_of(delete_ms), "ms");
}

}  // namespace

int main(int argc, char** argv) {
  auto const degrees = skewed_degrees();
  bench::for_each_allocator(argc, argv, [&]<class Allocator>() { measure<Allocator>(degrees); });
}
