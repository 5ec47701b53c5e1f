# SPDX-License-Identifier: Apache-2.0
"""What a report computes in batches, against a loop over the events."""

import subprocess
import sys

import numpy as np
import pytest
from conftest import layered_trace, random_trace

import quarry
from quarry import Kind
from quarry.report import analysis, content, survey
from quarry.report.lifetimes import Matcher, joined, lifetimes_of


def with_gaps(seed, events=500):
    """A trace without some of its frees and allocations."""
    trace = random_trace(seed, events)
    kept = trace.events[np.random.default_rng(seed).random(len(trace)) < 0.9]
    return quarry.Trace(kept, trace.call_sites)


def live_by_loop(trace):
    """The requested bytes in use after each event."""
    live, result = {}, []
    for kind, address, size in zip(
        trace.kind.tolist(), trace.address.tolist(), trace.size.tolist(), strict=True
    ):
        if kind == Kind.ALLOCATE:
            live[address] = size
        elif kind == Kind.DEALLOCATE:
            live.pop(address, None)
        result.append(sum(live.values()))
    return result


def lifetimes_by_loop(trace):
    """Start, end and size of each allocation in the order of the starts; and the unknown frees."""
    live, result, unknown = {}, [], 0
    for event, (kind, address) in enumerate(
        zip(trace.kind.tolist(), trace.address.tolist(), strict=True)
    ):
        if address in live:
            start = live.pop(address)
            result.append((start, event, int(trace.size[start])))
        elif kind == Kind.DEALLOCATE:
            unknown += 1
        if kind == Kind.ALLOCATE:
            live[address] = event
    result += [(start, len(trace), int(trace.size[start])) for start in live.values()]
    return sorted(result), unknown


@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("batch", [1, 7, 10_000])
def test_lifetimes_and_live_bytes_equal_those_of_a_loop(seed, batch):
    trace = with_gaps(seed)
    matcher, parts, changes = Matcher(), [], []
    for first in range(0, len(trace), batch):
        some = quarry.Trace(trace.events[first : first + batch], trace.call_sites)
        matched = matcher.add(some)
        assert matched.first == first
        parts.append(matched.ended)
        changes.append(matched.requested)
    found = joined([*parts, matcher.finish()])
    expected, unknown = lifetimes_by_loop(trace)
    rows = zip(found.start.tolist(), found.end.tolist(), found.size.tolist(), strict=True)
    assert sorted(rows) == expected and matcher.unknown_frees == unknown, f"seed {seed}"
    assert np.cumsum(np.concatenate(changes)).tolist() == live_by_loop(trace), f"seed {seed}"
    ends = found.end < len(trace)
    assert (found.start_time == trace.time[found.start]).all()
    assert (found.end_time[ends] == trace.time[found.end[ends]]).all()


def test_times_never_decrease():
    columns = {"kind": [0, 0, 1], "address": [64, 128, 64], "size": [1] * 3, "time": [5, 3, 4]}
    found = lifetimes_of(quarry.make_trace(columns))
    assert found.start_time.tolist() == [5, 5] and found.end_time.tolist() == [5, 5]


def contents_of(trace, monkeypatch, batch, **options):
    monkeypatch.setattr(survey, "BATCH", batch)
    monkeypatch.setattr(content, "MAX_BLOCKS", 40)
    return content.make_content(trace, [quarry.replay(trace)], **options)


@pytest.mark.parametrize("seed", range(1, 4))
def test_a_report_does_not_depend_on_the_batches(seed, monkeypatch, tmp_path):
    trace = with_gaps(seed, 800)
    whole = contents_of(trace, monkeypatch, 1 << 18)
    trace.write(tmp_path / "trace")
    for source, batch in ((trace, 61), (tmp_path / "trace", 250)):
        found = contents_of(source, monkeypatch, batch)
        rows = [row for row in whole.summary if row[0] != "format"]
        assert [row for row in found.summary if row[0] != "format"] == rows
        assert found.groups.at_peak == whole.groups.at_peak
        assert found.groups.total == whole.groups.total
        assert found.drawn.start.tolist() == whole.drawn.start.tolist()
        assert found.requested.maximum.tolist() == whole.requested.maximum.tolist()
        assert found.requested.time.tolist() == whole.requested.time.tolist()
        assert found.replays[0].times.tolist() == whole.replays[0].times.tolist()
        for unit in ("s", ""):
            assert np.allclose(found.others[unit], whole.others[unit], atol=1e-5)


@pytest.mark.parametrize("seed", range(1, 4))
def test_the_summary_equals_that_of_a_loop(seed, monkeypatch):
    trace = with_gaps(seed, 1000)
    found = dict(contents_of(trace, monkeypatch, 200).summary)
    lifetimes, unknown = lifetimes_by_loop(trace)
    live = live_by_loop(trace)
    assert found["allocations"] == f"{len(lifetimes):,}"
    assert found["never freed"] == f"{sum(end == len(trace) for _, end, _ in lifetimes):,}"
    assert found["frees of unknown addresses"] == f"{unknown:,}"
    assert found["peak of the requested bytes"].endswith(f"({max(live):,} B)")
    counts = np.zeros(len(trace) + 1, int)
    for start, end, _ in lifetimes:
        counts[start:end] += 1
    assert found["most allocations in use"] == f"{counts.max():,}"


@pytest.mark.parametrize("has_call_sites", [True, False])
def test_a_failure_has_what_was_in_use(has_call_sites, monkeypatch):
    trace = random_trace(6, 1000)
    failed = np.array([137, 138, 700])
    trace.events["kind"][failed] = Kind.FAIL
    if not has_call_sites:
        trace.events["call_site"] = 0
    found = contents_of(trace, monkeypatch, 100).failures
    assert [each.event for each in found] == failed.tolist()
    lifetimes, live = lifetimes_of(trace), live_by_loop(trace)
    for each in found:
        chosen = lifetimes[lifetimes.live_at(each.event)]
        assert each.in_use == live[each.event] and each.allocations == len(chosen)
        assert each.size == trace.size[each.event] and each.free == trace.granted[each.event]
        if has_call_sites:
            name, most = each.largest[0]
            sums = {site: int(chosen.size[chosen.call_site == site].sum()) for site in range(1, 8)}
            assert most == max(sums.values()) == sums[trace.call_sites.index(name)]
        else:
            expected = sorted(chosen.size.tolist(), reverse=True)[:5]
            assert each.largest == [("", size) for size in expected]


def test_an_envelope_loses_no_peak():
    live = np.array(live_by_loop(random_trace(3)))
    curve = analysis.Curve(len(live), 100)
    for first in range(0, len(live), 333):
        some = live[first : first + 333]
        curve.add(first, np.arange(first, first + len(some), dtype=np.uint64), some)
    found = curve.envelope
    assert len(found.first) == 100 and found.time.tolist() == found.first.tolist()
    edges = np.append(found.first, len(live))
    for number, (begin, end) in enumerate(zip(edges[:-1], edges[1:], strict=True)):
        assert found.minimum[number] == live[begin:end].min()
        assert found.maximum[number] == live[begin:end].max()


def test_an_address_map_leaves_gaps_out_and_keeps_order():
    lifetimes = lifetimes_of(random_trace(2))
    maps = []
    for size in (10, len(lifetimes)):
        ranges = analysis.AddressRanges(min_gap=1 << 20)
        for first in range(0, len(lifetimes), size):
            ranges.add(lifetimes[first : first + size])
        maps.append(ranges.map())
    addresses = maps[0]
    assert addresses.start.tolist() == maps[1].start.tolist() and addresses.total == maps[1].total
    offset = addresses.offset_of(lifetimes.address)
    order = np.argsort(lifetimes.address, kind="stable")
    assert (np.diff(offset[order]) >= 0).all()
    assert (offset + lifetimes.granted <= addresses.total).all()
    assert addresses.total < int(lifetimes.address.max() - lifetimes.address.min())


def time_axis_of(trace):
    return analysis.time_axis(int(trace.time[0]), int(trace.time[-1]))


@pytest.mark.parametrize("seed", range(1, 4))
def test_the_density_covers_the_area_of_the_allocations(seed):
    trace = random_trace(seed, 300)
    lifetimes, axis = lifetimes_of(trace), time_axis_of(trace)
    ranges = analysis.AddressRanges()
    ranges.add(lifetimes)
    density = analysis.Density(axis, ranges.map(), 300, 200)
    density.add(lifetimes)
    covered = density.picture()
    seconds = (lifetimes.end_time - lifetimes.start_time) / 1e9
    whole = axis.last * ranges.map().total
    area = (seconds * lifetimes.granted).sum()
    assert covered.mean() == pytest.approx(area / whole, rel=1e-3), f"seed {seed}"
    assert covered.min() >= 0 and covered.max() <= 1
    density.add(lifetimes, weight=-1.0)
    assert density.picture().max() < 1e-6


def test_the_largest_lifetimes_are_chosen():
    trace = random_trace(4)
    lifetimes = lifetimes_of(trace)
    axis = analysis.event_axis(len(trace))
    largest = analysis.Largest(axis, 100)
    for first in range(0, len(lifetimes), 60):
        largest.add(lifetimes[first : first + 60])
    chosen = largest.lifetimes()
    area = (lifetimes.end - lifetimes.start) * lifetimes.granted
    assert len(chosen) == 100 and (np.diff(chosen.start) > 0).all()
    expected = np.sort(area)[-100:]
    assert np.sort((chosen.end - chosen.start) * chosen.granted).tolist() == expected.tolist()


def test_groups_add_up_by_call_site_and_by_size():
    trace = random_trace(5)
    lifetimes = lifetimes_of(trace)
    for by_call_site, title in ((True, "call site"), (False, "size")):
        totals = analysis.GroupTotals(by_call_site, peak_event=2000)
        for first in range(0, len(lifetimes), 100):
            totals.add(lifetimes[first : first + 100])
        groups = totals.groups(trace.call_sites, count=100)
        assert groups.title == title and sum(groups.total) == lifetimes.size.sum()
        assert sum(groups.at_peak) == lifetimes.size[lifetimes.live_at(2000)].sum()
        colors = groups.color_of(lifetimes)
        assert np.bincount(colors).tolist() == groups.allocations


def test_recorded_blocks_from_before_the_recording_count():
    columns = {"kind": [Kind.UNRESERVE, Kind.RESERVE, Kind.UNRESERVE], "size": [10, 30, 30]}
    found = content.make_content(quarry.make_trace(columns))
    assert found.recorded.maximum.tolist() == [0, 30, 0]
    assert dict(found.summary)["recorded peak of the reserved bytes"] == "30 B (30 B)"


@pytest.mark.parametrize("column", ["size", "granted"])
@pytest.mark.parametrize("kind", [Kind.ALLOCATE, Kind.RESERVE, Kind.UNRESERVE])
def test_sizes_that_no_memory_has_are_refused(kind, column):
    def trace(size):
        columns = {"kind": [kind] * 2, "address": [4096, 1 << 62], "size": [1, 1]}
        columns[column] = [1, size]
        return quarry.make_trace(columns)

    content.make_content(trace(1 << 46))
    for size in ((1 << 46) + 1, 1 << 63, (1 << 64) - 1):
        with pytest.raises(quarry.BadArgument, match=f"event 1 has {size:,} bytes.* 64 TiB"):
            content.make_content(trace(size))


REPORT = (
    "from quarry.report import content, survey;"
    "survey.BATCH, content.MAX_BLOCKS = 1 << 14, 1000; content.make_content(sys.argv[1]);"
)


@pytest.mark.parametrize("work", [REPORT, "import quarry; quarry.separate(sys.argv[1]);"])
def test_the_memory_does_not_grow_with_the_trace(work, tmp_path):
    """Of processes of their own, because the peak of a process never falls. `ru_maxrss` would count
    the process that starts them."""
    trace = layered_trace(10)
    peak = r"print(re.search(r'VmHWM:\s+(\d+) kB', open('/proc/self/status').read())[1])"
    code = f"import re, sys; {work} {peak}"
    peaks, lengths = [], []
    for repetitions in (500, 2000):
        events = np.tile(trace.events[trace.call_site != 2], repetitions)
        events["time"] = np.arange(len(events))
        path = tmp_path / f"{repetitions}.quarry"
        quarry.Trace(events, trace.call_sites).write(path)
        done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, check=True)
        peaks.append(int(done.stdout) << 10)
        lengths.append(len(events))
    added = (lengths[1] - lengths[0]) * 56  # the bytes of the events alone
    assert peaks[1] - peaks[0] < added / 2, (peaks, lengths)
