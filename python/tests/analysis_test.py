# SPDX-License-Identifier: Apache-2.0
"""The analysis of reports against a loop over the events."""

import numpy as np
import pytest
from conftest import random_trace

import quarry
from quarry import Kind
from quarry.report import analysis


def live_by_loop(trace):
    live, result = {}, []
    for kind, address, size in zip(
        trace.kind.tolist(), trace.address.tolist(), trace.size.tolist(), strict=True
    ):
        if kind == Kind.ALLOCATE:
            live[address] = size
        else:
            live.pop(address, None)
        result.append(sum(live.values()))
    return result


@pytest.mark.parametrize("seed", range(1, 6))
def test_live_bytes_equal_those_of_a_loop(seed):
    trace = random_trace(seed, 500)
    random = np.random.default_rng(seed)
    kept = trace.events[random.random(len(trace)) < 0.9]  # some frees and allocations are missing
    trace = quarry.Trace(kept, trace.call_sites)
    lifetimes = analysis.lifetimes_of(trace)
    found = analysis.live_bytes(lifetimes, lifetimes.size, len(trace))
    assert found.tolist() == live_by_loop(trace), f"seed {seed}"


def test_an_envelope_loses_no_peak():
    trace = random_trace(3)
    lifetimes = analysis.lifetimes_of(trace)
    live = analysis.live_bytes(lifetimes, lifetimes.size, len(trace))
    curve = analysis.envelope(analysis.axis_of(trace), live, 100)
    assert len(curve.position) == 100
    assert curve.maximum.max() == live.max() and curve.minimum.min() == live.min()


def test_an_address_map_leaves_gaps_out_and_keeps_order():
    trace = random_trace(2)
    lifetimes = analysis.lifetimes_of(trace)
    addresses = analysis.address_map(lifetimes, min_gap=1 << 20)
    offset = addresses.offset_of(lifetimes.address)
    order = np.argsort(lifetimes.address, kind="stable")
    assert (np.diff(offset[order]) >= 0).all()
    assert (offset + lifetimes.granted <= addresses.total).all()
    assert addresses.total < int(lifetimes.address.max() - lifetimes.address.min())


@pytest.mark.parametrize("seed", range(1, 4))
def test_the_density_covers_the_area_of_the_allocations(seed):
    trace = random_trace(seed, 300)
    lifetimes = analysis.lifetimes_of(trace)
    axis, addresses = analysis.axis_of(trace), analysis.address_map(lifetimes)
    covered = analysis.density(lifetimes, np.ones(len(lifetimes), bool), axis, addresses, 300, 200)
    positions = np.append(axis.positions, axis.positions[-1])
    area = ((positions[lifetimes.end] - positions[lifetimes.start]) * lifetimes.granted).sum()
    whole = positions[-1] * addresses.total
    assert covered.mean() == pytest.approx(area / whole, rel=1e-3), f"seed {seed}"
    assert covered.min() >= 0 and covered.max() <= 1


def test_the_largest_lifetimes_are_chosen():
    trace = random_trace(4)
    lifetimes = analysis.lifetimes_of(trace)
    chosen = analysis.largest_lifetimes(lifetimes, analysis.axis_of(trace), 100)
    assert len(chosen) == 100 and (np.diff(chosen) > 0).all()
    assert lifetimes.granted[chosen].mean() > lifetimes.granted.mean()


def test_groups_add_up_by_call_site_and_by_size():
    trace = random_trace(5)
    lifetimes = analysis.lifetimes_of(trace)
    groups = analysis.groups_of(trace, lifetimes, 2000)
    assert groups.title == "call site"
    assert sum(groups.total) == lifetimes.size.sum()
    assert sum(groups.at_peak) == lifetimes.size[lifetimes.live_at(2000)].sum()
    trace.events["call_site"] = 0
    groups = analysis.groups_of(trace, analysis.lifetimes_of(trace), 2000, count=100)
    assert groups.title == "size" and sum(groups.total) == lifetimes.size.sum()


def test_recorded_blocks_from_before_the_recording_count():
    trace = quarry.make_trace(
        {"kind": [Kind.UNRESERVE, Kind.RESERVE, Kind.UNRESERVE], "size": [10, 30, 30]}
    )
    assert analysis.recorded_reserved(trace).tolist() == [0, 30, 0]
