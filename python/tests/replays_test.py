# SPDX-License-Identifier: Apache-2.0
import json

import pytest

import quarry
from quarry.options import PLANNED, STRATEGIES
from quarry.report.lifetimes import Matcher


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_holds_at_least_what_is_in_use(trace, plan, strategy):
    result = quarry.replay(trace, strategy=strategy, plan=plan if strategy in PLANNED else None)
    assert result.fits and result.first_failure is None
    peak = Matcher().add(trace).requested.cumsum().max()
    assert result.pool.peak_allocated == peak
    assert result.pool.peak_reserved >= peak
    assert result.events == len(trace)
    assert result.samples["reserved"].max() == result.pool.peak_reserved


def test_a_file_and_its_columns_replay_equally(trace, trace_file):
    from_file, from_columns = quarry.replay(trace_file), quarry.replay(trace)
    assert from_file.pool.to_dict() == from_columns.pool.to_dict()
    assert (from_file.samples == from_columns.samples).all()


def test_a_replay_that_does_not_fit_names_the_first_failure(trace):
    peak = quarry.replay(trace).pool.peak_allocated
    result = quarry.replay(trace, capacity=peak // 2)
    assert not result.fits and result.failures > 0
    failure = result.first_failure
    assert trace.size[failure.event] == failure.request["size"]
    assert failure.pool.reserved <= peak // 2
    assert failure.call_site.startswith("model.py:")


def test_a_result_is_plain_values(trace):
    values = json.loads(
        json.dumps(quarry.replay(trace, heuristic="percent:50+hwm").to_dict(samples=True))
    )
    assert values["fits"] is True
    assert values["settings"]["heuristic"] == "percent:50+hwm"
    published = quarry.replay(trace, heuristic="percent:50+hwm+2022").to_dict()
    assert published["settings"]["heuristic"] == "percent:50+hwm+2022"
    assert len(values["samples"]["reserved"]) <= 2048


@pytest.mark.parametrize(
    "options",
    [{"strategy": "psychic"}, {"heuristic": "percent"}, {"capacity": "lots"}, {"alignment": 3}],
)
def test_bad_options_raise_bad_argument(trace, options):
    with pytest.raises(quarry.BadArgument):
        quarry.replay(trace, **options)


def test_a_replay_in_host_memory_reserves_as_much_as_a_simulated_one(trace):
    real, simulated = quarry.replay(trace, resource="host"), quarry.replay(trace)
    assert real.pool.peak_allocated == simulated.pool.peak_allocated
    assert real.pool.peak_reserved >= real.pool.peak_allocated
    assert real.measured_us > 0 and simulated.measured_us is None


def test_names_of_older_versions_are_accepted(trace):
    result = quarry.replay(trace, strategy="lowest-best-fit")
    assert result.settings["strategy"] == "lowest_best_fit"


def test_each_placement_of_a_pool_is_a_strategy():
    placements = [name for name, row in quarry.STRATEGIES.items() if row["is_placement"]]
    assert placements == list(quarry.PLACEMENTS)


@pytest.mark.parametrize("strategy", ["streams", "stitched", "direct"])
def test_every_strategy_uses_real_memory(trace, strategy):
    real = quarry.replay(trace, strategy=strategy, resource="host")
    simulated = quarry.replay(trace, strategy=strategy)
    assert real.fits and real.measured_us > 0
    assert real.pool.peak_reserved == simulated.pool.peak_reserved
    assert real.pool.peak_granted == simulated.pool.peak_granted > 0


def test_a_recording_knows_what_its_allocator_held(recording):
    result = quarry.replay(recording)
    assert result.fits
    assert result.recorded_peak_reserved > result.pool.peak_allocated
