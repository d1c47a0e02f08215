from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from decimal import ROUND_HALF_DOWN, ROUND_HALF_UP, Decimal
from pathlib import Path

import numpy as np
import pytest
from case_tables import literals, table
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal as message

from harness.io import checks
from harness.io.files import sha256
from harness.papers.cells import HEADER, KINDS, PublishedCell, judge, read_cells
from harness.papers.paper import load_paper, paper_names
from harness.papers.reproduce import recompute_paper
from harness.scoring.protocol import Protocol
from harness.scoring.scores import Scores, pooled

Tiny = Callable[..., str]
# How many cells of the papers without archived runs need a resource, are not implemented, and are blocked.
LACKING = {"mathamr-plus": (306, 0, 0), "mirmu-msm": (295, 0, 0), "mathlib4": (172, 0, 11), "saber-math": (24, 0, 9)}


# Verdicts


@pytest.mark.parametrize(("printed", "value", "verdict"), table("papers/verdicts"))
def test_verdicts(printed: str, value: str, verdict: str) -> None:
    assert judge(printed, float(value)) == verdict


@given(st.integers(0, 10_000), st.integers(0, 5), st.integers(-40, 40), st.sampled_from([0, 0, 1, -1]))
def test_exact_is_what_rounds_to_the_printed_digits_either_way(
    number: int, digits: int, tenths: int, nudge: int
) -> None:
    """Values on a grid of a tenth of the last digit, and a little beside it."""
    unit = Decimal(1).scaleb(-digits)
    printed = number * unit
    value = printed + tenths * unit / 10 + nudge * unit / 1000
    roundings = {value.quantize(unit, rounding) for rounding in (ROUND_HALF_UP, ROUND_HALF_DOWN)}
    expected = "exact" if printed in roundings else "close" if abs(value - printed) <= 2 * unit else "differs"
    assert judge(f"{printed:.{digits}f}", float(value)) == expected


# Cells


def row(**changed: str) -> str:
    values = dict.fromkeys(HEADER, "") | {"paper": "p", "table": "1", "metric": "m", "value": "0.5"} | changed
    return ",".join(values[name] for name in HEADER) + "\n"


HEAD = ",".join(HEADER) + "\n"


def test_a_cell() -> None:
    text = HEAD + row(std=".010", significant="1", baseline="1", caption='"a, b"', group="g", system="s", slice="x")
    (cell,) = read_cells(("\ufeff" + text.replace("\n", "\r\n")).encode(), "f")
    assert cell == PublishedCell("p", "1", "a, b", "s", "g", "", "", "x", "m", "", "0.5", ".010", True, True, "")
    assert cell.place == "Table 1, g, s, x, m"
    assert replace(cell, table="figure 2", slice="").place == "figure 2, g, s, m"


def test_significance_that_was_not_tested_is_none() -> None:
    cells = read_cells((HEAD + row() + row(significant="0", table="2")).encode(), "f")
    assert [cell.significant for cell in cells] == [None, False]
    assert not any(cell.baseline for cell in cells)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a,b\n", f"f:1: header is 'a,b', expected '{HEAD.strip()}'"),
        (HEAD + row() + "\n", "f:3: 0 columns, expected 15"),
        *(
            (HEAD + row(value=value), f"f:2: value '{value}' is not a decimal number such as 0.259")
            for value in ("high", "", "nan", "1e-3", "0.5*")
        ),
        (HEAD + row(std="±0.1"), "f:2: std '±0.1' is not a decimal number such as 0.259"),
        (HEAD + row(significant="yes"), "f:2: significant is 'yes', expected 1, 0 or nothing"),
        (HEAD + row(baseline="2"), "f:2: baseline is '2', expected 1, 0 or nothing"),
        # The line on which a row begins, also after one that goes on over two lines.
        (HEAD + row(caption='"a\nb"') + row(value="x"), "f:4: value 'x' is not a decimal number such as 0.259"),
        (HEAD + row() + row(value="0.6"), "f:3: this cell (Table 1, m) occurs on an earlier line"),
        (HEAD + row(caption='"a'), "f:2: not CSV: unexpected end of data"),
    ],
)
def test_faults_of_cells_name_the_line(text: str, fault: str) -> None:
    assert message(lambda: read_cells(text.encode(), "f")) == fault


def test_bytes_that_are_no_utf8_are_a_fault() -> None:
    assert message(lambda: read_cells(HEAD.encode() + b"p,\xe9\n", "f")) == "f:2: byte 0xe9 is not UTF-8 text"


def test_the_cells_of_crossmath_are_all_there() -> None:
    cells = load_paper("crossmath").cells
    assert Counter(cell.table for cell in cells) == {"1": 12, "2": 24, "3": 24, "4": 24, "5": 24, "text": 2}
    assert sum(cell.baseline for cell in cells) == 12
    assert set(paper_names()) == {"crossmath", *LACKING}


@pytest.mark.parametrize("key", LACKING)
def test_every_cell_of_the_other_papers_has_a_state_with_a_reason(key: str) -> None:
    paper = load_paper(key)
    found = recompute_paper(paper)
    assert [verdict.cell for verdict in found.verdicts] == list(paper.cells)
    assert {cell.paper for cell in paper.cells} == {key}
    counts = {kind: found.count(kind) for kind in KINDS[-3:]}
    assert tuple(counts.values()) == LACKING[key]
    assert sum(counts.values()) == len(paper.cells)
    assert all(len(verdict.cause) > 20 for verdict in found.verdicts)
    assert all(verdict.value is None for verdict in found.verdicts)
    said = zip(counts.values(), ("need a resource", "not implemented", "blocked"), strict=True)
    assert found.line.endswith(" exact, " + ", ".join(f"{count} {words}" for count, words in said if count))
    assert paper.files() == []
    assert paper.state() == paper.config.state
    assert checks.state(paper.state(), key)[0] in KINDS[-3:]


def test_the_reason_can_depend_on_the_table_and_the_measure() -> None:
    verdicts = recompute_paper(load_paper("mathamr-plus")).verdicts
    causes = {(verdict.cell.table, verdict.cell.system): verdict.cause for verdict in verdicts}
    assert causes["4.19", "MSM / Ensemble RRF"].startswith("the submitted runs of ARQMath-3 (manual download from the ")
    others = [why for (table, row), why in causes.items() if table in ("4.19", "4.21") and row[:4] != "Ours"]
    assert not any("MathAMR+" in why or "AMR parser" in why for why in others)
    assert causes["4.19", "Ours / MathAMR+"].startswith("the weights of a transition AMR parser")
    bpref = [verdict.cause for verdict in verdicts if verdict.cell.metric == "bpref"]
    assert bpref
    assert all("the harness has trec_eval's, min(R, N)" in cause for cause in bpref)
    assert not any("min(R, N)" in verdict.cause for verdict in verdicts if verdict.cell.metric == "p10_prime")


# A whole paper


def test_a_paper_is_recomputed(tiny: Tiny) -> None:
    paper = load_paper(tiny())
    assert paper.state() == "here"
    assert len(paper.files()) == 6 + 4
    found = recompute_paper(paper)
    verdicts = {(v.cell.system, v.cell.collection, v.cell.metric): v for v in found.verdicts}
    assert {place: (v.verdict, v.value if v.value is None else round(v.value, 9)) for place, v in verdicts.items()} == {
        ("Base", "c1", "p2"): ("exact", 0.5),
        ("Base", "c1", "rr"): ("exact", round(5 / 6, 9)),
        ("Short", "c1", "p2"): ("close", 0.5),
        ("Short", "c1", "rr"): ("differs", round(2 / 3, 9)),
        ("Base", "c2", "rr"): ("exact", round(2 / 3, 9)),
        ("Absent", "c1", "p2"): ("needs", None),
        ("Base", "c1", "map"): ("needs", None),
        ("Base", "c1", "seconds"): ("blocked", None),
        ("Tied", "", "rr"): ("exact", 0.5),
    }
    assert found.line == (
        "tiny: 3 of 8 table cells exact, 1 of 1 values of its text exact, "
        "1 close, 1 differs, 2 need a resource, 1 blocked"
    )
    assert [found.count(kind) for kind in KINDS] == [4, 1, 0, 1, 2, 0, 1]
    causes = {place: verdict.cause for place, verdict in verdicts.items()}
    assert causes["Absent", "c1", "p2"] == "an archived run"
    assert causes["Base", "c1", "map"] == "an archived run; the paper divides by something else"
    assert causes["Base", "c1", "seconds"] == "times of another machine"
    assert causes["Tied", "", "rr"] == "the topic is not printed; T1 fits"
    base = verdicts["Base", "c2", "rr"]
    made = (base.run, base.collection, base.edition, base.protocol, base.measure, base.n, base.cause)
    assert made == ("base-run", "tiny-2", "first", "tiny", "RR", 3, "")
    assert verdicts["Tied", "", "rr"].n == 1
    assert verdicts["Tied", "", "rr"].run == "tied-run"


def fault_of(tiny: Tiny, folder: Path, *arguments: str, **more: tuple[str, str]) -> str:
    """What is wrong with the configuration, or with what is recomputed by it."""
    line = message(lambda: recompute_paper(load_paper(tiny(*arguments, **more))))
    return line.removeprefix(f"{folder / 'user-conf' / 'paper' / 'tiny.yaml'}: ")


def test_a_run_with_a_topic_of_no_collection_is_refused(tiny: Tiny) -> None:
    paper = load_paper(tiny(files={"runs/base_1.txt": "T1 Q0 d1 1 1 x\nT9 Q0 d1 1 1 x\n"}))
    assert message(lambda: recompute_paper(paper)).endswith(
        "base_1.txt:2: topic 'T9' is not among the collection's topics"
    )


def test_a_file_that_cannot_be_had_is_an_error(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    paper = load_paper(tiny())
    monkeypatch.delenv("HARNESS_MIRROR")
    assert paper.state() == "fetchable"
    assert message(lambda: recompute_paper(paper)).startswith(
        "someone/runs@abababa/runs/base_1.txt: HARNESS_OFFLINE forbids"
    )


@pytest.mark.parametrize(("extra", "fault"), literals("papers/other_faults"))
def test_faults_of_other_parts(tiny: Tiny, tmp_path: Path, extra: str, fault: str) -> None:
    assert fault_of(tiny, tmp_path, extra + "\n") == fault


@pytest.mark.parametrize(("old", "new", "fault"), literals("papers/archive_faults"))
def test_faults_of_an_archive(tiny: Tiny, tmp_path: Path, old: str, new: str, fault: str) -> None:
    assert fault_of(tiny, tmp_path, change=(old, new)) == fault


STATES = 'states: {"2": "blocked: times of another machine"}'
EXPECTED = "expected one line: 'blocked: WHY', 'not implemented: WHY' or 'needs WHAT'"


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('"needs an archived run"', "x", f"key 'state' is 'x', {EXPECTED}"),
        ('"needs an archived run"', "[needs a]", f"key 'state' is ['needs a'], {EXPECTED}"),
        (STATES, "states: x", "key 'states' is 'x', expected keys and values"),
        (STATES, 'states: {"2": x}', f"states: 2: key 'state' is 'x', {EXPECTED}"),
        (STATES, 'states: {"3": needs x}', "states: table '3' is unknown; known: 1, 2, text"),
        (STATES, "states: {2: needs x}", "states: table 2 is unknown; did you mean '2'?"),
        (STATES, 'blocked_tables: {"2": x}', "key 'blocked_tables' is unknown; known: "),
    ],
)
def test_faults_of_states(tiny: Tiny, tmp_path: Path, old: str, new: str, fault: str) -> None:
    assert fault_of(tiny, tmp_path, change=(old, new)).startswith(fault)


def test_a_paper_without_an_archive_needs_a_state(conf: Callable[[str, str, str], Path]) -> None:
    path = conf("paper", "mine", "key: mine\ntitle: Mine\n")
    (path.parent / "cells").mkdir()
    (path.parent / "cells" / "mine.csv").write_text(",".join(HEADER) + "\n")
    assert message(lambda: load_paper("mine")) == f"{path}: key 'state' is None, {EXPECTED}"


def test_a_paper_needs_its_cells(conf: Callable[[str, str, str], Path]) -> None:
    path = conf("paper", "mine", "key: mine\ntitle: Mine\n")
    assert message(lambda: load_paper("mine")) == f"{path.parent / 'cells' / 'mine.csv'}: no such file"
    assert "mine" not in paper_names()


# Pooling


PLAIN = Protocol("plain", ("P@1", "RR"))


def scores_of(collection: str, topics: str, values: list[list[float]], run: str = "r") -> Scores:
    return Scores(
        run, collection, "first", PLAIN, ("P@1", "RR"), tuple(topics.split()), np.array(values), f"q-{collection}", "f"
    )


def test_pooled_scores_stand_side_by_side() -> None:
    one = scores_of("c1", "T1 T2", [[1.0, 0.5], [0.0, 0.25]])
    two = scores_of("c2", "U1", [[float("nan"), 0.0]])
    both = pooled([one, two])
    assert both.topics == ("T1", "T2", "U1")
    assert both.mean("P@1") == 0.5
    assert (both.n("P@1"), both.n("RR")) == (2, 3)
    assert both.mean("RR") == 0.25
    assert (both.run, both.collection, both.edition) == ("r", "c1 + c2", "first + first")
    assert both.qrels_sha256 == sha256(b"q-c1q-c2")
    assert both.run_sha256 == sha256(b"ff")
    assert both.counts == {}
    assert pooled([one]).values.tolist() == one.values.tolist()


def test_scores_that_are_unlike_are_not_pooled() -> None:
    one, two = scores_of("c1", "T1", [[1.0, 0.5]]), scores_of("c2", "U1", [[1.0, 0.5]])
    fault = "run r: scores of unlike runs or of shared topics cannot be pooled"
    assert message(lambda: pooled([one, replace(two, run="s")])) == fault
    assert message(lambda: pooled([one, replace(two, measures=("P@1", "RR@2"))])) == fault
    assert message(lambda: pooled([one, replace(two, protocol=replace(PLAIN, depth=5))])) == fault
    assert message(lambda: pooled([one, replace(two, topics=("T1",))])) == fault
