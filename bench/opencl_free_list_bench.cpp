// SPDX-License-Identifier: Apache-2.0
// Which free list of spans is faster: page bits under a tree, or a queue? (Seed: KMA, section 4.2,
// keeps free superblocks in a queue.)
//
//   opencl/free_list    work-items x 100 pairs that take a span and return it              ms
//
// usage: opencl_free_list_bench [DEVICE]      (a part of the device's name; default: all devices)
//
// `allocator` bitmap is the heap's: any span may be taken, and a run of pages, too. `allocator`
// queue is a bounded queue with a counter for each cell, by compare-and-swap on its head and tail.
// A call fails if the queue looks empty. Times are those of events on the device, after a warm-up.
// State: after a reset, all spans are free.
#include "opencl_session.hpp"

namespace {

constexpr char const* kernels = R"opencl(
typedef struct cell { uint turn; uint value; } cell;
typedef struct span_queue { uint head; uint tail; } span_queue;

__kernel void fill_queue(__global span_queue* queue, __global cell* cells, uint count) {
  for (uint i = get_global_id(0); i < count; i += get_global_size(0)) {
    cells[i].turn = i + 1u;
    cells[i].value = i;
  }
  if (get_global_id(0) == 0) {
    queue->head = 0u;
    queue->tail = count;
  }
}
// A cell is full for turn t if it says t + 1, and empty for turn t if it says t.
static inline bool take(__global span_queue* queue, __global cell* cells, uint mask, uint* value) {
  for (uint turn = quarry_load_relaxed(&queue->head);;) {
    __global cell* const at = cells + (turn & mask);
    int const ahead = (int)(quarry_load_acquire(&at->turn) - (turn + 1u));
    if (ahead < 0) return false;
    uint const seen = ahead == 0 ? quarry_cas_relaxed(&queue->head, turn, turn + 1u) : turn + 1u;
    if (ahead == 0 && seen == turn) {
      *value = at->value;
      quarry_store_release(&at->turn, turn + mask + 1u);
      return true;
    }
    turn = ahead == 0 ? seen : quarry_load_relaxed(&queue->head);
  }
}
static inline bool put(__global span_queue* queue, __global cell* cells, uint mask, uint value) {
  for (uint turn = quarry_load_relaxed(&queue->tail);;) {
    __global cell* const at = cells + (turn & mask);
    int const ahead = (int)(quarry_load_acquire(&at->turn) - turn);
    if (ahead < 0) return false;
    uint const seen = ahead == 0 ? quarry_cas_relaxed(&queue->tail, turn, turn + 1u) : turn + 1u;
    if (ahead == 0 && seen == turn) {
      at->value = value;
      quarry_store_release(&at->turn, turn + 1u);
      return true;
    }
    turn = ahead == 0 ? seen : quarry_load_relaxed(&queue->tail);
  }
}
__kernel void with_queue(__global span_queue* queue, __global cell* cells, uint mask, uint count,
                         __global uint* failures) {
  for (uint i = 0; i < count; ++i) {
    uint span;
    bool const is_taken = take(queue, cells, mask, &span);
    if (!is_taken || !put(queue, cells, mask, span))
      atomic_add((volatile __global uint*)failures, 1u);
  }
}
__kernel void with_bitmap(quarry_heap heap, uint count, __global uint* failures) {
  uint const area = quarry_place_of_seed(heap, quarry_seed()) & QUARRY_LAYOUT(heap, area_mask);
  for (uint i = 0; i < count; ++i) {
    uint const span = quarry_claim_span(heap, area);
    if (span == QUARRY_NONE) atomic_add((volatile __global uint*)failures, 1u);
    else quarry_free_pages(heap, span * QUARRY_PAGES_PER_SPAN, QUARRY_PAGES_PER_SPAN);
  }
}
)opencl";

constexpr int rounds = 11;
constexpr cl_uint spans = 4096, pairs = 100;
constexpr std::size_t local_size = 64;

void measure(bench::opencl_session& on) {
  cl::Program const program = quarry::opencl::build(on.context, on.device, kernels);
  cl::Buffer const queue{on.context, CL_MEM_READ_WRITE, 8};
  cl::Buffer const cells{on.context, CL_MEM_READ_WRITE, spans * std::size_t{8}};
  cl::Buffer const failures{on.context, CL_MEM_READ_WRITE, 4};
  cl::Kernel fill{program, "fill_queue"}, with_queue{program, "with_queue"},
      with_bitmap{program, "with_bitmap"};
  fill.setArg(0, queue);
  fill.setArg(1, cells);
  fill.setArg(2, spans);
  with_queue.setArg(0, queue);
  with_queue.setArg(1, cells);
  with_queue.setArg(2, spans - 1);
  with_queue.setArg(3, pairs);
  with_queue.setArg(4, failures);
  with_bitmap.setArg(0, on.heap.buffer());
  with_bitmap.setArg(1, pairs);
  with_bitmap.setArg(2, failures);
  for (std::size_t const items : {64, 384, 1536, 3072}) {
    for (bool const uses_queue : {false, true}) {
      auto const params = bench::parameters{}
                              .add("allocator", uses_queue ? "queue" : "bitmap")
                              .add("device", on.name)
                              .add("items", items);
      std::vector<double> values;
      cl_uint failed = 0;
      for (int round = -1; round < rounds; ++round) {
        on.heap.reset();
        on.zero(failures, 1);
        on.queue.enqueueNDRangeKernel(fill, cl::NullRange, 64, 64);
        double const value = on.ms(uses_queue ? with_queue : with_bitmap, items, local_size);
        if (round >= 0) values.push_back(value);
        failed += on.read(failures, 1)[0];
      }
      if (failed != 0)
        bench::record_failure("opencl/free_list", params,
                              std::to_string(failed) + " calls found no span", "ms");
      else
        bench::record_spread("opencl/free_list", params, values, "ms");
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  return bench::for_each_opencl_device(argc, argv, [](cl::Device const& device) {
    bench::opencl_session on{device, bench::bytes{spans + 256} << 16};
    measure(on);
  });
}
