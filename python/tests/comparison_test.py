# SPDX-License-Identifier: Apache-2.0
"""Pages that compare two traces."""

import numpy as np
import pytest
from browser import CHROMIUM, Page
from conftest import random_trace
from report_moments_test import live_at, peak_of, type_into
from typer.testing import CliRunner

import quarry
from quarry.cli import app
from quarry.report import comparison, content

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A page of a trace, and of one whose call site 2 has twice the sizes and whose 7 is gone."""
    folder = tmp_path_factory.mktemp("compared")
    first, second = random_trace(6, 2000), random_trace(6, 2000)
    events = second.events[second.call_site != 7].copy()
    events["size"][events["call_site"] == 2] *= 2
    first.write(folder / "a.quarry")
    quarry.Trace(events, second.call_sites).write(folder / "b.quarry")
    paths = [str(folder / name) for name in ("a.quarry", "b.quarry")]
    done = CliRunner().invoke(app, ["report", *paths, "-o", str(folder / "page.html")])
    assert done.exit_code == 0, done.output
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    with Page((folder / "page.html").as_uri()) as page:
        page.wait("document.body?.dataset.ready === 'yes'")
        yield page, first, quarry.Trace(events, second.call_sites)
        assert page.problems == []


@needs_chromium
def test_two_traces_are_compared_at_their_peaks(compared):
    page, *traces = compared
    sums = [np.zeros(8), np.zeros(8)]
    for sum_of, trace in zip(sums, traces, strict=True):
        live = live_at(trace, peak_of(trace))
        sum_of += np.bincount(live.call_site, live.size, 8)
    rows = page.run("report.rows.map((row, i) => [framesOf(i).join(' < '), row[0], row[1]])")
    expected = {
        name: [a, b]
        for name, a, b in zip(traces[0].call_sites[1:], sums[0][1:], sums[1][1:], strict=True)
    }
    assert {name: values for name, *values in rows} == expected
    shown = page.run("table.rows.map((i) => table.difference(i))")
    assert [abs(each) for each in shown] == sorted(map(abs, shown), reverse=True)
    labels = page.run("byId('timeline').data.map((curve) => curve.name)")
    assert labels == ["A: in use", "B: in use"]


@needs_chromium
def test_a_comparison_is_searched_and_filtered(compared):
    page, *_ = compared
    page.run("byId('less').click()")
    assert page.run("table.rows.length") > 0
    assert page.run("table.rows.every((i) => table.difference(i) < 0)")
    page.run("byId('all').click()")
    type_into(page, "search", "model.py:7 forward")
    [row] = page.run("table.rows.map((i) => report.rows[i])")
    assert row[0] > 0 and row[1] == 0
    text = page.run("byId('row-panel').textContent")
    assert "model.py:7 forward" in text and "−100.0 %" in text
    page.run("document.querySelectorAll('#axes button')[1].click()")
    page.wait("document.body.dataset.axis === 'by event'")


def test_a_comparison_refuses_what_it_does_not_use(trace_file, tmp_path):
    words = ["report", str(trace_file), str(trace_file), "-o", str(tmp_path / "page.html")]
    for more in (["-s", "fast_fit"], ["--png", "a.png"], ["--tune"], ["--capacity", "1GiB"]):
        done = CliRunner().invoke(app, [*words, *more])
        assert done.exit_code == 2 and "no effect on a comparison" in done.stderr, done.output
    done = CliRunner().invoke(app, [*words[:3], "-o", str(trace_file)])
    assert done.exit_code == 2
    assert not (tmp_path / "page.html").exists()


def test_traces_without_call_sites_are_compared_by_size():
    first, second = random_trace(7, 500), random_trace(8, 300)
    for trace in (first, second):
        trace.events["call_site"] = 0
    made = [content.make_content(trace) for trace in (first, second)]
    rows = comparison.rows_of(*made)
    assert {row.name for row in rows} <= {f"{a} to {b}" for a, b in size_classes()}
    assert sum(row.difference for row in rows) == made[1].peak_requested - made[0].peak_requested
    assert comparison.comparison_data(*made)["title"] == "size"


def size_classes():
    texts = [f"{1 << e % 10} {'BKM'[e // 10]}{'iB' if e > 9 else ''}" for e in range(25)]
    return zip(texts[:-1], texts[1:], strict=True)


def test_sites_of_one_trace_only_are_beside_unknown_ones():
    first, second = random_trace(7, 500), random_trace(7, 500)
    second.events["call_site"] = 0
    rows = comparison.rows_of(*(content.make_content(trace) for trace in (first, second)))
    peak = content.make_content(first).peak_requested
    assert sum(row.difference for row in rows) == 0
    [unknown] = [row for row in rows if row.name == "(unknown)"]
    assert unknown.at_peak == (0, peak)


def test_the_axes_of_a_comparison_begin_with_each_trace():
    first, second = random_trace(1, 500), random_trace(2, 300)
    second.events["time"] += 10**12
    made = [content.make_content(trace) for trace in (first, second)]
    time, event = comparison.axes_of(*made)
    assert (time.first, event.first, event.last) == (0, 0, 499)
    assert time.last == pytest.approx(499e-6)
    second.events["time"] = 5  # no times
    [event] = comparison.axes_of(made[0], content.make_content(second))
    assert event.unit == ""
