# SPDX-License-Identifier: Apache-2.0
"""What a report says of a part of a trace, and of devices, against what was computed by hand."""

import gzip
import pickle

import numpy as np
import pytest
from browser import CHROMIUM, Page
from conftest import random_trace

import quarry
from quarry import Kind
from quarry.report import content, event_range, survey, write_report
from quarry.report.lifetimes import lifetimes_of
from quarry.report.window import window_of

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
MIB = 1 << 20


def made(rows, **names):
    kind, address, size = (np.array(column) for column in zip(*rows, strict=True))
    time = 1000 * np.arange(len(rows))
    columns = {"kind": kind, "address": address * MIB, "size": size * MIB, "time": time}
    return quarry.make_trace(columns, **names)


#: Of 300 MiB, 200 are freed before event 4. The program's later peak is 130 MiB.
ROWS = [
    (Kind.ALLOCATE, 1000, 100),
    (Kind.ALLOCATE, 2000, 200),
    (Kind.DEALLOCATE, 2000, 200),
    (Kind.DEALLOCATE, 7, 1),  # of an address that is not in use
    (Kind.ALLOCATE, 3000, 30),
    (Kind.DEALLOCATE, 8, 1),
    (Kind.DEALLOCATE, 1000, 100),
    (Kind.ALLOCATE, 4000, 40),
    (Kind.DEALLOCATE, 3000, 30),
    (Kind.DEALLOCATE, 4000, 40),
]


def replayed(trace, begin, end, **options):
    sampled = event_range(trace, begin=begin, end=end)
    return quarry.replay(trace, strategy="direct", sampled=sampled, **options)


@pytest.mark.parametrize(("begin", "end"), [(4, 8), ("4us", "8us"), ("4us", 8), (4, "8.5us")])
def test_a_replay_beside_a_range_has_the_peak_of_the_range(begin, end):
    trace = made(ROWS)
    replay = replayed(trace, begin, end)
    assert replay.samples["event"].tolist() == [5, 6, 7, 8, 9]
    assert replay.pool.peak_reserved == 300 * MIB
    made_of = content.make_content(trace, [replay], window=window_of(begin, end))
    summary = dict(made_of.summary)
    assert summary["Quarry, direct: peak of the reserved bytes"].startswith("130 MiB ")
    whole = "Quarry, direct (whole trace): peak of the reserved bytes"
    assert summary[whole].startswith("300 MiB ")
    assert made_of.replays[0].events.tolist() == [4, 5, 6, 7, 8]
    # The maxima since the sample before: a free shows one event late, and no peak is lost.
    assert (made_of.replays[0].reserved / MIB).tolist() == [130, 130, 130, 70, 70]


def test_the_summary_of_a_range_counts_its_events_only():
    summary = dict(content.make_content(made(ROWS), window=window_of(4, 7)).summary)
    assert summary["frees of unknown addresses"] == "1"
    assert summary["allocations"] == "3"
    assert summary["not freed in the range"] == "2"
    assert summary["peak of the requested bytes"].startswith("130 MiB ")
    assert summary["most allocations in use"] == "2"
    whole = dict(content.make_content(made(ROWS)).summary)
    assert whole["frees of unknown addresses"] == "2" and whole["never freed"] == "0"


def test_a_range_without_events_is_no_range_of_samples():
    trace = made(ROWS)
    assert event_range(trace, begin="1s") == (10, None)
    assert event_range(trace) == (0, None)
    assert event_range(trace, begin=20, end=30) == (20, 31)
    assert event_range(trace, begin="20ns", end="2us") == (1, 3)


@pytest.mark.parametrize("seed", range(3))
def test_the_range_of_a_replay_is_that_of_the_report(seed, monkeypatch):
    monkeypatch.setattr(survey, "BATCH", 64)
    trace = random_trace(seed, 1000)
    late = np.random.default_rng(seed).integers(20_000, size=999, dtype=np.uint64)
    trace.events["time"][1:] += late  # a clock that goes back
    for begin, end in ((100, 900), ("0.3ms", "700us"), (None, "0.9ms"), ("0.98ms", None)):
        shown = content.make_content(trace, window=window_of(begin, end))
        first, behind = event_range(trace, begin=begin, end=end)
        assert (first, behind or len(trace)) == (shown.first, shown.events)


def test_times_that_go_back_are_counted():
    trace = made(ROWS)
    trace.events["time"] = [5, 9, 7, 8, 9, 10, 11, 3, 12, 13]
    row = "events with earlier times than events before them"
    assert dict(content.make_content(trace).summary)[row] == "3"
    assert row not in dict(content.make_content(made(ROWS)).summary)


def test_a_sample_of_a_replay_stands_where_its_events_begin():
    trace = random_trace(2, 4000)
    replay = quarry.replay(trace, strategy="direct", max_samples=64)
    curve = content.make_content(trace, [replay]).replays[0]
    exact = quarry.replay(trace, strategy="direct", max_samples=1 << 14).samples["reserved"]
    for first, behind, reserved in zip(curve.events, curve.ends, curve.reserved, strict=True):
        assert reserved == exact[first:behind].max()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (9.1304, "9.130 s"),
        (1234.5, "1,234.500 s"),
        (0.9999999, "1.000 s"),
        (0.0048, "4.800 ms"),
        (9.999999e-4, "1.000 ms"),
        (8e-5, "80.000 µs"),
        (4e-9, "4 ns"),
    ],
)
def test_a_short_duration_is_not_zero(seconds, text):
    assert content.duration_text(seconds) == text


def test_null_pointers_are_no_allocations():
    trace = made([(Kind.ALLOCATE, 0, 0), (Kind.ALLOCATE, 0, 0), (Kind.DEALLOCATE, 0, 0)])
    summary = dict(content.make_content(trace).summary)
    assert summary["allocations"] == "0" and summary["frees of unknown addresses"] == "0"
    assert quarry.replay(trace).unknown_frees == 0


def test_devices_may_use_equal_addresses():
    rows = [
        (Kind.ALLOCATE, 16, 10),
        (Kind.ALLOCATE, 16, 20),
        (Kind.DEALLOCATE, 16, 10),
        (Kind.DEALLOCATE, 16, 20),
    ]
    trace = made(rows, allocators=["", "device 0", "device 1", "device 1, pool (0, 4)"])
    trace.events["allocator"] = [1, 3, 1, 3]
    found = lifetimes_of(trace)
    assert found.start.tolist() == [0, 1] and found.end.tolist() == [2, 3]
    assert content.make_content(trace).peak_requested == 30 * MIB
    trace.events["allocator"] = [1, 3, 1, 2]  # pools of one device share its addresses
    assert lifetimes_of(trace).end.tolist() == [2, 3]
    trace.events["allocator"] = [2, 3, 2, 3]
    assert lifetimes_of(trace).end.tolist() == [1, 2]


def test_all_devices_in_one_pool_have_the_peak_of_the_report(tmp_path):
    rows = [
        (Kind.ALLOCATE, 16, 10),
        (Kind.ALLOCATE, 16, 20),
        (Kind.DEALLOCATE, 16, 10),
        (Kind.DEALLOCATE, 16, 20),
        (Kind.ALLOCATE, 16, 5),
    ]
    trace = made(rows, allocators=["", "device 0", "device 1"])
    trace.events["allocator"] = [1, 2, 1, 2, 1]
    path = tmp_path / "devices.quarry"
    trace.write(path)
    quarry.convert(path, tmp_path / "devices.csv", target="rmm")
    for source in (trace, path, tmp_path / "devices.csv"):
        replayed = quarry.replay(source, allocator="all")
        assert replayed.pool.peak_allocated == 30 * MIB
        assert replayed.max_live == 2
        assert replayed.unknown_frees == replayed.repeated_addresses == 0
        assert quarry.make_plan(source, allocator="all").lower_bound == 30 * MIB
        assert quarry.tune(source, allocator="all", threads=1).peak_allocated == 30 * MIB
        separated = quarry.separate(source, allocator="all", learn=0.4)  # in use: both
        assert separated.together.pool.peak_allocated == 30 * MIB
    found = content.make_content(path)
    assert found.peak_requested == 30 * MIB
    assert set(found.drawn.address.tolist()) == {16 * MIB}, "the page has the trace's addresses"


def history_of_device(times, size):
    """An allocation at the first time and its free at the second."""
    entry = {"addr": 1 << 32, "size": size * MIB, "stream": 0, "frames": []}
    return [
        {**entry, "action": action, "time_us": time}
        for action, time in zip(("alloc", "free_completed"), times, strict=True)
    ]


def test_devices_of_a_snapshot_work_at_the_same_time(tmp_path):
    path = tmp_path / "devices.pickle"
    histories = [history_of_device((1, 4), 10), history_of_device((2, 6), 30)]
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": histories}))
    found = content.make_content(path)
    assert found.peak_requested == 40 * MIB and found.peak_event == 1
    time = found.axes[0] if found.axes[0].unit else found.axes[1]
    assert time.ends(found.drawn).tolist() == [3e-6, 5e-6]
    assert "events with earlier times than events before them" not in dict(found.summary)
    one = quarry.replay(path, strategy="direct", allocator="device 1")
    assert one.pool.peak_allocated == 30 * MIB


def memory_of(path):
    """The requested and the reserved bytes after each event."""
    trace = quarry.read_trace(path)
    size = trace.size.astype(np.int64)
    signs = {Kind.ALLOCATE: 1, Kind.DEALLOCATE: -1}, {Kind.RESERVE: 1, Kind.UNRESERVE: -1}
    return [
        np.cumsum(sum(sign * np.where(trace.kind == kind, size, 0) for kind, sign in each.items()))
        for each in signs
    ]


@pytest.mark.parametrize("kept", [1, 500, 7001])
def test_a_ring_that_lost_its_begin_ends_with_the_same_memory(recording, tmp_path, kept):
    whole = memory_of(recording)
    snapshot = pickle.loads(gzip.decompress(recording.read_bytes()))
    history = snapshot["device_traces"][0]
    history[:] = history[-kept:]
    events = sum(entry["action"] != "free_requested" for entry in history)
    path = tmp_path / "ring.pickle"
    path.write_bytes(pickle.dumps(snapshot))
    for before, after in zip(whole, memory_of(path), strict=True):
        assert before[-events:].tolist() == after[-events:].tolist()
        assert after.min() >= 0


@needs_chromium
def test_the_page_of_a_range_says_nothing_of_what_lies_outside(tmp_path):
    trace = made(ROWS)
    path = tmp_path / "range.html"
    write_report(trace, path, replays=[replayed(trace, 4, 7)], begin=4, end=7)
    with Page(path.as_uri()) as page:
        page.wait("document.body?.dataset.ready === 'yes'")
        facts = (
            "[...document.querySelectorAll('#row-panel dt')].map("
            "(e) => [e.textContent, e.nextSibling.textContent])"
        )
        page.run("chooseMoment(5)")
        page.wait("document.body.dataset.moment === '5'")
        old = dict(page.run(facts))
        assert old["size"].startswith("100 MiB") and old["freed"] == "at event 6"
        assert old["allocated"].startswith("at event 0") and old["age"].endswith("5 events")
        page.run("table.select(1)")
        assert dict(page.run(facts))["freed"] == "not in the range"  # at event 8
        tips = page.run("[...blockPicture.left.keys()].map((i) => blockPicture.endText(i))")
        assert tips[0] == f"until {page.run('positionText(blockPicture.right[0])')}"
        assert tips[1:] == ["not freed in the range"] * 2
        assert page.run("[...blockPicture.is_older]") == [1, 0, 0]
        cards = page.run("[...document.querySelectorAll('.card')].map((e) => e.innerText)")
        assert cards[1].startswith("Reserved by Quarry, direct\n130 MiB\n100.0 %")
        assert len(cards) == 2
        titles = page.run("byId('groups').layout.xaxis2.title.text")
        assert titles.startswith("in use in the range, in total")
        assert page.problems == []
