# SPDX-License-Identifier: Apache-2.0
"""Reports, and their pages in headless Chromium if it is installed."""

import json

import numpy as np
import pytest
from browser import CHROMIUM, Page
from conftest import random_trace
from typer.testing import CliRunner

import quarry
from quarry.cli import app
from quarry.report import content, write_report

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
CHARTS = ["timeline", "blocks", "fragmentation", "groups", "sweep"]


@pytest.fixture(scope="module")
def report(recording, tmp_path_factory):
    output = tmp_path_factory.mktemp("report") / "report.html"
    words = [
        "report",
        str(recording),
        "-o",
        str(output),
        "-s",
        "fast",
        "-s",
        "stitched",
        "--tune",
        "--json",
    ]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    return output, json.loads(done.stdout)


@pytest.fixture(scope="module")
def page(report):
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    with Page(report[0].as_uri()) as opened:
        opened.wait("document.body?.dataset.ready === 'yes'")
        yield opened


def test_a_report_is_one_file_with_a_summary(report):
    path, values = report
    text = path.read_text("utf-8")
    assert values["events"] == 9818
    assert "peak of the requested bytes" in values["summary"]
    assert "Plotly" in text and "{{" not in text.split("<script>", 1)[0]


@needs_chromium
def test_the_page_opens_without_errors_and_without_network(page):
    assert page.problems == []
    assert [url for url in page.requests if not url.startswith(("file:", "data:"))] == []


@needs_chromium
def test_all_charts_are_there(page):
    for chart in CHARTS:
        count = page.run(f"document.querySelectorAll('#{chart} .main-svg').length")
        assert count > 0, chart
    assert page.run("document.getElementById('timeline').data.length") == 5
    assert page.run("Math.max(...document.getElementById('timeline').data[0].y)") > 0
    assert (
        page.run("document.getElementById('sweep').data.map(points => points.name)")[-1]
        == "least cost"
    )
    assert "quarry::" in page.run("document.getElementById('code').textContent")
    assert page.run("document.getElementById('failures-section')") is None
    names = page.run(
        "[...document.querySelectorAll('#summary tr')].map(row => row.cells[0].textContent)"
    )
    assert "peak of the requested bytes" in names


def colours(page):
    """The number of different colours in the picture of blocks."""
    return page.run(
        "(() => { const c = document.querySelector('#blocks canvas');"
        "const pixels = c.getContext('2d').getImageData(0, 0, c.width, c.height);"
        "return new Set(new Uint32Array(pixels.data.buffer)).size; })()"
    )


@needs_chromium
def test_blocks_are_drawn_in_colours(page):
    assert colours(page) > 3


def drawn(page):
    return int(page.run("document.body.dataset.drawn || 0"))


@needs_chromium
def test_a_zoom_changes_all_charts_and_double_click_resets(page):
    whole = page.run("report.axis.range")
    x, y, width, height = page.box("blocks")
    before = drawn(page)
    page.drag((x + width * 0.4, y + height * 0.2), (x + width * 0.6, y + height * 0.8))
    page.wait(f"(document.body.dataset.drawn || 0) > {before}")
    ranges = [
        page.run(f"document.getElementById('{chart}').layout.xaxis.range") for chart in CHARTS[:3]
    ]
    assert ranges[0] == ranges[1] == ranges[2]
    assert ranges[0][0] > whole[0] and ranges[0][1] < whole[1]
    assert colours(page) > 1
    before = drawn(page)
    x, y, width, height = page.box("timeline")
    page.double_click(x + width / 2, y + height / 2)
    page.wait(f"document.body.dataset.drawn > {before}")
    assert page.run("document.getElementById('blocks').layout.xaxis.range") == whole
    assert page.problems == []


@needs_chromium
def test_the_axis_switches_between_time_and_events(page):
    for number, name, title in ((1, "by event", "event"), (0, "by time", "time (s)")):
        page.run(f"document.querySelectorAll('#axes button')[{number}].click()")
        page.wait(f"document.body.dataset.axis === '{name}'")
        titles = [
            page.run(f"document.getElementById('{chart}').layout.xaxis.title.text")
            for chart in CHARTS[:3]
        ]
        assert titles == [title] * 3
        assert colours(page) > 3
        assert page.run("document.querySelectorAll('#blocks canvas').length") == 2
    assert page.problems == []


@needs_chromium
def test_hover_shows_values_and_blocks(page):
    x, y, width, height = page.box("timeline")
    page.mouse("mouseMoved", x + width * 0.5, y + height * 0.5)
    page.mouse("mouseMoved", x + width * 0.55, y + height * 0.5)
    page.wait(
        "document.querySelector('#timeline .hoverlayer').textContent"
        ".includes('requested by the program')"
    )
    x, y, width, height = page.box("blocks")
    for row in range(10, 90, 2):
        page.mouse("mouseMoved", x + width * 0.7, y + height * row / 100)
        if page.run("document.getElementById('tip').style.display") == "block":
            break
    text = page.run("document.getElementById('tip').textContent")
    assert "address 0x" in text and " B" in text
    assert page.problems == []


@needs_chromium
def test_a_report_with_more_blocks_than_are_drawn_has_a_picture_of_the_others(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(content, "MAX_BLOCKS", 50)
    trace = random_trace(1)
    trace.events["time"] = 0  # the axis shows events then
    write_report(trace, tmp_path / "report.html", title="</script><b>")
    with Page((tmp_path / "report.html").as_uri()) as page:
        page.wait("document.body?.dataset.ready === 'yes'")
        assert page.problems == []
        assert page.run("document.querySelector('h1').textContent") == "</script><b>"
        assert "50 largest" in page.run("document.getElementById('blocks-note').textContent")
        assert page.run("report.axis.title") == "event"
        assert colours(page) > 20  # grays of many opacities


EMPTY = {
    "The trace has no events.": quarry.make_trace({"size": []}),
    "The trace has no allocations.": quarry.make_trace({"kind": [quarry.Kind.PHASE]}),
}


@pytest.mark.parametrize("text", EMPTY)
def test_an_empty_trace_has_a_report_and_a_picture(text, tmp_path, recwarn):
    pytest.importorskip("matplotlib")
    trace, picture = EMPTY[text], tmp_path / "picture.svg"
    results = {"replays": [quarry.replay(trace)], "sweep": quarry.tune(trace)}
    made = write_report(trace, tmp_path / "report.html", png=picture, **results)
    assert made.nothing == text
    assert f'"nothing":"{text}"' in (tmp_path / "report.html").read_text("utf-8")
    assert picture.read_text("utf-8").count(f"<!-- {text} -->") == 4  # in each chart
    assert recwarn.list == []


@needs_chromium
def test_the_charts_of_an_empty_trace_say_so(tmp_path):
    text, trace = next(iter(EMPTY.items()))
    results = {"replays": [quarry.replay(trace)], "sweep": quarry.tune(trace)}
    write_report(trace, tmp_path / "report.html", **results)
    with Page((tmp_path / "report.html").as_uri()) as page:
        page.wait("document.body?.dataset.ready === 'yes'")
        assert page.problems == []
        for chart in CHARTS[:4]:
            shown = page.run(f"document.getElementById('{chart}').textContent")
            assert text in shown, chart
        assert page.run("document.getElementById('sweep')") is None


def test_names_of_call_sites_cannot_end_the_script(tmp_path):
    trace = random_trace(1, 100)
    sites = ["", "</script><script>alert(1)</script>"]
    trace = quarry.Trace(trace.events, sites + trace.call_sites[2:])
    write_report(trace, tmp_path / "report.html")
    assert "<script>alert" not in (tmp_path / "report.html").read_text("utf-8")


def test_a_picture_for_papers_is_a_png(trace, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "picture.png"
    write_report(trace, tmp_path / "report.html", replays=[quarry.replay(trace)], png=path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_the_picture_shows_the_front_and_the_least_cost(trace):
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    from quarry.report import png

    sweep = quarry.tune(trace, candidates="published")
    chart = Figure().subplots()
    png.draw_sweep(sweep, chart)
    points = {each.get_label(): each.get_offsets() for each in chart.collections}
    unit = 2**20 if chart.get_xlabel().endswith("(MiB)") else 2**30
    assert len(points["on the front"]) == len(sweep.front) > 0
    assert len(points["oldest_best_fit"]) == len(sweep.outcomes)
    best = sweep.best
    assert points["least cost"].tolist() == [[best.peak_reserved / unit, best.upstream_us / 1000]]


def test_the_picture_with_tuned_settings_is_larger(trace, tmp_path):
    pytest.importorskip("matplotlib")
    sizes = []
    for sweep in (None, quarry.tune(trace, candidates="published")):
        write_report(trace, tmp_path / "report.html", sweep=sweep, png=tmp_path / "picture.png")
        picture = (tmp_path / "picture.png").read_bytes()
        sizes.append(int.from_bytes(picture[20:24], "big"))  # the height
    assert sizes[0] < sizes[1]


def test_a_report_takes_the_options_of_a_pool(trace_file, tmp_path):
    pool = ["--first-block", "1MiB", "--next-block", "1MiB", "--growth", "0", "-H", "blocks:3"]
    words = ["report", str(trace_file), "-o", str(tmp_path / "page.html"), *pool, "--json"]
    summary = json.loads(CliRunner().invoke(app, words).stdout)["summary"]
    label = "Quarry, fast_fit, blocks:3, first block 1 MiB, next block 1 MiB, growth 0 %"
    replayed = quarry.replay(
        trace_file, heuristic="blocks:3", first_block="1MiB", next_block="1MiB", growth_percent=0
    )
    assert summary[f"{label}: coalesces"] == f"{replayed.pool.coalesces:,}"
    result = CliRunner().invoke(app, [*words[:4], "-s", "direct", "--growth", "0"])
    assert result.exit_code == 2 and "--growth 0 has no effect" in result.stderr


def test_problems_and_failures_are_in_the_summary(trace):
    problems = ["file:7: bad line"]
    shown = quarry.Trace(trace.events, trace.call_sites, problems=problems, problem_count=3)
    replay = quarry.replay(shown, capacity="1MiB")
    made = content.make_content(shown, [replay])
    assert made.problems == [*problems, "2 more problems are not listed"]
    assert any("did not fit" in name for name, _ in made.summary)
    assert np.isfinite(made.replays[0].free).all()
