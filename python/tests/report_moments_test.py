# SPDX-License-Identifier: Apache-2.0
"""What a report shows of a moment, in headless Chromium: clicks, search, filters and stacks."""

import numpy as np
import pytest
from browser import CHROMIUM, Page
from conftest import random_trace

import quarry
from quarry import Kind
from quarry.report import moments, write_report
from quarry.report.lifetimes import lifetimes_of

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
pytestmark = needs_chromium

STREAMS = ["", "compute", "copy"]
POOLS = ["", "weights", "activations"]


def traced():
    """A trace with streams, pools, deep stacks, failures and blocks of the recorded allocator."""
    trace = random_trace(4, 3000)
    slots = trace.address // (1 << 21)
    trace.events["stream"] = slots % 3
    trace.events["allocator"] = 1 + slots % 2
    first = np.uint64(trace.address.min())
    reserve = np.zeros(1, trace.events.dtype)
    reserve["kind"], reserve["address"], reserve["size"] = Kind.RESERVE, first, 200 << 21
    reserve["time"] = trace.time[0]
    failed = reserve.copy()
    failed["kind"], failed["size"], failed["time"] = Kind.FAIL, 1 << 40, trace.time[1999]
    events = np.concatenate([reserve, trace.events[:2000], failed, trace.events[2000:]])
    names = [
        " < ".join([f"layer_{site}.py:{site} forward", "model.py:5 call", "train.py:1 main"])
        for site in range(1, 8)
    ]
    return quarry.Trace(events, ["", *names], POOLS, streams=STREAMS)


@pytest.fixture(scope="module")
def trace():
    return traced()


@pytest.fixture(scope="module")
def opened(trace, tmp_path_factory):
    path = tmp_path_factory.mktemp("moments") / "report.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moments, "LEAF", 50)  # so that a moment needs several bins
        write_report(trace, path, replays=[quarry.replay(trace)])
    with Page(path.as_uri()) as page:
        page.wait("document.body?.dataset.ready === 'yes'")
        yield page
        assert page.problems == []


@pytest.fixture
def page(opened):
    opened.run("byId('clear').click()")
    opened.run("byId('by-row').click()")
    choose(opened, "report.peak.event")
    return opened


def choose(page, event):
    page.run(f"chooseMoment({event})")


def live_at(trace, event):
    lifetimes = lifetimes_of(trace)
    return lifetimes[lifetimes.live_at(event)]


def peak_of(trace):
    change = np.zeros(len(trace), np.int64)
    size = trace.size.astype(np.int64)
    change[trace.kind == Kind.ALLOCATE] = size[trace.kind == Kind.ALLOCATE]
    change[trace.kind == Kind.DEALLOCATE] = -size[trace.kind == Kind.DEALLOCATE]
    return int(np.cumsum(change).argmax())


def sizes(page):
    return page.run("table.rows.map((i) => table.live.size[i])")


def type_into(page, name, text):
    page.run(
        f"(async () => {{ const field = byId('{name}'); field.value = '{text}';"
        "field.dispatchEvent(new Event('input')); field.dispatchEvent(new Event('change'));"
        "await new Promise((done) => setTimeout(done, 200)); })()"
    )


def test_a_report_opens_at_the_peak(page, trace):
    peak = peak_of(trace)
    assert page.run("moment.event") == peak
    expected = sorted(live_at(trace, peak).size.tolist(), reverse=True)
    assert sizes(page) == expected
    assert page.run("byId('moment-title').textContent").startswith(f"event {peak:,}, ")
    text = page.run("byId('moment-count').textContent")
    assert text.startswith(f"{len(expected):,} allocations, ")


def test_a_click_chooses_the_moment_below_the_pointer(page, trace):
    for chart, share in (("timeline", 0.3), ("blocks", 0.8)):
        x, y, width, height = page.box(chart)
        left, inner = page.run(
            f"[byId('{chart}')._fullLayout._size.l, byId('{chart}')._fullLayout._size.w]"
        )
        point = x + left + inner * share, y + height / 2
        page.mouse("mouseMoved", *point)
        page.mouse("mousePressed", *point, "left")
        page.mouse("mouseReleased", *point, "left")
        page.wait(f"Math.abs(moment.event / {len(trace)} - {share}) < 0.01")
        event = page.run("moment.event")
        page.wait(f"document.body.dataset.moment === '{event}'")
        assert sorted(sizes(page)) == sorted(live_at(trace, event).size.tolist())
        cursor = page.run(f"byId('{chart}').querySelector('.cursor').getBoundingClientRect().x")
        assert abs(cursor - point[0]) < 3


def test_a_click_at_the_peak_chooses_the_peak_among_the_events_of_a_pixel(page, trace):
    peak = peak_of(trace)
    choose(page, peak - 500)
    for switch in (1, 0):
        page.run(f"document.querySelectorAll('#axes button')[{switch}].click()")
        page.wait(f"document.body.dataset.axis === '{'by event' if switch else 'by time'}'")
        x, y, width, height = page.box("timeline")
        place = page.run(
            "(() => { const layout = byId('timeline')._fullLayout;"
            f"return layout._size.l + layout.xaxis.d2p(placeOf({peak})); }})()"
        )
        page.mouse("mouseMoved", x + place, y + height / 2)
        page.mouse("mousePressed", x + place, y + height / 2, "left")
        page.mouse("mouseReleased", x + place, y + height / 2, "left")
        page.wait(f"document.body.dataset.moment === '{peak}'")
        choose(page, peak - 500)


def test_a_drag_zooms_and_chooses_no_moment(page):
    before = page.run("moment.event")
    drawn = int(page.run("document.body.dataset.drawn || 0"))
    x, y, width, height = page.box("timeline")
    page.drag((x + width * 0.5, y + height / 2), (x + width * 0.7, y + height / 2))
    page.wait(f"(document.body.dataset.drawn || 0) > {drawn}")
    assert page.run("moment.event") == before

    def zooms_out():  # a busy machine may take two clicks for two single ones
        page.double_click(x + width / 2, y + height / 2)
        try:
            page.wait(f"document.body.dataset.drawn > {drawn + 1}", seconds=5)
        except TimeoutError:
            return False
        return True

    page.wait(zooms_out)
    assert page.run("byId('timeline').layout.xaxis.range") == page.run("report.axis.range")
    page.run("new Promise((done) => setTimeout(done, 400))")
    assert page.run("moment.event") == before


@pytest.mark.parametrize("event", [0, 1, 49, 50, 399, 400, 1234, 3001])
def test_an_event_can_be_typed(page, trace, event):
    type_into(page, "moment-event", f"{event:,}")
    page.wait(f"document.body.dataset.moment === '{event}'")
    assert sorted(sizes(page)) == sorted(live_at(trace, event).size.tolist())
    page.run("byId('moment-next').click()")
    assert page.run("moment.event") == min(event + 1, 3001)


def test_a_moment_says_what_its_event_does(page, trace):
    text = "byId('moment-change').textContent"
    for event in [*range(1, 2000, 37), 50, 400, 800]:  # also at the borders of bins
        choose(page, event)
        size = page.run(f"sizeText({int(trace.size[event])})")
        if trace.kind[event] == Kind.ALLOCATE:
            assert page.run(text) == f"This event allocates {size}."
        else:
            is_freed = page.run(text).startswith(f"This event frees {size} of layer_")
            assert is_freed, (event, page.run(text))
    choose(page, 0)
    assert page.run(text) == "At this event the recorded allocator reserves 400 MiB."
    choose(page, 2001)
    assert page.run(text) == "At this event a request of 1 TiB failed."


def test_filters_keep_the_allocations_that_they_name(page, trace):
    live = live_at(trace, peak_of(trace))
    for name, text, kept in (
        ("stream", "1", live.stream == 1),
        ("pool", "2", live.allocator == 2),
        ("least-size", "64 KiB", live.size >= 65536),
        ("search", "LAYER_3 main", live.call_site == 3),
        ("search", f"0x{live.address[0]:x}", live.address == live.address[0]),
        ("search", "nowhere", live.size < 0),
    ):
        type_into(page, name, text)
        assert sorted(sizes(page)) == sorted(live.size[kept].tolist()), (name, text)
        assert page.run("byId('clear').hidden") is False
        page.run("byId('clear').click()")
    assert len(sizes(page)) == len(live)
    type_into(page, "least-size", "much")
    assert page.run("byId('least-size').className") == "wrong"


def test_a_row_shows_its_whole_stack_and_facts(page, trace):
    live = live_at(trace, peak_of(trace))
    largest = live[np.argsort(-live.size, kind="stable")[0]]
    frames = page.run("[...document.querySelectorAll('#row-panel li')].map((e) => e.textContent)")
    assert " < ".join(frames) == trace.call_sites[int(largest.call_site)]
    facts = dict(
        page.run(
            "[...document.querySelectorAll('#row-panel dt')].map("
            "(e) => [e.textContent, e.nextSibling.textContent])"
        )
    )
    assert f"({int(largest.size):,} B)" in facts["size"]
    assert facts["address"] == f"0x{int(largest.address):x}"
    assert facts["allocated"].startswith(f"at event {int(largest.start):,}")
    assert facts["pool"] == POOLS[int(largest.allocator)]
    assert facts["stream"] == (STREAMS[int(largest.stream)] or "default")
    assert f"{peak_of(trace) - int(largest.start):,} events" in facts["age"]


def test_columns_sort_and_call_sites_add_up(page, trace):
    live = live_at(trace, peak_of(trace))
    page.run("document.querySelector('#rows-head [data-key=size]').click()")
    assert sizes(page) == sorted(live.size.tolist())
    page.run("document.querySelector('#rows-head [data-key=size]').click()")
    page.run("byId('by-site').click()")
    found = page.run("table.rows.map((i) => [table.groups[i].size, table.groups[i].count])")
    sums = np.bincount(live.call_site, live.size)
    counts = np.bincount(live.call_site)
    expected = [[int(sums[i]), int(counts[i])] for i in np.argsort(-sums) if counts[i]]
    assert found == expected
    page.run("[...document.querySelectorAll('#row-panel button')][0].click()")
    page.run("byId('by-row').click()")
    assert len(sizes(page)) == expected[0][1]


def test_only_visible_rows_are_in_the_page(page):
    rows = page.run("table.rows.length")
    assert rows > 60
    assert page.run("document.querySelectorAll('#rows .row').length") < 40
    page.run("byId('rows-body').scrollTop = 1e9")
    page.wait(f"!!document.querySelector('#rows .row[data-row=\"{rows - 1}\"]')")


def test_the_flame_graph_adds_up_and_zooms(page, trace):
    live = live_at(trace, peak_of(trace))
    assert page.run("flame.root.size") == live.size.sum()
    assert page.run("[...flame.root.children.keys()]") == ["train.py:1 main"]
    inner = page.run("[...flame.root.children.get('train.py:1 main').children.keys()]")
    assert inner == ["model.py:5 call"]
    x, y, _, _ = page.box("flame")
    page.mouse("mouseMoved", x + 20, y + 19 * 3 + 5)
    leaf = page.run("byId('tip').textContent")
    assert leaf.startswith("layer_") and "allocations" in leaf
    page.mouse("mousePressed", x + 20, y + 19 * 3 + 5, "left")
    page.mouse("mouseReleased", x + 20, y + 19 * 3 + 5, "left")
    page.wait("flame.shown.name.startsWith('layer_')")
    page.run("byId('flame-whole').click()")
    assert page.run("flame.shown === flame.root")
    type_into(page, "search", "layer_2")
    assert page.run("flame.root.size") == live.size[live.call_site == 2].sum()


def test_the_recorded_blocks_have_the_allocations(page, trace):
    page.wait("byId('segments').dataset.blocks === '1'")
    live = live_at(trace, peak_of(trace))
    assert page.run("blocks.blocks[0].used") == live.granted.sum()
    unused = (200 << 21) - int(live.granted.sum())
    assert f"{100 * unused / (200 << 21):.1f} %" in page.run("byId('segments-note').textContent")
    ends = np.sort(live.address + live.granted.astype(np.uint64))
    gaps = np.append(np.sort(live.address)[1:], np.uint64(trace.address[0]) + np.uint64(200 << 21))
    assert page.run("blocks.blocks[0].hole") == int((gaps - ends).max())


def test_a_failure_leads_to_its_moment(page):
    assert page.run("document.getElementById('timeline').layout.shapes.length") == 1
    page.run("document.querySelector('#failures button').click()")
    page.wait("document.body.dataset.moment === '2001'")
    assert page.run("moment.event") == 2001


def test_the_axis_keeps_the_moment(page):
    event = page.run("moment.event")
    page.run("document.querySelectorAll('#axes button')[1].click()")
    page.wait("document.body.dataset.axis === 'by event'")
    assert page.run("moment.event") == event
    place = page.run("byId('timeline')._fullLayout.xaxis.d2p(moment.event)")
    left = page.run("parseFloat(byId('timeline').querySelector('.cursor').style.left)")
    assert abs(left - place - page.run("byId('timeline')._fullLayout._size.l")) < 1
    page.run("document.querySelectorAll('#axes button')[0].click()")
    page.wait("document.body.dataset.axis === 'by time'")


def test_a_trace_without_call_sites_has_a_table_without_stacks(tmp_path):
    trace = random_trace(5, 600)
    trace.events["call_site"] = 0
    write_report(quarry.Trace(trace.events), tmp_path / "report.html")
    with Page((tmp_path / "report.html").as_uri()) as page:
        page.wait("document.body?.dataset.ready === 'yes'")
        assert page.problems == []
        assert page.run("byId('flame-section')") is None
        assert page.run("byId('segments-section')") is None
        assert page.run("document.querySelectorAll('#rows .row').length") > 0
        assert "no call site" in page.run("byId('row-panel').textContent")
        assert page.run("byId('stream').hidden && byId('pool').hidden")
