"""The figures: valid XML that holds only drawings, positions that follow the numbers, n/a where there is none."""

from __future__ import annotations

import itertools
import math
import re
import statistics
import xml.etree.ElementTree as ET
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_tools import examples

from harness.errors import HarnessError
from harness.render import figures, svg
from harness.render.model import visible

NAN = float("nan")
SPACE = f"{{{svg.NAMESPACE}}}"
HOSTILE = "</text><script>alert(1)</script>\"' onload=x &bogus; url(http://x) \u202e\x00 ]]>"

Draw = Callable[[str, float], str]
DRAWINGS: dict[str, Draw] = {
    "dot_interval": lambda label, x: figures.dot_interval(
        [(label, x, x - 0.1, x + 0.2, True), ("b", 1, 0, 2, False)], label
    ),
    "distribution": lambda label, x: figures.distribution([(label, [x, 0.1, 0.7]), ("b", [0.5])], label),
    "grouped_bars": lambda label, x: figures.grouped_bars([label, "g"], [label, "s"], [[x, 0.2], [0.1, -0.4]], label),
    "p_value_matrix": lambda label, x: figures.p_value_matrix([label, "b"], [[NAN, x], [x, NAN]], label),
    "scatter": lambda label, x: figures.scatter([(label, x, 0.5), ("b", 1, 0.7)], label, label),
    "stars": lambda label, x: figures.stars([(label, label, "k", x, 0.5), ("b", label, label, 1, x)], label),
    "curves": lambda label, x: figures.curves([(label, [(x, 0.5), (1, x)]), ("b", [(1, 0.7)])], label, label),
}
EMPTY = {
    "dot_interval": figures.dot_interval([], "x"),
    "distribution": figures.distribution([]),
    "grouped_bars": figures.grouped_bars([], [], [], "y"),
    "p_value_matrix": figures.p_value_matrix([], []),
    "scatter": figures.scatter([], "x", "y"),
    "stars": figures.stars([], "x"),
    "curves": figures.curves([], "x", "y"),
}


def parse(drawing: str) -> ET.Element:
    assert svg.check(drawing, "test") == drawing
    return ET.fromstring(drawing)  # noqa: S314 - our own drawing


def texts(root: ET.Element) -> list[str]:
    return [node.text or "" for node in root.iter(f"{SPACE}text")]


def tips(root: ET.Element, tag: str) -> list[str]:
    return [title.text or "" for node in root.iter(f"{SPACE}{tag}") for title in node.findall(f"{SPACE}title")]


@pytest.mark.parametrize("name", DRAWINGS)
def test_hostile_labels_stay_text(name: str) -> None:
    root = parse(DRAWINGS[name](HOSTILE, 0.5))
    assert not list(root.iter("script"))
    everything = " ".join("".join(node.itertext()) for node in root.iter() if node.tag != f"{SPACE}style")
    assert visible(HOSTILE) in everything
    assert "\u202e" not in everything


@pytest.mark.parametrize("name", DRAWINGS)
def test_drawings_name_and_describe_themselves(name: str) -> None:
    root = parse(DRAWINGS[name]("label", 0.5))
    assert root.attrib["role"] == "img"
    title, description = root.attrib["aria-labelledby"].split()
    found = {node.attrib.get("id"): node.text for node in root}
    assert found[title]
    assert found[description]
    assert root.attrib["viewBox"].startswith("0 0 680 ")


@pytest.mark.parametrize("name", DRAWINGS)
def test_the_same_values_give_the_same_bytes_and_other_values_other_ids(name: str) -> None:
    draw = DRAWINGS[name]
    assert draw("a", 0.5) == draw("a", 0.5)
    first, second = (set(re.findall(r' id="([^"]+)"', draw("a", x))) for x in (0.5, 0.004))
    assert first
    assert not first & second


@pytest.mark.parametrize("name", DRAWINGS)
def test_missing_values_are_said_to_be_missing(name: str) -> None:
    root = parse(DRAWINGS[name]("a", NAN))
    assert any("n/a" in content for content in texts(root)) or "n/a" in (root.findtext(f"{SPACE}desc") or "")


@pytest.mark.parametrize("name", EMPTY)
def test_nothing_to_draw_is_still_a_drawing(name: str) -> None:
    parse(EMPTY[name])


@settings(max_examples=examples(150), deadline=None)
@given(name=st.sampled_from(sorted(DRAWINGS)), label=st.text(max_size=30), value=st.floats())
def test_no_value_or_label_breaks_a_drawing(name: str, label: str, value: float) -> None:
    root = parse(DRAWINGS[name](label, value))
    for node in root.iter():
        for key in ("x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "width", "height", "d"):
            assert not re.search("nan|inf", node.attrib.get(key, "")), (node.tag, key)


@settings(max_examples=examples(300), deadline=None)
@given(st.floats(-1e100, 1e100), st.floats(-1e100, 1e100))
def test_ticks_rise_and_cover_the_values(a: float, b: float) -> None:
    low, high = min(a, b), max(a, b)
    marks = svg.ticks(low, high)
    assert 2 <= len(marks) <= 12
    assert all(x < y for x, y in itertools.pairwise(marks))
    slack = 1e-6 * (marks[-1] - marks[0])
    assert marks[0] <= low + slack
    assert marks[-1] >= high - slack


@settings(max_examples=examples(300), deadline=None)
@given(st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6))
def test_whole_ticks_have_no_fractions(a: int, b: int) -> None:
    low, high = min(a, b), max(a, b)
    marks = svg.ticks(low, high, whole=True)
    assert 2 <= len(marks) <= 12
    assert all(mark.is_integer() for mark in marks)
    assert marks[0] <= low <= high <= marks[-1]


def test_a_curve_over_whole_numbers_has_whole_ticks() -> None:
    lines = [("", [(1.0, 0.25), (2.0, 0.5), (3.0, 0.75)])]
    assert [t for t in texts(parse(figures.curves(lines, "k", "y"))) if re.fullmatch(r"[0-3](\.0)?", t)] == [
        "1",
        "2",
        "3",
    ]
    halves = [("", [(1.0, 0.25), (2.5, 0.5), (3.0, 0.75)])]
    assert {"1.0", "1.5", "3.0"} <= set(texts(parse(figures.curves(halves, "k", "y"))))


def test_a_curve_goes_through_its_points_from_left_to_right() -> None:
    root = parse(figures.curves([("a", [(3, 0.3), (1, 0.1), (2, NAN), (4, 0.2)]), ("b", [(1, 0.2)])], "k", "y"))
    (path,) = (n.attrib["d"] for n in root.iter(f"{SPACE}path") if n.attrib.get("fill") == "none")
    xs, ys = zip(*(map(float, at.split()) for at in path[1:].split("L")), strict=True)
    assert list(xs) == sorted(xs)
    assert (xs[1] - xs[0]) == pytest.approx(2 * (xs[2] - xs[1]), abs=0.02)
    assert ys[0] > ys[2] > ys[1]
    assert tips(root, "circle") == ["a: k 1, y 0.1", "a: k 3, y 0.3", "a: k 4, y 0.2"]
    # The legend's marker and the one point: a diamond.
    assert tips(root, "path") == ["b: k 1, y 0.2"]
    assert {"a", "b"} <= set(texts(root))


def test_curves_that_could_not_be_told_apart_are_refused() -> None:
    with pytest.raises(HarnessError, match="7 series, at most 6"):
        figures.curves([(str(n), [(1, 1)]) for n in range(7)], "x", "y")
    drawn = figures.curves([(str(n), [(1, n)]) for n in range(6)], "x", "y")
    shapes = re.findall(r'<(circle|rect|path)[^>]* class="(?:f|(paper) s)([0-5])"', drawn)
    for series in "012345":  # in the legend and at the point
        assert len([shape for shape in shapes if shape[2] == series]) == 2
    assert len({shape[:2] for shape in shapes}) == 6


def test_stars_join_points_to_the_middle_of_their_group() -> None:
    points = [
        ("a", "1", "x", 0.0, 0.0),
        ("b", "1", "y", 2.0, 4.0),
        ("c", "2", "x", 1.0, 8.0),
        ("d", "2", "x", NAN, 0.0),
    ]
    root = parse(figures.stars(points, "queries"))
    assert {"x", "y", "1", "2", "n/a: 1"} <= set(texts(root))
    assert tips(root, "circle") == ["a: x, group 1", "c: x, group 2"]
    assert tips(root, "path") == ["b: y, group 1"]
    ends = [{key: float(node.attrib[key]) for key in ("x1", "y1", "x2", "y2")} for node in root.iter(f"{SPACE}line")]
    first, second, alone = ends
    assert (first["x2"], first["y2"]) == (second["x2"], second["y2"])
    assert first["x2"] == pytest.approx((first["x1"] + second["x1"]) / 2, abs=0.02)
    assert (alone["x1"], alone["y1"]) == (alone["x2"], alone["y2"])
    assert first["y1"] > second["y1"] > alone["y1"]  # y grows upwards
    with pytest.raises(HarnessError, match="7 kinds, at most 6"):
        figures.stars([("", "", str(n), 0, 0) for n in range(7)], "x")


@pytest.mark.parametrize(("low", "high"), [(0.1, 0.3), (-0.3, -0.1), (-0.1, 0.2)])
def test_differences_have_a_line_at_zero(low: float, high: float) -> None:
    root = parse(figures.dot_interval([("a", (low + high) / 2, low, high, False)], "x"))
    (zero,) = (node.attrib for node in root.iter(f"{SPACE}line") if node.attrib["class"] == "zero")
    assert zero["x1"] == zero["x2"]
    (span,) = (
        n.attrib for n in root.iter(f"{SPACE}line") if n.attrib["class"] == "s0" and n.attrib["y1"] == n.attrib["y2"]
    )
    left, right, at = float(span["x1"]), float(span["x2"]), float(zero["x1"])
    assert at == pytest.approx(left + (0 - low) / (high - low) * (right - left), abs=0.05)


def test_tick_labels_have_the_decimals_of_their_step() -> None:
    marks = svg.ticks(0, 1)
    assert [svg.tick_label(mark, marks) for mark in marks] == ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]
    marks = svg.ticks(-0.05, 0.05)
    assert svg.tick_label(marks[0], marks) == "−0.06"
    marks = (0.2, 0.225, 0.25)
    assert svg.tick_label(0.225, marks) == "0.225"


def test_means_and_intervals_stand_where_the_axis_says() -> None:
    root = parse(figures.dot_interval([("a", 0.2, 0.1, 0.3, False), ("b", 0.4, 0.3, 0.5, False)], "x"))
    first, second = [float(node.attrib["cx"]) for node in root.iter(f"{SPACE}circle")]
    spans = [node.attrib for node in root.iter(f"{SPACE}line") if node.attrib["class"] == "s0"]
    flat = [span for span in spans if span["y1"] == span["y2"]]
    assert [float(span["x1"]) for span in flat] == pytest.approx(
        [2 * first - float(flat[0]["x2"]), first + (second - first) / 2], abs=0.02
    )
    assert "0.400 [0.300, 0.500]" in texts(root)


def test_a_highlighted_row_differs_in_shape_and_weight() -> None:
    root = parse(figures.dot_interval([("a", 0.2, 0.1, 0.3, True), ("b", 0.4, 0.3, 0.5, False)], "x"))
    assert len(list(root.iter(f"{SPACE}circle"))) == 1
    assert len(list(root.iter(f"{SPACE}path"))) == 1
    assert [node.attrib["class"] for node in root.iter(f"{SPACE}text") if node.text == "a"] == ["big"]


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=40))
def test_boxes_stand_on_the_quartiles(values: list[float]) -> None:
    root = parse(figures.distribution([("a", values)]))
    low, middle, high = statistics.quantiles(values, method="inclusive")
    shown = [f"{value:.3f}".replace("-", "−") for value in (low, middle, high, math.fsum(values) / len(values))]
    hint = next(tip for tip in tips(root, "rect") if tip.startswith("a: "))
    found = [float(number.replace("−", "-")) for number in re.findall(r"−?\d+\.\d{3}", hint)]
    assert found == pytest.approx([float(number.replace("−", "-")) for number in shown], abs=0.0011)
    assert len(list(root.iter(f"{SPACE}circle"))) == len(values)


def test_series_of_bars_differ_in_hatching_and_too_many_are_refused() -> None:
    root = parse(figures.grouped_bars(["g"], list("abcdef"), [[0.1] * 6], "y"))
    fills = [node.attrib.get("fill", "solid") for node in root.iter(f"{SPACE}rect") if node.findall(f"{SPACE}title")]
    assert len(set(fills)) == 6
    patterns = {node.attrib["id"] for node in root.iter(f"{SPACE}pattern")}
    assert {fill.removeprefix("url(#").removesuffix(")") for fill in fills} - {"solid"} == patterns
    with pytest.raises(HarnessError, match="7 series, at most 6"):
        figures.grouped_bars(["g"], list("abcdefg"), [[0.1] * 7], "y")
    with pytest.raises(HarnessError, match="expected 1 rows of 2 values"):
        figures.grouped_bars(["g"], ["a", "b"], [[0.1]], "y")


def test_p_values_are_written_and_shaded_by_level() -> None:
    p = [[NAN, 0.0004, 0.2], [0.0004, NAN, 0.03], [0.2, 0.03, NAN]]
    root = parse(figures.p_value_matrix(["a", "b", "c"], p))
    assert {"<.001", ".200", ".030"} <= set(texts(root))
    shades = {
        node.attrib["class"]: node.attrib["d"].count("M")
        for node in root.iter(f"{SPACE}path")
        if "class" in node.attrib
    }
    assert (shades["l3 rule"], shades["l1 rule"], shades["paper rule"]) == (2, 2, 2)
    assert root.findtext(f"{SPACE}desc") == "a and b: <.001; b and c: .030"
    with pytest.raises(HarnessError, match="expected 2 rows of 2 p values"):
        figures.p_value_matrix(["a", "b"], [[1.0, 0.5]])


@pytest.mark.parametrize(
    ("p", "shade", "shown"),
    [
        (0.05, "paper", ".050"),
        (0.0499, "l1", ".050"),
        (0.01, "l1", ".010"),
        (0.0099, "l2", ".010"),
        (0.001, "l2", ".001"),
        (0.00099, "l3", "<.001"),
        (0.0, "l3", "<.001"),
        (1.0, "paper", "1.000"),
    ],
)
def test_a_level_begins_below_its_bound(p: float, shade: str, shown: str) -> None:
    root = parse(figures.p_value_matrix(["a", "b"], [[NAN, p], [p, NAN]]))
    shades = [
        node.attrib["class"] for node in root.iter(f"{SPACE}path") if node.attrib.get("class", "").endswith(" rule")
    ]
    assert shades == [f"{shade} rule"]
    assert texts(root).count(shown) == 2


def test_a_matrix_of_sixty_runs_stays_small() -> None:
    names = [f"run {index}" for index in range(60)]
    drawing = figures.p_value_matrix(names, [[0.01] * 60 for _ in names])
    assert len(parse(drawing)) > 0
    assert len(drawing) < 200_000


def test_points_are_placed_and_their_labels_do_not_cover_each_other() -> None:
    points = [(f"system {index}", float(index % 7), float(index % 5)) for index in range(30)]
    root = parse(figures.scatter([*points, ("lost", NAN, 1.0)], "cost", "nDCG"))
    places = {tip.split(":")[0]: node for node in root.iter(f"{SPACE}circle") for tip in [node[0].text or ""]}
    assert float(places["system 6"].attrib["cx"]) > float(places["system 1"].attrib["cx"])
    assert float(places["system 4"].attrib["cy"]) < float(places["system 1"].attrib["cy"])
    assert "n/a: lost" in texts(root)
    boxes = []
    for node in root.iter(f"{SPACE}text"):
        if (node.text or "").startswith("system"):
            x, y = float(node.attrib["x"]), float(node.attrib["y"])
            boxes.append((x, y - 11, x + svg.text_width(node.text or ""), y + 3))
    assert boxes
    for index, one in enumerate(boxes):
        for other in boxes[:index]:
            assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


def test_long_labels_keep_both_ends() -> None:
    clipped = svg.clip("approach0-long-run-name-primary", 120)
    assert clipped.startswith("appr")
    assert clipped.endswith("ary")
    assert svg.text_width(clipped) <= 130
    assert svg.clip("short", 120) == "short"


GOOD = figures.dot_interval([("a", 0.2, 0.1, 0.3, False)], "x")


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("", "not XML"),
        ("<p>x</p>", "element 'p'"),
        (GOOD.replace("<desc", "<script>1</script><desc", 1), "element 'script'"),
        (GOOD.replace("<desc", "<image href='x'/><desc", 1), "element 'image'"),
        (GOOD.replace("<desc", "<svg/><desc", 1), "element 'svg'"),
        (GOOD.replace("<circle", '<circle onclick="x"', 1), "attribute 'onclick'"),
        (GOOD.replace("<circle", '<circle style="fill:red"', 1), "attribute 'style'"),
        (GOOD.replace("<circle", '<circle fill="url(http://x/#a)"', 1), "attribute 'fill'"),
        (GOOD.replace("<style>", "<style>@import 'x';", 1), "its style is not"),
        ("<!DOCTYPE svg>" + GOOD, "has a declaration"),
        (GOOD.replace("<desc", "<!-- x --><desc", 1), "has a declaration"),
        ('<?xml version="1.0"?>' + GOOD, "has a declaration"),
    ],
)
def test_svg_of_others_is_refused(broken: str, message: str) -> None:
    with pytest.raises(HarnessError, match=message) as caught:
        svg.check(broken, "fig")
    assert str(caught.value).startswith("figure fig: ")


LONG = [
    *(
        f"reranker-{model} trained on ARQMath-{n} answers, random"
        for model in ("mathberta-large", "mpnet")
        for n in (1, 2)
    ),
    "ApproachZero_structure_search_and_Anserini_bm25_fusion_the-second-manual-run",
    "differential-equations",
]


@pytest.mark.parametrize("kind", sorted(DRAWINGS.keys() - {"scatter", "stars"}))
def test_no_label_of_a_row_group_or_legend_loses_its_middle(kind: str) -> None:
    drawing = {
        "dot_interval": figures.dot_interval([(label, 1, 0, 2, True) for label in LONG], "x"),
        "distribution": figures.distribution([(label, [1, 2]) for label in LONG]),
        "grouped_bars": figures.grouped_bars(LONG, LONG, [[1.0] * 6] * 6, "y"),
        "p_value_matrix": figures.p_value_matrix(LONG, [[0.5] * 6] * 6),
        "curves": figures.curves([(label, [(1, 0.5)]) for label in LONG], "x", "y"),
    }[kind]
    shown = "".join(texts(parse(drawing))).replace(" ", "")
    assert [label for label in LONG if label.replace(" ", "") not in shown] == []
    assert "\N{HORIZONTAL ELLIPSIS}" not in shown


@given(st.lists(st.text(min_size=1, max_size=60), min_size=1, max_size=4), st.floats(60, 400))
@settings(max_examples=examples(100))
def test_wrapped_labels_fit(labels: list[str], width: float) -> None:
    for label in svg.shorten(labels, width):
        lines = svg.wrap(label, width)
        assert len(lines) <= 4
        assert all(svg.text_width(line) <= width or len(line) <= 3 for line in lines)
