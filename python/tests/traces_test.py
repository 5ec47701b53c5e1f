# SPDX-License-Identifier: Apache-2.0
import gzip
import pickle
import re

import numpy as np
import pytest

import quarry
from quarry import Kind


def test_a_trace_that_was_written_reads_back_equal(trace, trace_file):
    read = quarry.read_trace(trace_file)
    assert read.format == "quarry"
    assert read.problem_count == 0 and read.problems == []
    for name, column in trace.columns().items():
        assert np.array_equal(read.columns()[name], column), name
    assert read.call_sites == trace.call_sites


def test_columns_are_numpy_arrays_of_one_length(trace):
    assert len(trace) == len(trace.time) == len(trace.call_site) == 4000
    assert trace.kind.dtype == np.uint8 and trace.address.dtype == np.uint64
    assert set(trace.kind) == {Kind.ALLOCATE, Kind.DEALLOCATE}
    assert "4,000 events" in repr(trace)


def test_a_recording_of_pytorch_has_call_sites_and_blocks(recording):
    read = quarry.read_trace(recording)
    assert read.format == "pytorch"
    assert np.count_nonzero(read.kind == Kind.RESERVE) > 0
    assert len(read.call_sites) > 1
    assert read.size[read.kind == Kind.ALLOCATE].min() > 0


def test_progress_counts_the_events(trace_file):
    counts = []
    quarry.read_trace(trace_file, progress=counts.append)
    assert counts[-1] == 4000


def test_an_exception_of_progress_ends_the_call(trace_file):
    def stop(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        quarry.read_trace(trace_file, progress=stop)


def test_convert_keeps_events_and_names(recording, tmp_path):
    found = quarry.convert(recording, tmp_path / "converted")
    before, after = quarry.read_trace(recording), quarry.read_trace(tmp_path / "converted")
    assert (found["events"], found["format"]) == (len(before), "pytorch")
    assert np.array_equal(before.address, after.address)
    assert [before.call_sites[i] for i in before.call_site] == [
        after.call_sites[i] for i in after.call_site
    ]


def test_rmms_log_keeps_what_is_in_use(trace, trace_file, tmp_path):
    log = tmp_path / "log.csv"
    found = quarry.convert(trace_file, log, target="rmm")
    assert (found["events"], found["skipped_events"]) == (len(trace), 0)
    read = quarry.read_trace(log)
    assert read.format == "rmm" and len(read) == len(trace)
    peaks = [quarry.replay(each).pool.peak_allocated for each in (trace, read)]
    assert peaks[0] == peaks[1]
    with pytest.raises(quarry.BadArgument, match="no format 'tape'"):
        quarry.convert(trace_file, tmp_path / "out", target="tape")


def test_rmms_log_has_the_fields_that_rmms_parser_expects(tmp_path):
    named = quarry.make_trace(
        {
            "kind": [Kind.ALLOCATE, Kind.FAIL, Kind.DEALLOCATE, Kind.PHASE],
            "address": [1 << 47, 0, 1 << 47, 0],
            "size": [(1 << 64) - 1, 7, 0, 0],
            "time": [86_399_999_999_999, 0, 1, 2],
            "thread": [1, 2, 0, 0],
            "stream": [1, 2, 0, 0],
        },
        threads=["", "4142", "worker"],
        streams=["", "0x1", "side stream"],
    )
    named.write(tmp_path / "named")
    found = quarry.convert(tmp_path / "named", tmp_path / "log.csv", target="rmm")
    assert (found["events"], found["skipped_events"]) == (3, 1)
    header, *rows = (tmp_path / "log.csv").read_text().splitlines()
    assert header == "Thread,Time,Action,Pointer,Size,Stream"
    row = re.compile(
        r"(\d+),\d\d:\d\d:\d\d\.\d{6},(allocate|allocate failure|free),"
        r"(\(nil\)|0x[0-9a-f]+),(\d+),(0|0x[0-9a-f]+)"
    )
    for line in rows:
        match = row.fullmatch(line)
        assert match and int(match[1]) < 1 << 64 and int(match[4]) < 1 << 64


def test_a_missing_file_raises_os_error(tmp_path):
    with pytest.raises(OSError, match="missing.csv") as caught:
        quarry.read_trace(tmp_path / "missing.csv")
    assert isinstance(caught.value, quarry.ResourceFailed)


@pytest.mark.parametrize("content", [b"", b"hello\n", b"\0" * 100, b"{}", gzip.compress(b"hello")])
def test_a_file_that_is_no_trace_raises_bad_trace_with_its_name(tmp_path, content):
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(str(path))) as caught:
        quarry.read_trace(path)
    assert isinstance(caught.value, quarry.BadTrace)


def test_a_truncated_trace_keeps_the_whole_chunks(trace, tmp_path):
    path = tmp_path / "long"
    events = np.tile(trace.events, 8)
    quarry.Trace(events, call_sites=trace.call_sites).write(path)
    path.write_bytes(path.read_bytes()[:-100])
    read = quarry.read_trace(path)
    assert 0 < len(read) < len(events)
    assert np.array_equal(read.address, events["address"][: len(read)])
    assert read.problem_count > 0 and str(path) in read.problems[0]


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("size", np.array([-5])),
        ("size", [1.5]),
        ("size", np.array([np.nan])),
        ("size", np.array([1e30])),
        ("size", np.array([2.0**64])),
        ("kind", np.array([300])),
        ("kind", [7]),
        ("thread", np.array([2**33])),
    ],
)
def test_make_trace_refuses_numbers_that_a_column_cannot_hold(name, column):
    with pytest.raises(quarry.BadArgument, match=f"column '{name}'"):
        quarry.make_trace({name: column})


def test_make_trace_keeps_large_numbers_and_refuses_numbers_without_a_name():
    sizes = [2**64 - 1, 5]
    assert quarry.make_trace({"address": [1, 2], "size": sizes}).size.tolist() == sizes
    with pytest.raises(quarry.BadArgument, match="`allocators` has only 2 names"):
        quarry.make_trace({"allocator": [2]}, allocators=["", "a"])


def test_numbers_without_names_are_unknown_call_sites():
    trace = quarry.make_trace({"address": [1 << 20], "size": [1 << 20], "call_site": [7]})
    assert quarry.replay(trace, capacity=4096).first_failure.call_site == ""
    assert quarry.separate(trace, key="call_site").table.pools == 1
    with pytest.raises(quarry.BadArgument, match="make_trace takes columns"):
        quarry.Trace(np.ones(3))


def test_names_that_are_not_utf8_are_escaped(tmp_path):
    frame = {"filename": "a\udcff", "name": "f", "line": 1}
    entry = {"action": "alloc", "addr": 4096, "size": 512, "time_us": 1, "frames": [frame]}
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [[entry]]}, protocol=4))
    assert quarry.read_trace(path).call_sites[1] == "a\\xed\\xb3\\xbf:1 f"


def test_a_file_keeps_the_names_of_number_0(tmp_path):
    trace = quarry.make_trace(
        {
            "kind": [0, Kind.WAIT],
            "address": [1, 0],
            "allocator": [0, 1],
            "stream": [0, 1],
            "size": [8, 0],
        },
        allocators=["device 0", "device 1"],
        streams=["main", "side"],
    )
    trace.write(tmp_path / "named.quarry")
    read = quarry.read_trace(tmp_path / "named.quarry")
    assert [read.allocators[number] for number in read.allocator] == ["device 0", "device 1"]
    assert [read.streams[number] for number in read.stream] == ["main", "side"]
    assert read.streams[read.size[1]] == "main"  # the stream that the event waits for


def test_make_trace_refuses_unknown_columns_and_unequal_lengths():
    with pytest.raises(quarry.BadArgument, match="no column 'colour'"):
        quarry.make_trace({"colour": [1]})
    with pytest.raises(quarry.BadArgument, match="different lengths"):
        quarry.make_trace({"size": [1, 2], "time": [1]})
