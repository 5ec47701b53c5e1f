# SPDX-License-Identifier: Apache-2.0
import json

import numpy as np
import pytest
from typer.testing import CliRunner

import quarry
from quarry.cli import app


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


MAX_STEPS = 1000  # bounds the search for a plan of `trace`


@pytest.fixture(scope="module")
def bounded_plan(trace):
    return quarry.make_plan(trace, max_steps=MAX_STEPS)


def repeating_trace(repetitions=50):
    """Each repetition allocates four sizes, and frees them in another order."""
    slots = np.array([0, 1, 2, 3, 1, 0, 3, 2])
    sizes = np.array([4096, 70_000, 300, 9000])
    return quarry.make_trace(
        {
            "kind": np.tile([0, 0, 0, 0, 1, 1, 1, 1], repetitions),
            "address": np.tile((1 + slots) << 20, repetitions),
            "size": np.tile(sizes[slots], repetitions),
        }
    )


def test_a_plan_lies_between_the_lower_bound_and_the_default_pool(trace, plan):
    assert plan.lower_bound <= plan.bytes < quarry.replay(trace).pool.peak_reserved
    assert plan.allocations == len(plan) == (trace.kind == quarry.Kind.ALLOCATE).sum()
    assert plan.period == 0 and plan.method
    assert plan.to_dict()["bytes"] == plan.bytes
    assert f"bytes={plan.bytes}" in repr(plan)


def test_a_trace_that_matches_its_plan_reserves_the_plan_only(trace, plan):
    result = quarry.replay(trace, strategy="planned", plan=plan)
    assert result.fits and result.pool.peak_reserved == plan.bytes
    use = result.plan
    assert use.planned == use.allocations == plan.allocations
    assert (use.occupied, use.unplanned, use.jumps, use.fallback_peak) == (0, 0, 0, 0)
    assert json.loads(json.dumps(result.to_dict()))["plan"]["planned"] == use.planned
    assert quarry.replay(trace).plan is None


def test_a_repeating_trace_has_a_plan_of_one_period():
    trace = repeating_trace()
    plan = quarry.make_plan(trace)
    assert plan.period == 4
    assert plan.bytes == plan.lower_bound == 4096 + 70_144 + 512 + 9216
    longer = quarry.replay(repeating_trace(500), strategy="planned", plan=plan)
    assert longer.pool.peak_reserved == plan.bytes
    whole = quarry.make_plan(trace, finds_period=False)
    assert whole.period == 0 and whole.allocations == 200


def test_a_trace_whose_steps_deviate_has_a_period(tmp_path):
    """The batches have other sizes in each step, and the call sites tell the steps."""
    random = np.random.default_rng(5)
    slots, rows = np.array([0, 1, 2, 3, 1, 0, 3, 2]), []
    for _ in range(60):
        sizes = np.array([4096, 70_000, 300, 9000]) * random.integers(1, 9)
        rows += list(
            zip([0] * 4 + [1] * 4, (1 + slots) << 30, sizes[slots], slots + 1, strict=True)
        )
    kind, address, size, site = (np.array(column) for column in zip(*rows, strict=True))
    columns = {"kind": kind, "address": address, "size": size, "call_site": site}
    trace = quarry.make_trace(columns, call_sites=["", "a", "b", "c", "d"])
    plan = quarry.make_plan(trace)
    assert plan.period == 4 and plan.allocations < 20
    plan.save(tmp_path / "plan")
    assert (tmp_path / "plan").read_text().startswith("quarry-plan 2\n")
    use = quarry.replay(trace, strategy="planned", plan=tmp_path / "plan").plan
    assert use.planned / use.allocations > 0.8
    trace.write(tmp_path / "trace")
    whole = json.loads(run("plan", tmp_path / "trace", "--no-period", "--json").stdout)
    assert whole["period"] == 0 and whole["allocations"] == 240
    assert whole["planned_pool_peak_reserved"] == whole["bytes"]
    assert "not looked for" in run("plan", tmp_path / "trace", "--no-period").stdout
    trace.events["call_site"] = 0
    assert quarry.make_plan(trace).period == 0


def test_a_trace_that_differs_from_the_plan_is_served_by_the_fallback(trace):
    plan = quarry.make_plan(repeating_trace())
    result = quarry.replay(trace, strategy="planned", plan=plan)
    assert result.fits and result.pool.peak_reserved > plan.bytes
    use = result.plan
    assert use.allocations == result.pool.allocations and use.unplanned > 0
    assert result.pool.peak_reserved == plan.bytes + use.fallback_peak


def test_a_file_and_its_columns_have_equal_plans(trace_file, bounded_plan):
    assert quarry.make_plan(trace_file, max_steps=MAX_STEPS) == bounded_plan


def test_a_plan_is_saved_and_loaded(trace, plan, tmp_path):
    path = tmp_path / "random.plan"
    plan.save(path)
    assert quarry.load_plan(path) == plan
    result = quarry.replay(trace, strategy="planned", plan=path)
    assert result.pool.peak_reserved == plan.bytes
    path.write_text(path.read_text().replace("lower_bound ", "lower_bound 1", 1))
    with pytest.raises(quarry.BadPlan, match=r"random\.plan"):
        quarry.load_plan(path)
    with pytest.raises(quarry.ResourceFailed, match="missing"):
        quarry.load_plan(tmp_path / "missing")


def test_bad_options_raise_bad_argument(trace, plan):
    with pytest.raises(quarry.BadArgument, match="alignment is 3"):
        quarry.make_plan(trace, alignment=3)
    with pytest.raises(quarry.BadArgument, match="the strategy planned needs a plan"):
        quarry.replay(trace, strategy="planned")
    with pytest.raises(quarry.BadArgument, match="the strategy fast_fit takes no plan"):
        quarry.replay(trace, plan=plan)
    with pytest.raises(quarry.BadArgument, match="choose planned or planned_streams"):
        quarry.replay(trace, strategy="streams", plan=plan)


@pytest.mark.parametrize("strategy", ["planned", "planned_streams"])
def test_a_plan_without_room_serves_nothing(trace, plan, strategy):
    result = quarry.replay(trace, strategy=strategy, plan=plan, capacity="1MiB")
    assert not result.fits and result.plan is None
    assert result.failures == plan.allocations
    assert "the plan exceeds max_bytes (1048576 bytes)" in result.first_failure.reason


def test_progress_is_reported_for_a_small_trace(trace):
    seen = []
    quarry.make_plan(trace, progress=seen.append, max_steps=MAX_STEPS)
    assert seen and seen[-1] == len(trace)


def test_an_exception_of_progress_ends_the_placement():
    random = np.random.default_rng(3)
    count = 20_000
    slots = random.permutation(count)
    trace = quarry.make_trace(
        {
            "kind": np.repeat([0, 1], count),
            "address": np.concatenate([1 + np.arange(count), 1 + slots]) << 30,
            "size": np.tile(random.integers(1, 1 << 20, count), 2),
        }
    )
    calls = []

    def stop(events):
        calls.append(events)
        if len(calls) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        quarry.make_plan(trace, progress=stop)
    assert len(calls) == 3 and calls[-1] == len(trace)


def test_plan_prints_the_sizes_and_writes_the_plan(trace_file, bounded_plan, tmp_path):
    path = tmp_path / "random.plan"
    result = run("plan", trace_file, "--max-steps", MAX_STEPS, "-o", path)
    assert result.exit_code == 0
    method = bounded_plan.method
    for words in ("lower bound", "a default pool reserves", "% above", "placed by", method):
        assert words in result.stdout
    values = json.loads(run("plan", trace_file, "--max-steps", MAX_STEPS, "--json").stdout)
    assert values["bytes"] == bounded_plan.bytes and values["excess_percent"] >= 0
    assert values["default_pool_peak_reserved"] > bounded_plan.bytes
    assert values["planned_pool_peak_reserved"] == bounded_plan.bytes
    assert values["served_by_the_plan"] == bounded_plan.allocations
    result = run("replay", trace_file, "--strategy", "planned", "--plan", path, "--json")
    assert result.exit_code == 0
    values = json.loads(result.stdout)
    assert values["pool"]["peak_reserved"] == bounded_plan.bytes
    assert values["plan"]["planned"] == bounded_plan.allocations
    table = run("replay", trace_file, "--strategy", "planned", "--plan", path).stdout
    assert "served by the plan" in table and "jumps" not in table


def test_bad_input_of_plan_ends_with_2(trace_file, tmp_path):
    assert run("plan", tmp_path / "missing").exit_code == 2
    assert run("plan", trace_file, "--alignment", "3").exit_code == 2
    assert run("replay", trace_file, "--strategy", "planned").exit_code == 2
    result = run("replay", trace_file, "-s", "planned", "--plan", tmp_path / "missing")
    assert result.exit_code == 2 and "missing" in result.stderr.replace("\n", "")
