# SPDX-License-Identifier: Apache-2.0
"""The index of what is in use at each event, and reports of a part of a trace."""

import json
import struct
import zlib

import numpy as np
import pytest
from analysis_test import with_gaps
from conftest import random_trace
from typer.testing import CliRunner

import quarry
from quarry import BadArgument, Kind
from quarry.cli import app
from quarry.report import content, moments, page, survey
from quarry.report.analysis import Curve
from quarry.report.lifetimes import joined, lifetimes_of
from quarry.report.segments import Segments
from quarry.report.window import Position, TimeSpread, Window, position_of, window_of

COLUMNS = ["start", "length", "time", "size", "granted", "address", "site", "stream", "pool"]


def unpacked(data):
    """The columns of a bin, as the page decodes them."""
    data = zlib.decompress(data)
    (count,) = struct.unpack_from("<I", data)
    offset, columns = 32, {}
    for name, planes in zip(COLUMNS, data[4:13], strict=True):
        values = np.zeros(count, np.uint64)
        for plane in range(planes):
            part = np.frombuffer(data, np.uint8, count, offset)
            values |= part.astype(np.uint64) << np.uint64(8 * plane)
            offset += count
        columns[name] = values
    assert offset == len(data)
    first_start, first_time = struct.unpack_from("<dd", data, 16)
    columns["start"] = np.cumsum(columns["start"]) + np.uint64(first_start)
    columns["time"] = np.cumsum(columns["time"]) + np.uint64(first_time)
    return columns


def in_use(index, event):
    """Start, end and size of the allocations in use after an event, found as the page does it: by
    the one bin of each level."""
    bins, found = {(each.level, each.number): each for each in index.bins}, []
    assert len(bins) == len(index.bins), "two bins have the same name"
    for level in range(index.levels):
        number = (event - index.first) // (moments.LEAF * moments.FANOUT**level)
        if each := bins.get((level, number)):
            columns = unpacked(each.data)
            rows = zip(columns["start"], columns["length"], columns["size"], strict=True)
            found += [(int(a), int(a + n), int(size)) for a, n, size in rows]
    return sorted(row for row in found if row[0] <= event < row[1])


def expected_at(lifetimes, event):
    live = lifetimes[lifetimes.live_at(event)]
    rows = zip(live.start.tolist(), live.end.tolist(), live.size.tolist(), strict=True)
    return sorted(rows)


@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize("begin", [None, 333])
def test_the_index_has_what_is_in_use_at_each_event(seed, begin, monkeypatch):
    monkeypatch.setattr(moments, "LEAF", 5)
    monkeypatch.setattr(survey, "BATCH", 70)
    trace = with_gaps(seed, 900)
    index = content.make_content(trace, window=window_of(begin, None)).moments
    lifetimes = lifetimes_of(trace)
    for event in range(begin or 0, len(trace)):
        assert in_use(index, event) == expected_at(lifetimes, event), f"seed {seed}, {event}"
    assert index.levels == 4 and len({each.level for each in index.bins}) == 4


def test_a_bin_has_all_facts_of_an_allocation(monkeypatch):
    trace = random_trace(2, 500)
    trace.events["stream"] = trace.address // (1 << 21) % 5
    trace.events["allocator"] = trace.address // (1 << 21) % 3
    [only] = content.make_content(trace).moments.bins
    columns, lifetimes = unpacked(only.data), lifetimes_of(trace)
    for name, values in (
        ("time", lifetimes.start_time - trace.time[0]),
        ("granted", lifetimes.granted),
        ("address", lifetimes.address),
        ("site", lifetimes.call_site),
        ("stream", lifetimes.stream),
        ("pool", lifetimes.allocator),
    ):
        assert columns[name].tolist() == values.tolist(), name


@pytest.mark.parametrize("batch", [5, 40, 1000])
def test_a_trace_that_ends_with_a_bin_has_the_allocations_that_are_never_freed(batch, monkeypatch):
    monkeypatch.setattr(moments, "LEAF", 5)
    monkeypatch.setattr(survey, "BATCH", batch)
    columns = {"address": np.arange(1, 41) * 4096, "size": [8] * 40}
    trace = quarry.make_trace(columns)
    trace.events["kind"][10:20], trace.events["address"][10:20] = 1, trace.address[:10]
    index, lifetimes = content.make_content(trace).moments, lifetimes_of(trace)
    for event in range(len(trace)):
        assert in_use(index, event) == expected_at(lifetimes, event), event


def test_a_bin_is_packed_as_soon_as_the_trace_is_read_beyond_its_end(monkeypatch):
    monkeypatch.setattr(moments, "LEAF", 10)
    columns = {"kind": [0, 1] * 50, "address": [64] * 100, "size": [8] * 100}
    lifetimes = lifetimes_of(quarry.make_trace(columns))
    index = moments.MomentIndex(0, 100, 0)
    index.add(lifetimes)
    index.close(39)
    assert [each.number for each in index.bins] == [0, 1, 2]
    index.close()
    assert len(index.bins) == 10


def test_the_smallest_allocations_are_left_out_of_an_index_that_would_be_too_large(monkeypatch):
    trace = random_trace(3)
    sizes = np.sort(trace.size[trace.kind == Kind.ALLOCATE])
    monkeypatch.setattr(moments, "MAX_INDEXED", len(sizes) // 2)
    made = content.make_content(trace)
    least = made.moments.least
    assert least > 0 and least & (least - 1) == 0
    assert made.moments.count == np.count_nonzero(sizes >= least) <= len(sizes) // 2
    assert np.count_nonzero(sizes >= least // 2) > len(sizes) // 2
    assert page.page_data(made)["moments"]["least"] == least


@pytest.mark.parametrize("batch", [1, 7, 500])
def test_a_curve_has_the_event_of_each_maximum(batch):
    values = np.random.default_rng(5).integers(0, 9, 500)
    times = np.arange(500, dtype=np.uint64)
    curve = Curve(500, max_bins=13, first=40)
    for event in range(0, 500, batch):
        curve.add(event, times[event : event + batch], values[event : event + batch])
    found = curve.envelope
    borders = [*found.first.tolist(), 500]
    for number, (low, high) in enumerate(zip(borders[:-1], borders[1:], strict=True)):
        assert found.maximum[number] == values[low:high].max()
        assert found.top[number] == low + values[low:high].argmax()


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("12000", Position(12000, False)),
        ("1.5s", Position(1_500_000_000, True)),
        (" 20 ms", Position(20_000_000, True)),
        ("3us", Position(3000, True)),
        (".5s", Position(500_000_000, True)),
        ("1500000000ns", Position(1_500_000_000, True)),
        ("123456789.123456789s", Position(123_456_789_123_456_789, True)),
    ],
)
def test_a_position_is_an_event_or_a_time(text, position):
    assert position_of(text) == position


@pytest.mark.parametrize("text", ["123456789.123456789 s", "0.5 s", "3 s", "100 s", "0 s"])
def test_a_time_is_written_with_all_its_digits(text):
    assert str(position_of(text)) == text


@pytest.mark.parametrize("text", ["", "-3", "1.5", "3 minutes", "1e3s", "s", "12,000", "inf s"])
def test_other_positions_are_refused_with_the_grammar(text):
    with pytest.raises(BadArgument, match="an event's number, such as 12000, or a time"):
        position_of(text)


@pytest.mark.parametrize("seed", range(1, 4))
def test_a_part_of_a_trace_has_the_peaks_of_its_events(seed, monkeypatch):
    monkeypatch.setattr(survey, "BATCH", 64)
    trace = random_trace(seed, 1000)  # an event each 1,000 ns
    change = np.where(trace.kind == Kind.ALLOCATE, 1, -1) * trace.size.astype(np.int64)
    live = np.cumsum(change)
    for window in (window_of(300, 700), window_of("0.3ms", "700us"), window_of("300us", 700)):
        made = content.make_content(trace, [quarry.replay(trace)], window=window)
        assert (made.first, made.events) == (300, 701)
        assert made.peak_requested == live[300:701].max()
        assert made.peak_event == 300 + live[300:701].argmax()
        assert made.requested.maximum.tolist() == live[300:701].tolist()
        time, event = made.axes
        assert (time.first, time.last) == (300e-6, 700e-6)
        assert (event.first, event.last) == (300, 700)
        left, right, _, _ = made.bounds(event)
        assert left.min() == 300 and right.max() == 700
        assert max(made.replays[0].events) <= 700
        lifetimes = lifetimes_of(trace)
        is_shown = (lifetimes.start <= 700) & (lifetimes.end > 300)
        assert made.allocations == np.count_nonzero(is_shown)
        assert dict(made.summary)["range"] == "events 300 to 700 of the trace"


def test_a_part_without_events_is_refused():
    trace = random_trace(1, 100)
    with pytest.raises(BadArgument, match=r"no events from event 100 to the last one.*100 events"):
        content.make_content(trace, window=window_of(100, None))
    with pytest.raises(BadArgument, match="ends at event 4, before it begins at event 5"):
        Window(Position(5, False), Position(4, False))


def test_a_command_takes_a_part_of_a_trace(trace_file, tmp_path):
    words = ["report", str(trace_file), "-o", str(tmp_path / "page.html"), "--json"]
    done = CliRunner().invoke(app, [*words, "--from", "100", "--to", "1.5ms"])
    assert json.loads(done.stdout)["events"] == 1401, done.output
    bad = CliRunner().invoke(app, [*words, "--from", "yesterday"])
    assert bad.exit_code == 2 and "'yesterday' is no position" in bad.stdout
    assert "event's number" in CliRunner().invoke(app, ["report", "--help"]).stdout


def times_of(gaps):
    return np.cumsum(np.array(gaps, np.uint64))


@pytest.mark.parametrize("limit", [64, 100_000])
@pytest.mark.parametrize(
    ("times", "is_narrow"),
    [
        (np.arange(50_000, dtype=np.uint64), False),
        (times_of([0, 10**9] + [1] * 50_000), True),  # a pause before the work
        (times_of([1] * 25_000 + [10**4] + [1] * 25_000), False),  # a short pause
        (times_of([1] * 25_000 + [10**6] + [1] * 25_000), True),
        (np.zeros(1000, np.uint64), False),
        (np.zeros(0, np.uint64), False),
    ],
)
def test_an_axis_of_time_is_narrow_if_most_events_lie_in_a_quarter_of_it(times, is_narrow, limit):
    spread = TimeSpread(limit)
    for first in range(0, len(times), 777):
        spread.add(times[first : first + 777])
    assert spread.is_narrow() is is_narrow


def test_a_report_opens_by_event_where_time_squeezes_the_work():
    trace = random_trace(1)
    assert content.make_content(trace).axis.unit == "s"
    trace.events["time"][0] = 0
    trace.events["time"][1:] += 10**9
    made = content.make_content(trace)
    assert [axis.unit for axis in made.axes] == ["", "s"]


def test_the_use_of_the_reserved_memory_is_that_of_the_recording():
    columns = {
        "kind": [Kind.RESERVE, 0, 0, Kind.RESERVE, 1, Kind.UNRESERVE],
        "address": [4096, 4096, 8192, 1 << 20, 4096, 1 << 20],
        "size": [8192, 2048, 2048, 8192, 2048, 8192],
    }
    made = content.make_content(quarry.make_trace(columns))
    assert made.used_share.maximum.tolist() == [0, 25, 50, 25, 12.5, 25]
    [blocks] = made.segments.bins
    found = unpacked(blocks.data)
    assert found["address"].tolist() == [4096, 1 << 20]
    assert found["length"].tolist() == [6, 2]


def test_parts_of_blocks_can_be_returned():
    """As PyTorch's expandable segments do: a part, and several blocks at once."""
    rows = [
        (Kind.RESERVE, 0, 10), (Kind.RESERVE, 10, 10), (Kind.UNRESERVE, 5, 10),
        (Kind.RESERVE, 40, 8), (Kind.UNRESERVE, 0, 100), (Kind.RESERVE, 0, 10),
        (Kind.RESERVE, 0, 20), (Kind.UNRESERVE, 0, 0),
    ]  # fmt: skip
    kind, address, size = zip(*rows, strict=True)
    trace = quarry.make_trace({"kind": kind, "address": address, "size": size})
    for batch in (1, 100):
        segments = Segments()
        found = [
            segments.add(
                quarry.Trace(trace.events[first : first + batch]),
                first,
                trace.time[first : first + batch],
            )
            for first in range(0, len(trace), batch)
        ]
        ended = joined([*found, segments.finish(len(trace), 0)])
        held = sorted(zip(ended.start, ended.end, ended.address, ended.size, strict=True))
        assert held == [
            (0, 2, 0, 10), (1, 2, 10, 10), (2, 4, 0, 5), (2, 4, 15, 5), (3, 4, 40, 8),
            (5, 6, 0, 10), (6, 7, 0, 20),
        ]  # fmt: skip
