# SPDX-License-Identifier: Apache-2.0
import json

import numpy as np
import pytest
from typer.testing import CliRunner

import quarry
from quarry import Kind
from quarry.cli import app


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def tuned(trace):
    return quarry.tune(trace)


def test_the_best_setting_has_the_least_cost_and_replays_equally(trace, tuned):
    assert tuned.best.cost_us == min(outcome.cost_us for outcome in tuned.outcomes)
    replayed = quarry.replay(trace, **tuned.best.replay_options)
    assert replayed.pool.peak_reserved == tuned.best.peak_reserved
    assert "memory{" in tuned.best.code


def test_no_setting_beats_one_on_the_front(tuned):
    def figures(outcome):
        return (outcome.peak_reserved, outcome.coalesces, outcome.upstream_us)

    assert tuned.front
    for chosen in tuned.front:
        for other in map(figures, tuned.outcomes):
            own = figures(chosen)
            assert other == own or not all(a <= b for a, b in zip(other, own, strict=True))


def test_goals_find_the_same_best_setting(trace, tuned):
    everything = quarry.tune(trace, goal="all")
    assert not everything.dropped and all(o.events == len(trace) for o in everything.outcomes)
    assert tuned.front == everything.front
    assert quarry.tune(trace, goal="best").best.cost_us == everything.best.cost_us
    for own, whole in zip(tuned.outcomes, everything.outcomes, strict=True):
        assert own.fits or own.is_dropped
        assert own.peak_reserved <= whole.peak_reserved
    assert tuned.to_dict()["outcomes"][0]["is_dropped"] in (True, False)
    with pytest.raises(quarry.BadArgument, match="'speed' is no goal"):
        quarry.tune(trace, goal="speed")


def test_the_devices_of_a_trace_have_pools_of_their_own(tmp_path):
    columns = {"address": [64, 64, 128], "size": [100, 700, 50], "allocator": [1, 2, 1]}
    two_devices = quarry.make_trace(columns, allocators=["", "device 0", "device 1"])
    two_devices.write(tmp_path / "two_devices.quarry")
    for source in (two_devices, str(tmp_path / "two_devices.quarry")):
        peaks = {"device 0": 150, "device 1": 700}
        for name, peak in peaks.items():
            assert quarry.replay(source, allocator=name).pool.peak_allocated == peak
            assert quarry.tune(source, allocator=name, goal="best").peak_allocated == peak
            assert quarry.make_plan(source, allocator=name).lower_bound >= peak
        assert quarry.replay(source, allocator="all").repeated_addresses == 1
        for call in (quarry.replay, quarry.tune, quarry.make_plan):
            with pytest.raises(quarry.BadArgument, match="several devices.*device 0, device 1"):
                call(source)
        with pytest.raises(quarry.BadArgument, match="no allocator 'device 2'"):
            quarry.replay(source, allocator="device 2")
    assert run("replay", tmp_path / "two_devices.quarry").exit_code == 2
    found = run("replay", tmp_path / "two_devices.quarry", "--allocator", "device 1", "--json")
    assert json.loads(found.stdout)["pool"]["peak_allocated"] == 700


def test_published_heuristics_are_candidates(trace):
    assert 0 < len(quarry.tune(trace, candidates="2022").outcomes) < 100
    with pytest.raises(quarry.BadArgument, match="no candidates 'lucky'"):
        quarry.tune(trace, candidates="lucky")


def test_an_exception_of_progress_ends_tuning(trace):
    def stop(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        quarry.tune(trace, candidates="published", threads=3, progress=stop)


def test_tune_prints_the_best_setting_and_its_code(trace_file):
    result = run("tune", trace_file, "--candidates", "published")
    assert result.exit_code == 0 and "best" in result.stdout and "quarry::" in result.stdout
    result = run("tune", trace_file, "--candidates", "published", "--capacity", "1MiB", "--json")
    assert result.exit_code == 1 and json.loads(result.stdout)["best"] is None
    assert run("tune", trace_file, "--candidates", "lucky").exit_code == 2


def test_separation_learns_which_phases_are_temporary():
    # In each step "solve" allocates and frees, and "refine" keeps what it allocates.
    kind = np.tile([Kind.PHASE, Kind.ALLOCATE, Kind.DEALLOCATE, Kind.PHASE, Kind.ALLOCATE], 100)
    slot = np.repeat(np.arange(100), 5) * 2 + np.tile([0, 0, 0, 0, 1], 100)
    is_phase = kind == Kind.PHASE
    trace = quarry.make_trace(
        {
            "kind": kind,
            "address": np.where(is_phase, 0, (1 + slot) << 20),
            "size": np.where(is_phase, 0, 4096),
            "call_site": np.where(is_phase, np.tile([1, 0, 0, 2, 0], 100), 0),
        },
        call_sites=["", "solve", "refine"],
    )
    result = quarry.separate(trace, key="phase", temporary_events=10)
    assert result.table.routes == [quarry.Route(1, phase="solve")]
    assert result.apart.pool.blocks_allocated == 2
    pool = quarry.RoutedPool(result.table)
    pool.begin_phase("solve")
    pool.deallocate(pool.allocate(100))
    assert pool.counts_of(1).allocations == 1


@pytest.mark.parametrize("key", ["size", "call_site", "call_site_and_size"])
def test_separation_learns_which_sizes_are_temporary(key):
    # Two sizes alternate: one lives for an event, the other to the end.
    count = 400
    kind = np.tile([0, 0, 1], count)
    slot = np.repeat(np.arange(count), 3) * 2 + np.tile([0, 1, 1], count)
    trace = quarry.make_trace(
        {
            "kind": kind,
            "address": (1 + slot) << 20,
            "size": np.tile([1 << 16, 1 << 12, 1 << 12], count),
            "call_site": np.tile([1, 2, 2], count),
        },
        call_sites=["", "weights", "scratch"],
    )
    result = quarry.separate(trace, key=key, temporary_events=10)
    assert result.table.pools == 2
    assert result.table.pool_for(1 << 12, "scratch") == 1
    assert result.table.pool_for(1 << 16, "weights") == 0
    assert result.apart.fits and result.apart.pool.allocations == result.together.pool.allocations
    assert result.together.pool.peak_allocated == count * (1 << 16) + (1 << 12)
    assert result.together.unknown_frees == 0


def test_a_routing_table_is_saved_and_loaded(trace, tmp_path):
    table = quarry.separate(trace).table
    table.save(str(tmp_path / "routes"))
    loaded = quarry.RoutingTable.load(str(tmp_path / "routes"))
    assert [r.to_dict() for r in loaded.routes] == [r.to_dict() for r in table.routes]
    (tmp_path / "routes").write_text("nonsense\n")
    with pytest.raises(quarry.BadArgument, match="routes"):
        quarry.RoutingTable.load(str(tmp_path / "routes"))


def test_separate_prints_what_it_saves_and_writes_the_table(trace_file, tmp_path):
    result = run("separate", trace_file, "-o", tmp_path / "routes")
    assert result.exit_code == 0 and "saved" in result.stdout
    assert (tmp_path / "routes").read_text().startswith("quarry-routes 1")
    assert json.loads(run("separate", trace_file, "--json").stdout)["pools"] >= 1
    assert run("separate", trace_file, "--key", "colour").exit_code == 2
    assert run("separate", trace_file, "--learn", "1.5").exit_code == 2


def test_columns_that_numpy_packed_are_unpacked(trace):
    packed = np.concatenate([trace.events[:100], trace.events[100:]])
    assert (
        quarry.replay(quarry.Trace(packed, trace.call_sites)).pool.to_dict()
        == quarry.replay(trace).pool.to_dict()
    )
