# SPDX-License-Identifier: Apache-2.0
"""Short and whole names of call sites in reports."""

import random

import pytest
from conftest import DATA

import quarry
from quarry.report import content, page, stacks


def name_of(*frames):
    return stacks.SEPARATOR.join(frames)


def test_call_sites_with_one_innermost_frame_have_labels_that_differ():
    names = [
        name_of("nn/linear.py:134 forward", "nn/module.py:9 call", "net.py:1 a", "main.py:5 run"),
        name_of("nn/linear.py:134 forward", "nn/module.py:9 call", "net.py:2 b", "main.py:5 run"),
        name_of("nn/linear.py:134 forward", "net.py:3 c"),
        name_of("nn/conv.py:7 forward", "net.py:3 c"),
        "net.py:4 alone",
    ]
    assert stacks.labels_of(names) == [
        ["nn/linear.py:134 forward", "< … < net.py:1 a < …"],
        ["nn/linear.py:134 forward", "< … < net.py:2 b < …"],
        ["nn/linear.py:134 forward", "< net.py:3 c"],
        ["nn/conv.py:7 forward", "< … 1 more frame"],
        ["net.py:4 alone"],
    ]


def test_a_long_frame_loses_its_beginning_and_shows_it():
    (label,) = stacks.labels_of([name_of("a" * 60 + "/file.py:12 function", "b", "c")])
    assert label[0].startswith("…aaa") and label[0].endswith("/file.py:12 function")
    assert len(label[0]) == stacks.LINE_LENGTH and label[1] == "< … 2 more frames"


@pytest.mark.parametrize("seed", range(1, 6))
def test_a_name_with_a_frame_of_its_own_has_a_label_of_its_own(seed):
    choose = random.Random(seed)
    names = {
        name_of(*(f"f{choose.randrange(9)}.py:1 g" for _ in range(choose.randrange(1, 6))))
        for _ in range(10)
    }
    labels = [tuple(label) for label in stacks.labels_of(sorted(names))]
    for name, label in zip(sorted(names), labels, strict=True):
        assert all(len(line) <= stacks.LINE_LENGTH for line in label)
        others = {frame for other in names - {name} for frame in other.split(stacks.SEPARATOR)}
        if set(name.split(stacks.SEPARATOR)) - others:
            assert labels.count(label) == 1, f"seed {seed}"


def test_an_absurdly_long_name_says_what_is_left_out():
    assert stacks.whole_name("x" * 16_384) == "x" * 16_384
    assert stacks.whole_name("x" * 20_000).endswith("x… 3,616 more characters")


def test_a_report_has_the_whole_stacks_of_a_recording():
    if not (DATA / "gpt.pickle.gz").exists():
        pytest.skip("the recordings are not there")
    trace = quarry.read_trace(DATA / "gpt.pickle.gz")
    made = page.page_data(content.make_content(trace))
    names, labels = made["blocks"]["names"], made["groups"]["labels"]
    assert set(names) == {trace.call_sites[site] for site in trace.call_site[trace.kind == 0]}
    assert (
        sum("workload.py" in name[240:] and "workload.py" not in name[:240] for name in names) >= 7
    )
    assert len({tuple(label) for label in labels}) == len(labels) == 10


def test_call_sites_beyond_the_limit_are_those_of_the_fewest_blocks(trace, monkeypatch):
    monkeypatch.setattr(page, "MAX_NAMES", 3)
    made = page.page_data(content.make_content(trace))["blocks"]
    allocations = trace.call_site[trace.kind == quarry.Kind.ALLOCATE].tolist()
    counts = sorted((allocations.count(site) for site in range(1, 8)), reverse=True)
    assert [allocations.count(trace.call_sites.index(name)) for name in made["names"]] == counts[:3]


def test_a_summary_says_how_many_phases_are_marked():
    columns = {"kind": [quarry.Kind.PHASE] * 300 + [quarry.Kind.ALLOCATE]}
    columns["address"] = columns["size"] = [0] * 300 + [64]
    summary = dict(content.make_content(quarry.make_trace(columns)).summary)
    assert summary["phases"] == "300; the first 200 are marked"
