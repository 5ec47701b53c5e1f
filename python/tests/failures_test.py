# SPDX-License-Identifier: Apache-2.0
"""Requests that failed in the recording, and traces of which nothing can be read."""

import pytest
from browser import CHROMIUM, Page
from typer.testing import CliRunner

import quarry
from quarry.cli import app
from quarry.report import content, write_report

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")


def program_that_fails(size):
    """Keeps 30 MiB in chunks, and then requests `size` bytes, which fails."""
    mib = 1 << 20
    return quarry.make_trace(
        {
            "kind": [0] * 6 + [1] * 3 + [quarry.Kind.FAIL],
            "address": [4096 * i for i in (1, 2, 3, 4, 5, 6, 1, 3, 5, 0)],
            "size": [10 * mib] * 9 + [size],
            "call_site": [1, 2, 1, 2, 1, 2, 0, 0, 0, 3],
        },
        call_sites=["", "loader", "model", "too much"],
    )


def test_a_failed_request_is_tried_again_if_there_is_a_capacity():
    trace = program_that_fails(500 << 20)
    unlimited = quarry.replay(trace)
    assert unlimited.fits and unlimited.recorded_failures == 1 and not unlimited.retried_failures
    assert unlimited.peak_with_failures == 530 << 20
    small = quarry.replay(trace, capacity="65MiB")
    assert not small.fits and small.failures == 0 and small.repeated_failures == 1
    assert small.first_failure.event == 9 and small.first_failure.call_site == "too much"
    assert small.first_failure.request["kind"] == quarry.Kind.FAIL
    assert small.to_dict()["fits"] is False
    large = quarry.replay(trace, capacity="600MiB")
    assert large.fits and large.retried_failures == 1 and large.repeated_failures == 0


@pytest.mark.parametrize(
    ("capacity", "status", "fits", "failures"),
    [
        (None, 0, "yes, because the memory is unlimited", "1, not tried; state the capacity"),
        ("65MiB", 1, "no: of 1 failures in the trace, 1 failed again", "1, tried again, 0"),
        ("600MiB", 0, "yes", "1, tried again, 1 succeeded"),
    ],
)
def test_replay_says_what_became_of_recorded_failures(tmp_path, capacity, status, fits, failures):
    path = tmp_path / "failed.quarry"
    program_that_fails(500 << 20).write(path)
    words = ["replay", str(path)] + (["--capacity", capacity] if capacity else [])
    result = CliRunner().invoke(app, words)
    assert result.exit_code == status, result.output
    rows = {row[:31].strip(): row[31:].strip() for row in result.stdout.splitlines()}
    assert rows["fits"] == fits
    assert rows["failures in the trace"].startswith(failures)
    assert "530 MiB" in result.stdout
    if status:
        assert "event 9 fails as in the recording: it requests 500 MiB at too much" in " ".join(
            result.output.split()
        )


def test_a_report_shows_what_was_in_use_when_a_request_failed(tmp_path):
    trace = program_that_fails(25 << 20)
    made = content.make_content(trace, [quarry.replay(trace, capacity="65MiB")])
    [failure] = made.failures
    assert (failure.event, failure.size, failure.call_site) == (9, 25 << 20, "too much")
    assert (failure.in_use, failure.allocations) == (30 << 20, 3)
    assert failure.largest == [("model", 30 << 20)]
    name = "Quarry, fast_fit: failed requests that succeed now"
    assert dict(made.summary)[name] == "0"
    sizes_only = quarry.make_trace({"kind": [0, 0, 2], "address": [1, 2, 0], "size": [5, 7, 9]})
    [failure] = content.make_content(sizes_only).failures
    assert failure.largest == [("", 7), ("", 5)]


@needs_chromium
def test_the_page_marks_failed_requests(tmp_path):
    output = tmp_path / "failed.html"
    trace = program_that_fails(25 << 20)
    write_report(trace, output, replays=[quarry.replay(trace)])
    with Page(output.as_uri()) as opened:
        opened.wait("document.body?.dataset.ready === 'yes'")
        cells = opened.run(
            "[...document.querySelectorAll('#failures td')].map(cell => cell.textContent)"
        )
        assert cells == ["9", "25 MiB\nat too much", "", "30 MiB in 3 allocations", "30 MiB: model"]
        assert opened.run("document.getElementById('timeline').layout.shapes.length") == 1
        names = opened.run("document.getElementById('timeline').data.map(curve => curve.name)")
        assert names[-1] == "failed requests"
        assert opened.run("document.getElementById('timeline').data.at(-1).y") == [30]
        assert opened.problems == []


@pytest.mark.parametrize("accepts", [[], ["--accept-damage"]])
def test_a_log_without_a_readable_row_does_not_fit(tmp_path, accepts):
    path = tmp_path / "log.csv"
    path.write_text("Thread,Time,Action,Pointer,Size,Stream\nbad\n1,2\n")
    result = CliRunner().invoke(app, ["replay", str(path), *accepts])
    assert result.exit_code == 2 and "fits" not in result.output
    assert "(the first of 2 problems). No event could be read" in result.output


def test_allocations_without_addresses_make_no_trace():
    """Replays ignore null pointers, so the peak would be 0."""
    with pytest.raises(quarry.BadArgument, match="event 1 allocates 5 bytes at address 0"):
        quarry.make_trace({"kind": [0, 0], "size": [0, 5]})
    assert len(quarry.make_trace({"kind": [0, 1], "size": [0, 5]})) == 2


def test_tune_and_plan_say_what_the_failed_requests_need(tmp_path):
    path = tmp_path / "failed.quarry"
    program_that_fails(500 << 20).write(path)
    for words in (["tune", "--candidates", "2024"], ["plan"]):
        result = CliRunner().invoke(app, [words[0], str(path), *words[1:]])
        assert result.exit_code == 0 and "failures in the trace" in result.stdout
        assert "530 MiB" in result.stdout
    words = ["tune", str(path), "--candidates", "2024", "--capacity", "65MiB"]
    assert CliRunner().invoke(app, words).exit_code == 1
