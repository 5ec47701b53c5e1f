# SPDX-License-Identifier: Apache-2.0
"""Traces as Arrow's streams and tables. The tests of tables are skipped without pyarrow."""

import sys

import numpy as np
import pytest
from arrow_abi import read_stream
from conftest import random_trace

import quarry
from quarry import Kind


@pytest.fixture(scope="module")
def arrow():
    return pytest.importorskip("pyarrow", reason="pyarrow is not installed")


def named_trace():
    """Every kind of event, names in every table, two equal names, and chunks of one batch."""
    count = 700
    number = np.arange(count)
    return quarry.make_trace(
        {
            "kind": number % 7,
            "address": number << 40,
            "size": number * 3,
            "granted": number * 5,
            "time": number.astype(np.uint64) + np.uint64(1 << 63),
            "thread": number % 3,
            "stream": number % 2,
            "allocator": number % 4,
            "call_site": number % 5,
        },
        threads=["", "main", "worker"],
        streams=["", "0x1"],
        allocators=["", "fields", "fields", "Ωmega"],
        call_sites=["", "a.py:1", "", "b.py:2 f", "c"],
    )


def tiled_trace(trace):
    """More events than a batch of the stream has."""
    return quarry.Trace(np.tile(trace.events, 20), call_sites=trace.call_sites)


def assert_equal(first, second):
    assert np.array_equal(first.events, second.events)
    for names in ("threads", "streams", "allocators", "call_sites"):
        assert getattr(first, names) == getattr(second, names)


def assert_batches_are(trace, batches):
    for name, column in trace.columns().items():
        values = [value for batch in batches for value in batch[name]]
        if name == "kind":
            assert values == [Kind(kind).name.lower() for kind in column]
        elif column.dtype == np.uint32:
            names = getattr(trace, name + "s")
            assert values == [names[number] for number in column]
        else:
            assert np.array_equal(np.array(values, np.uint64), column)


def test_a_stream_has_the_columns_in_batches():
    trace = named_trace()
    assert_batches_are(trace, read_stream(trace))
    long = tiled_trace(random_trace(3))
    batches = read_stream(long)
    assert [len(batch["time"]) for batch in batches] == [1 << 16, len(long) - (1 << 16)]
    assert_batches_are(long, batches)
    assert read_stream(quarry.make_trace({})) == []


def test_a_file_is_a_stream_whose_names_grow(tmp_path):
    rows = [f"{i},10:21:33.5,allocate,0x{i}0,64,0x{i}" for i in range(1, 9)]
    log = tmp_path / "log.csv"
    log.write_text("Thread,Time,Action,Pointer,Size,Stream\n" + "\n".join(rows) + "\n")
    batches = read_stream(quarry.read_batches(log, 3))
    assert [len(batch["thread"]) for batch in batches] == [3, 3, 2]
    assert_batches_are(quarry.read_trace(log), batches)


def test_a_stream_says_why_it_fails():
    wrong = quarry.Trace(quarry.make_trace({"call_site": [0, 3]}).events, call_sites=["", "a"])
    with pytest.raises(ValueError, match="number 3 in a column with 2 names"):
        read_stream(wrong)


@pytest.mark.parametrize("make", [named_trace, lambda: tiled_trace(random_trace(3))])
def test_a_table_becomes_the_same_trace_again(arrow, make):
    trace = make()
    table = trace.to_arrow()
    assert table.num_rows == len(trace)
    assert_equal(quarry.make_trace(table), trace)


def test_columns_have_numbers_and_dictionaries_of_names(arrow):
    trace = named_trace()
    table = trace.to_arrow()
    assert table.column_names == list(trace.columns())
    assert table["time"].to_pylist() == trace.time.tolist()
    assert table["kind"].to_pylist()[:7] == [kind.name.lower() for kind in Kind]
    for name, names in (("thread", trace.threads), ("allocator", trace.allocators)):
        assert table[name].to_pylist() == [names[i] for i in trace.columns()[name]]
    table.validate(full=True)


def test_a_trace_without_events_is_a_table_without_rows(arrow):
    table = quarry.make_trace({}).to_arrow()
    assert table.num_rows == 0 and table.num_columns == 9
    assert len(quarry.make_trace(table)) == 0


def test_texts_and_missing_names_become_numbers(arrow):
    table = arrow.table(
        {
            "kind": ["allocate", "allocate", "deallocate"],
            "address": [16, 32, 16],
            "call_site": arrow.chunked_array([["b", None], ["a"]]),
        }
    )
    trace = quarry.make_trace(table)
    assert trace.kind.tolist() == [Kind.ALLOCATE, Kind.ALLOCATE, Kind.DEALLOCATE]
    assert [trace.call_sites[i] for i in trace.call_site] == ["b", "", "a"]
    assert trace.size.tolist() == [0, 0, 0]


def test_numbers_of_names_may_stand_in_a_table(arrow):
    table = arrow.table({"kind": [0, 1], "address": [16, 16], "call_site": [1, 1]})
    trace = quarry.make_trace(table, call_sites=["", "main.py:3"])
    assert trace.call_site.tolist() == [1, 1] and trace.call_sites[1] == "main.py:3"


def test_tables_that_are_no_traces_are_refused(arrow):
    for columns, message in (
        ({"colour": [1]}, "no column 'colour'"),
        ({"kind": ["borrow"]}, "no kind 'borrow'"),
        ({"size": ["big"]}, "'size' has texts"),
        ({"size": arrow.array([1, None])}, "'size' has 1 missing values"),
    ):
        with pytest.raises(quarry.BadArgument, match=message):
            quarry.make_trace(arrow.table(columns))


def test_a_number_without_a_name_is_refused(arrow):
    trace = quarry.Trace(quarry.make_trace({"call_site": [0, 3]}).events, call_sites=["", "a"])
    with pytest.raises(arrow.ArrowInvalid, match="number 3 in a column with 2 names"):
        trace.to_arrow()


def test_a_stream_that_nobody_reads_frees_its_memory(trace):
    def text_of_a_stream():
        return repr(trace.__arrow_c_stream__())

    references = sys.getrefcount(trace.events)
    assert 'capsule object "arrow_array_stream"' in text_of_a_stream()
    references_now = sys.getrefcount(trace.events)
    assert references_now == references


def test_without_pyarrow_the_message_says_what_to_install(trace, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(quarry.ResourceFailed, match="pip install pyarrow"):
        trace.to_arrow()


def test_polars_takes_a_trace(trace):
    polars = pytest.importorskip("polars", reason="polars is not installed")
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    frame = polars.DataFrame(trace)
    allocations = frame.filter(polars.col("kind") == "allocate")
    assert allocations["size"].sum() == int(trace.size[trace.kind == Kind.ALLOCATE].sum())
    again = quarry.make_trace(frame)
    assert np.array_equal(again.address, trace.address)
    assert [again.call_sites[i] for i in again.call_site] == [
        trace.call_sites[i] for i in trace.call_site
    ]
