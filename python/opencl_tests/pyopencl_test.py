# SPDX-License-Identifier: Apache-2.0
"""quarry_opencl on the first OpenCL device (make test-opencl). Skipped without pyopencl or libquarry_opencl.so."""

import io
import os
import random
import re
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

cl = pytest.importorskip("pyopencl")
np = pytest.importorskip("numpy")
qo = pytest.importorskip("quarry_opencl")

GUIDE = Path(__file__).resolve().parents[2] / "docs/guide/opencl_python.md"
PRINTS = """100 allocations
no faults
sum of squares: 328350
100 words, counted 10 to 10 times
True 100
70 None 20000
0 allocations
quarry_opencl_heap_allocate: no memory for 1073741824 bytes: the heap has 16777216 bytes
1
"""
KERNELS = """
__kernel void fill(quarry_heap heap, __global quarry_array_list* list, __global quarry_ordered_map* map) {
  uint const item = get_global_id(0);
  uint index = 0;
  __global uint* const element = quarry_array_list_grow(heap, list, 1, &index);
  if (element != 0) *element = item;
  bool is_new;
  quarry_ordered_map_ensure(heap, map, item * 3, item, &is_new);
}
__kernel void edges(quarry_heap heap, __global quarry_graph* graph) {
  quarry_graph_builder builder = quarry_graph_builder_empty();
  quarry_graph_add_edge(heap, graph, get_global_id(0), 10, &builder);
  quarry_graph_finish(heap, &builder);
}
__kernel void overrun(quarry_heap heap) {
  quarry_ref const made = quarry_malloc(heap, 5);
  ((__global uchar*)quarry_at(heap, made))[5] = 1;
}
"""


@pytest.fixture(scope="module")
def queue():
    try:
        qo.sources()
    except ImportError as error:
        pytest.skip(str(error))
    context = cl.create_some_context(interactive=False)  # Intel's runtime loses a context that only a queue has
    yield cl.CommandQueue(context)


@pytest.fixture
def heap(queue):
    with qo.Heap(queue, 1 << 20, max_bytes=4 << 20) as heap:
        yield heap
        assert heap.usage().allocations_in_use == 0
        heap.audit()


def test_the_guide_prints_what_it_says(queue):
    code = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    output = io.StringIO()
    with redirect_stdout(output):
        exec("\n".join(code), {})
    assert output.getvalue() == PRINTS


def test_kernels_fill_what_the_host_reads(queue, heap):
    program = heap.build(KERNELS)
    numbers, ordered, graph = qo.ArrayList(heap, np.uint32), qo.OrderedMap(heap), qo.Graph(heap, 64)
    program.fill(queue, (100,), None, heap.buffer, numbers.buffer, ordered.buffer)
    program.edges(queue, (5,), None, heap.buffer, graph.buffer)
    assert sorted(numbers.read()) == list(range(100))
    assert numbers.read(10, 5).tolist() == numbers.read()[10:15].tolist()
    keys, values = ordered.items(first_key=100)
    assert keys.tolist() == list(range(102, 300, 3)) and values.tolist() == list(range(34, 100))
    ids, offsets, targets = graph.csr()
    assert ids.tolist() == [0, 1, 2, 3, 4, 10]
    assert offsets.tolist() == [0, 1, 2, 3, 4, 5, 5] and targets.tolist() == [5] * 5
    numbers.clear()
    ordered.clear()
    graph.destroy()


@pytest.mark.parametrize("seed", range(3))
def test_containers_equal_a_model(heap, seed):
    numbers = random.Random(seed)
    table, ordered, model = qo.Map(heap, 50), qo.OrderedMap(heap), {}
    vector, chunks, queue, elements, queued = qo.Vector(heap, "f8"), qo.ArrayList(heap, "f8"), qo.Queue(heap), [], []
    for _ in range(20):
        keys = [numbers.randrange(200) for _ in range(10)]
        values = [numbers.randrange(1 << 32) for _ in keys]
        table.update(keys, values)
        ordered.update(keys, values)
        model.update(zip(keys, values, strict=True))
        added = [numbers.random() for _ in range(numbers.randrange(1, 100))]
        assert vector.extend(added) == chunks.extend(added) == len(elements)
        elements += added
        queue.push(keys)
        queued += keys
        count = numbers.randrange(20)
        assert queue.pop(count).tolist() == queued[:count]
        del queued[:count]
    assert dict(zip(*map(np.ndarray.tolist, table.items()), strict=True)) == model
    assert list(zip(*map(np.ndarray.tolist, ordered.items()), strict=True)) == sorted(model.items())
    assert len(table) == len(ordered) == len(model)
    assert table.get(keys[0]) == ordered.get(keys[0]) == model[keys[0]] and table.get(200) is None
    first = numbers.randrange(len(elements))
    assert vector.read(first).tolist() == chunks.read(first).tolist() == elements[first:]
    assert len(vector) == len(chunks) == len(elements)
    for container in (vector, chunks, queue, ordered):
        container.clear()
    table.destroy()


def test_refusals_change_nothing(heap):
    vector, table = qo.Vector(heap, np.uint32), qo.Map(heap, 4)
    for call in (
        lambda: vector.extend([]),
        lambda: vector.read(1),
        lambda: vector.read(0, 1),
        lambda: vector.read(-1, 1),
        lambda: qo.Vector(heap, object),
        lambda: qo.Map(heap, 0),
        lambda: table.update([1], [1, 2]),
        lambda: table.update([-1], [1]),
        lambda: table.update([1.5], [1]),
        lambda: table.update([1], [1 << 32]),
        lambda: table.erase(5),
        lambda: qo.Heap(heap.queue, -1),
        lambda: qo.Heap(heap.queue, 1 << 64),
        lambda: qo.Heap(heap.queue, 1),
        lambda: heap.grow(8 << 20),
        lambda: heap.build(KERNELS, "-cl-std=CL1.1"),
    ):
        with pytest.raises(qo.BadArgument):
            call()
    with pytest.raises(qo.OutOfMemory):
        vector.extend(np.zeros(1 << 20, np.uint32))
    with pytest.raises(qo.OpenclFailed, match="undeclared_name"):
        heap.build("__kernel void f() { undeclared_name = 1; }")
    assert len(vector) == len(table) == 0
    table.destroy()


def test_a_mapped_heap_refuses_the_device_and_ends_with_its_block(heap):
    with heap.mapped() as memory:
        reference = memory.allocate(100)
        memory.view(reference, np.uint8, 100)[:] = 7
        for call in (heap.usage, heap.reset, lambda: heap.grow(2 << 20), heap.faults):
            with pytest.raises(qo.BadArgument, match="mapped"):
                call()
        with pytest.raises(qo.BadArgument, match="200 elements take 200 bytes"):
            memory.view(reference, np.uint8, 200)
        with pytest.raises(qo.BadArgument):
            memory.view(reference + 1, np.uint8)
    with pytest.raises(qo.BadArgument, match="not mapped any more"):
        memory.allocate(1)
    old = heap.buffer
    heap.grow(2 << 20)
    assert heap.size == 2 << 20 and heap.buffer != old
    with heap.mapped() as memory:
        assert memory.view(reference, np.uint8, 100).tolist() == [7] * 100
        memory.free(reference)
        with pytest.raises(qo.BadArgument, match="no allocation begins"):
            memory.free(reference)
    assert heap.faults().double_free == 1
    heap.clear_faults()
    assert heap.faults() == qo.Faults(0, 0, 0, 0, 0, "")


def test_a_debug_heap_lists_overruns(queue):
    heap = qo.Heap(queue, 1 << 20, debug=True)
    heap.build(KERNELS).overrun(queue, (1,), None, heap.buffer)
    (live,) = heap.live_allocations()
    assert (live.state, live.requested_size, live.number, live.work_item) == ("overrun", 5, 1, 0)
    heap.close()
    heap.close()
    with pytest.raises(qo.BadArgument):
        heap.usage()


def test_a_missing_library_is_an_import_error_that_says_what_to_do():
    code = "import quarry_opencl\ntry:\n  quarry_opencl.sources()\nexcept ImportError as error:\n  print(error)"
    environment = {**os.environ, "QUARRY_OPENCL_LIBRARY": "/no/such/library.so"}
    output = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True).stdout
    assert "'/no/such/library.so'" in output and "QUARRY_OPENCL_LIBRARY" in output
