# SPDX-License-Identifier: Apache-2.0
import json
import re
import shlex

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
        replayed = quarry.replay(source, allocator="all")
        assert replayed.pool.peak_allocated == 850 and replayed.repeated_addresses == 0
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


@pytest.mark.parametrize("candidates", ["all", "published", "2022", "2024"])
def test_the_options_that_tune_prints_replay_equally(candidates, layered_file):
    tuned = quarry.tune(layered_file, candidates=candidates)
    assert any(outcome.separate for outcome in tuned.front) == (candidates == "all")
    for outcome in tuned.front:
        options = shlex.split(outcome.command_options)
        found = json.loads(run("replay", layered_file, *options, "--json").stdout)
        pool = found["pool"]
        assert pool["peak_reserved"] == outcome.peak_reserved, options
        assert pool["coalesces"] == outcome.coalesces, options
        assert pool["blocks_allocated"] == outcome.upstream_allocations, options
        assert found["upstream_us"] == pytest.approx(outcome.upstream_us), options


def test_tune_prints_the_command_that_replays_the_best_setting(layered_file, tmp_path):
    words = ["--capacity", "450MiB", "--us-per-free", "1.5", "-o", tmp_path / "routes"]
    values = json.loads(run("tune", layered_file, *words, "--json").stdout)
    assert values["best"]["separate"] == "call_site"
    name, *command = shlex.split(values["command"])
    assert name == "quarry" and ["--capacity", "450MiB"] == command[-4:-2]
    found = json.loads(run(*command, "--json").stdout)
    assert found["pool"]["peak_reserved"] == values["best"]["peak_reserved"]
    assert found["upstream_us"] == pytest.approx(values["best"]["upstream_us"])
    shown = run("tune", layered_file, *words).stdout
    assert f"\n{values['command']}\n" in shown and "quarry::routed_pool" in shown
    at = command.index("--separate")
    command[at : at + 2] = ["--routes", tmp_path / "routes"]
    again = json.loads(run(*command, "--json").stdout)
    assert again["pool"] == found["pool"] and again["settings"]["pools"] == 2


def test_tune_writes_no_routes_if_the_best_setting_has_one_pool(trace_file, tmp_path):
    result = run("tune", trace_file, "--candidates", "published", "-o", tmp_path / "routes")
    assert result.exit_code == 0 and "the best setting has one pool" in result.stderr
    assert not (tmp_path / "routes").exists()


def test_a_replay_takes_the_growth_and_the_shrinking_of_a_pool(layered_file):
    for option, name, value in (
        ("--growth", "growth_percent", 0),
        ("--growth", "growth_percent", 50),
        ("--shrink-after", "shrink_after", 20),
    ):
        found = json.loads(run("replay", layered_file, option, value, "--json").stdout)
        expected = quarry.replay(layered_file, **{name: value}).pool
        assert found["pool"] == expected.to_dict() and found["settings"][name] == value
        assert expected.to_dict() != quarry.replay(layered_file).pool.to_dict()


def test_routes_that_cannot_serve_a_replay_are_refused(layered_file, tmp_path):
    (tmp_path / "routes").write_text("quarry-routes 1\n1 0 100 \n")
    routes = ["--routes", tmp_path / "routes"]
    for words, message in (
        ([*routes, "--separate", "size"], "leave one of them out"),
        ([*routes, "--strategy", "stitched"], "the strategy stitched takes no routing table"),
        ([*routes, "--resource", "host"], "a routing table needs simulated memory"),
        (["--separate", "colour"], "'colour' is no key of separate. The keys are: size, call_site"),
        (["--routes", tmp_path / "missing"], "missing"),
    ):
        result = run("replay", layered_file, *words)
        assert result.exit_code == 2 and message in result.stderr, words


def test_separation_takes_the_key_that_saves_most(layered_file):
    result = quarry.separate(layered_file)
    saved = {
        each.key: result.together.pool.peak_reserved - each.apart.pool.peak_reserved
        for each in result.tried
    }
    assert saved["size"] < 0 and saved["call_site"] > 0 and saved["phase"] == 0
    assert result.key == "call_site" and result.saved_bytes == max(saved.values())
    only = quarry.separate(layered_file, key="size")
    assert only.saved_bytes == saved["size"] and not only.is_better
    none = quarry.separate(quarry.make_trace({"address": [64], "size": [1]}))
    assert none.key == "" and len(none.table) == 0 and none.saved_bytes == 0


@pytest.mark.parametrize("key", ["best", "phase_and_size"])
def test_separation_of_a_file_and_of_its_columns_are_equal(key, layered_file):
    file = quarry.separate(layered_file, key=key, learn=0.3)
    columns = quarry.separate(quarry.read_trace(layered_file), key=key, learn=0.3)
    assert file.table == columns.table and file.apart.pool.to_dict() == columns.apart.pool.to_dict()
    assert file.to_dict()["tried"] == columns.to_dict()["tried"]


def test_routes_are_learnt_from_a_whole_trace(layered_file):
    whole = quarry.learn_routes(layered_file, key="call_site")
    assert whole == quarry.learn_routes(quarry.read_trace(layered_file), key="call_site")
    assert whole.pool_for(1, quarry.read_trace(layered_file).call_sites[1]) == 1
    with pytest.raises(quarry.BadArgument, match="'best' is no key"):
        quarry.learn_routes(layered_file, key="best")


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


def test_separate_prints_what_it_saves_and_writes_the_table(layered_file, tmp_path):
    result = run("separate", layered_file, "-o", tmp_path / "routes")
    assert result.exit_code == 0 and re.search(r"saved +1\.06 MiB", result.stdout)
    assert re.search(r"key size +saves -177 MiB", result.stdout)
    assert re.search(r"best key +call_site\n", result.stdout)
    assert (tmp_path / "routes").read_text().startswith("quarry-routes 1")
    assert json.loads(run("separate", layered_file, "--json").stdout)["key"] == "call_site"
    assert run("separate", layered_file, "--key", "colour").exit_code == 2
    assert run("separate", layered_file, "--learn", "1.5").exit_code == 2


@pytest.mark.parametrize("key", ["size", "phase"])
def test_separate_writes_no_table_that_saves_nothing(key, layered_file, tmp_path):
    words = ["separate", layered_file, "--key", key]
    result = run(*words, "-o", tmp_path / "routes")
    assert result.exit_code == 1 and "its routes would save nothing" in result.stderr
    assert list(tmp_path.iterdir()) == []
    values = json.loads(run(*words, "-o", tmp_path / "routes", "--json").stdout)
    assert values["output"] is None and values["saved_bytes"] <= 0
    assert run(*words).exit_code == 0


def test_columns_that_numpy_packed_are_unpacked(trace):
    packed = np.concatenate([trace.events[:100], trace.events[100:]])
    assert (
        quarry.replay(quarry.Trace(packed, trace.call_sites)).pool.to_dict()
        == quarry.replay(trace).pool.to_dict()
    )
