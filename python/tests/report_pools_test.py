# SPDX-License-Identifier: Apache-2.0
"""PyTorch's private pools in a report, computed by hand and read in headless Chromium."""

import pickle

import pytest
from browser import CHROMIUM, Page

import quarry
from quarry.report import write_report

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

MIB = 1 << 20
BASE = 0x7F0000000000
GRAPH, CACHE = (0, 3), (5, 0)


def snapshot():
    """Three segments, of which two are of private pools. Sizes and addresses are in MiB."""
    history = []

    def add(action, address, size, site="a.py"):
        history.append(
            {
                "action": action,
                "addr": BASE + address * MIB,
                "size": size * MIB,
                "stream": 0,
                "time_us": 1000 + 10 * len(history),
                "frames": [{"filename": site, "line": 1, "name": "f"}],
            }
        )

    def free(address, size):
        add("free_requested", address, size)
        add("free_completed", address, size)

    def segment(address, size, pool, blocks):
        return {
            "device": 0,
            "address": BASE + address * MIB,
            "total_size": size * MIB,
            "stream": 0,
            "segment_pool_id": pool,
            "frames": [],
            "blocks": [
                {
                    "address": BASE + place * MIB,
                    "size": length * MIB,
                    "requested_size": length * MIB,
                    "state": "active_allocated" if is_used else "inactive",
                    "frames": [],
                }
                for place, length, is_used in blocks
            ],
        }

    for address, size in ((0, 20), (100, 30), (200, 50)):
        add("segment_alloc", address, size)
    add("alloc", 0, 8, "weights.py")
    add("alloc", 8, 4, "weights.py")
    add("alloc", 100, 10, "graph.py")
    add("alloc", 110, 10, "graph.py")
    add("alloc", 200, 20, "cache.py")
    add("alloc", 220, 20, "cache.py")  # event 8: the peak, 72 MiB
    free(100, 10)  # event 9
    free(200, 20)  # event 10
    return {
        "segments": [
            segment(0, 20, (0, 0), [(0, 8, True), (8, 4, True), (12, 8, False)]),
            segment(100, 30, GRAPH, [(100, 10, False), (110, 10, True), (120, 10, False)]),
            segment(200, 50, CACHE, [(200, 20, False), (220, 20, True), (240, 10, False)]),
        ],
        "device_traces": [history],
    }


DEFAULT = "device 0, default pool"
PRIVATE = [f"device 0, pool {pool}" for pool in (GRAPH, CACHE)]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("pools") / "snapshot.pickle"
    path.write_bytes(pickle.dumps(snapshot()))
    return path


@pytest.fixture(scope="module")
def opened(path):
    report = path.with_suffix(".html")
    write_report(path, report, replays=[quarry.replay(path)])
    with Page(report.as_uri()) as page:
        page.wait("document.body?.dataset.ready === 'yes'")
        yield page
        assert page.problems == []


@pytest.fixture
def page(opened):
    opened.run("byId('clear').click()")
    opened.run("byId('by-row').click()")
    opened.run("chooseMoment(report.peak.event)")
    return opened


def rows(page):
    return page.run(
        "[...document.querySelectorAll('#rows .row')].map((row) => "
        "[...row.children].map((cell) => cell.textContent))"
    )


def choose_pool(page, name):
    page.run(
        f"(() => {{ const list = byId('pool'); list.value = "
        f"[...list.options].find((each) => each.text === '{name}').value;"
        "list.dispatchEvent(new Event('change')); })()"
    )


def test_the_filter_has_the_pools(page):
    names = page.run("[...byId('pool').options].map((each) => each.text)")
    assert names == ["every pool", DEFAULT, *PRIVATE]
    assert not page.run("byId('pool').hidden || byId('by-pool').hidden")


def test_each_allocation_names_its_pool(page):
    assert page.run("moment.event") == 8
    assert page.run("table.hasPools")
    found = page.run("table.rows.map((i) => [table.live.size[i], poolNames[table.live.pool[i]]])")
    assert sorted(found) == sorted(
        [
            [8 * MIB, DEFAULT], [4 * MIB, DEFAULT],
            [10 * MIB, PRIVATE[0]], [10 * MIB, PRIVATE[0]],
            [20 * MIB, PRIVATE[1]], [20 * MIB, PRIVATE[1]],
        ]
    )  # fmt: skip


def test_the_column_of_pools_leaves_the_only_device_out(page):
    expected = ["pool (5, 0)"] * 2 + ["pool (0, 3)"] * 2 + ["default pool"] * 2
    assert [row[2] for row in rows(page)] == expected
    assert page.run(
        "[...document.querySelectorAll('#rows .row')].every((row) => "
        "row.children[2].scrollWidth <= row.children[2].clientWidth)"
    ), "a name is cut off"


def test_the_rows_of_pools_add_up_allocations_and_blocks(page):
    page.run("byId('by-pool').click()")
    assert rows(page) == [
        ["40 MiB", "2", "50 MiB", "10 MiB", "10 MiB", PRIVATE[1]],
        ["20 MiB", "2", "30 MiB", "10 MiB", "10 MiB", PRIVATE[0]],
        ["12 MiB", "2", "20 MiB", "8 MiB", "8 MiB", DEFAULT],
    ]
    page.run("chooseMoment(10)")
    page.wait("document.body.dataset.moment === '10'")
    assert rows(page) == [
        ["20 MiB", "1", "50 MiB", "30 MiB", "20 MiB", PRIVATE[1]],
        ["12 MiB", "2", "20 MiB", "8 MiB", "8 MiB", DEFAULT],
        ["10 MiB", "1", "30 MiB", "20 MiB", "10 MiB", PRIVATE[0]],
    ]


def test_a_pool_without_allocations_keeps_its_row(page):
    page.run("byId('by-pool').click()")
    page.run("chooseMoment(2)")
    page.wait("document.body.dataset.moment === '2'")
    assert [row[:4] for row in rows(page)] == [
        ["0 B", "0", f"{size} MiB", f"{size} MiB"] for size in (20, 30, 50)
    ]


def test_the_filter_concerns_the_table_the_flame_graph_and_the_blocks(page):
    choose_pool(page, PRIVATE[0])
    assert page.run("table.rows.map((i) => table.live.size[i])") == [10 * MIB, 10 * MIB]
    assert page.run("flame.root.size") == 20 * MIB
    assert page.run("blocks.blocks.length") == 1
    note = page.run("byId('segments-note').textContent")
    assert note.startswith("1 block of 3, those of the chosen pool, 30 MiB. 10 MiB (33.3 %) is ")
    page.run("byId('by-pool').click()")
    assert [row[-1] for row in rows(page)] == [PRIVATE[0]]
    page.run("byId('clear').click()")
    assert len(rows(page)) == 3


def test_a_row_of_a_pool_chooses_it(page):
    page.run("byId('by-pool').click()")
    page.run("document.querySelector('#row-panel button').click()")
    assert [row[-1] for row in rows(page)] == [PRIVATE[1]]
    page.run("document.querySelector('#row-panel button').click()")
    assert len(rows(page)) == 3


def test_the_largest_free_chunk_is_that_of_each_event(page):
    high = page.run("[...unpack(report.largest_free.high)]")
    expected = [20, 30, 50, 50, 50, 50, 50, 30, 10, 10, 20]
    assert high == [each * MIB for each in expected]
    share = page.run("[...unpack(report.largest_share.high)]")
    free = [20, 50, 100, 92, 88, 78, 68, 48, 28, 38, 58]
    assert share == pytest.approx(
        [100 * largest / all for largest, all in zip(expected, free, strict=True)]
    )
    for chart in ("fragmentation", "largest-free"):
        names = page.run(f"byId('{chart}').data.map((each) => each.name)")
        assert names == ["as recorded", "Quarry (fast_fit)"]


def test_one_pool_has_a_report_of_its_own(path, tmp_path):
    report = tmp_path / "graph.html"
    content = write_report(path, report, allocator=PRIVATE[0])
    assert content.peak_requested == 20 * MIB
    assert dict(content.summary)["recorded peak of the reserved bytes"].startswith("30 MiB ")
    with Page(report.as_uri()) as page:
        page.wait("document.body?.dataset.ready === 'yes'")
        assert page.problems == []
        assert page.run("byId('pool').hidden && byId('by-pool').hidden")
    assert quarry.replay(path, allocator=PRIVATE[0]).pool.peak_allocated == 20 * MIB
    assert quarry.replay(path, allocator="device 0").pool.peak_allocated == 72 * MIB
