from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from refusals import refusal as message

from harness.collections.corpora import load_corpus
from harness.collections.files import accept, by_hand
from harness.collections.forms import checks
from harness.collections.load import load_collection
from harness.collections.readers import ntcir
from harness.data.topics import Formula, Topic
from harness.data.trec import Run
from harness.papers.mathlib4 import readers as leansearch
from harness.scoring.protocol import load_protocol
from harness.scoring.scorer import score_run

Conf = Callable[[str, str, str], Path]
GROUP: dict[str, Any] = {
    "group": "1",
    "queries": [
        {"form": "natural description", "query": "If $A$ embeds into $B$ and back, they are equivalent."},
        {"form": "theorem name", "query": "Schroeder Bernstein Theorem"},
    ],
    "theorems": {"Embedding.schroeder_bernstein": 2, "Embedding.antisymm": 1, "Nat.succ": 0},
}


def groups(count: int = leansearch.GROUPS) -> list[dict[str, Any]]:
    """A benchmark of the size of the paper's: each form as often as it has it, one query of some form in each group."""
    forms = [form for form, number in leansearch.FORMS.items() for _ in range(number)]
    out: list[dict[str, Any]] = [
        {"group": f"g{n}", "queries": [], "theorems": {f"Thm.t{n}": 2, "Thm.other": 0, f"Thm.near{n}": 1}}
        for n in range(count)
    ]
    for n, form in enumerate(forms):
        out[n % count]["queries"].append({"form": form, "query": f"query {n}"})
    return out


def write(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content, indent=1))
    return path


def test_queries_of_a_group_share_its_labels() -> None:
    data = json.dumps([GROUP]).encode()
    first, second = leansearch.read_topics(data, "f")
    assert first == Topic(
        "1.1",
        "If $A$ embeds into $B$ and back, they are equivalent.",
        formulas=(Formula("1.1.1", "A"), Formula("1.1.2", "B")),
        attributes={"group": "1", "form": "natural description"},
    )
    assert (second.id, second.attributes["form"]) == ("1.2", "theorem name")
    qrels = leansearch.read_qrels(data, "f", "paper")
    assert qrels.to_dict() == {"1.1": GROUP["theorems"], "1.2": GROUP["theorems"]}
    assert qrels.sha256 == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda g: g.pop("theorems"), "keys group, queries, expected group, queries, theorems"),
        (lambda g: g.update(more=1), "keys group, queries, theorems, more, expected group, queries, theorems"),
        (lambda g: g.update(group=1), "group 1 is not an id (text without blanks)"),
        (lambda g: g.update(group="a b"), "group 'a b' is not an id (text without blanks)"),
        (lambda g: g.update(queries=[]), "queries must be a list that is not empty"),
        (lambda g: g.update(queries={}), "queries must be a list that is not empty"),
        (lambda g: g["queries"][0].pop("form"), "a query must have the keys form and query"),
        (lambda g: g["queries"].append("x"), "a query must have the keys form and query"),
        (lambda g: g["queries"][0].update(form="latex"), "form 'latex' is unknown; "),
        (lambda g: g["queries"][0].update(query=" "), "a query is empty or no text"),
        (lambda g: g.update(theorems=["a"]), "theorems must be names with labels, one of them 2"),
        (lambda g: g.update(theorems={"a": 1}), "theorems must be names with labels, one of them 2"),
        (lambda g: g["theorems"].update({"a b": 1}), "theorem 'a b' is not a name of a declaration"),
        (lambda g: g["theorems"].update(a=3), "theorem 'a' has the label 3, expected 0, 1 or 2"),
        (lambda g: g["theorems"].update(a=True), "theorem 'a' has the label True, expected 0, 1 or 2"),
        (lambda g: g["theorems"].update(a=1.5), "theorem 'a' has the label 1.5, expected 0, 1 or 2"),
    ],
)
def test_faults_of_groups_name_the_line(change: Callable[[dict[str, Any]], object], fault: str) -> None:
    broken = deepcopy(GROUP)
    change(broken)
    data = f"[{json.dumps({**GROUP, 'group': '0'})},\n\n{json.dumps(broken)}]".encode()
    assert message(lambda: leansearch.read_topics(data, "f")).startswith(f"f:3: {fault}")
    assert message(lambda: leansearch.read_qrels(data, "f", "e")).startswith(f"f:3: {fault}")


def test_a_benchmark_that_is_brought(tmp_path: Path) -> None:
    collection = load_collection("leansearch")
    assert collection.state().startswith("manual download: ask its authors")
    assert "must be downloaded manually" in message(collection.qrels)
    brought = write(tmp_path / "anything.json", groups())
    kept = accept(brought, "leansearch")
    assert kept.read_bytes() == brought.read_bytes()
    collection = load_collection("leansearch")
    assert collection.state() == "here"
    qrels, topics = collection.qrels(), collection.topics()
    assert len(qrels.topics) == 50
    assert set(qrels.topics) == topics.ids()
    assert load_protocol(collection.protocol).gains == ((0.0, 0.0), (1.0, 0.3), (2.0, 1.0))
    # A second one takes the place of the first.
    accept(write(tmp_path / "second.json", groups()[::-1]), "leansearch")
    assert kept.read_bytes() == (tmp_path / "second.json").read_bytes()


def test_what_is_brought_is_checked(tmp_path: Path) -> None:
    short = write(tmp_path / "short.json", groups()[:-1])
    found = message(lambda: accept(short, "leansearch"))
    assert found.startswith(f"{short}: 17 groups with 17 natural description, ")
    assert found.endswith("expected 18 with 18 natural description, 15 latex formula, 7 theorem name, 10 lean 4 term")
    lacking = groups()
    assert lacking[0]["queries"].pop()["form"] == "theorem name"
    file = write(tmp_path / "lacking.json", lacking)
    assert "18 groups with 18 natural description, 15 latex formula, 6 theorem name, 10" in message(
        lambda: accept(file, "leansearch")
    )
    torn = tmp_path / "torn.json"
    torn.write_text(short.read_text()[:200])
    assert message(lambda: accept(torn, "leansearch")).startswith(f"{torn}:")
    assert message(lambda: accept(tmp_path / "none.json", "leansearch")) == f"{tmp_path / 'none.json'}: no such file"
    assert message(lambda: accept(tmp_path, "leansearch")) == f"{tmp_path}: is a folder, expected a file"
    assert load_collection("leansearch").state().startswith("manual download")


def test_sources_that_are_not_brought(tmp_path: Path) -> None:
    assert {source for source, _ in checks()} <= set(by_hand())
    assert "mathlib" in by_hand()
    assert "pya0" not in by_hand()
    file = write(tmp_path / "f", [])
    assert message(lambda: accept(file, "pya0")).startswith(
        "source 'pya0' is fetched, not downloaded manually; known: "
    )
    assert message(lambda: accept(file, "leansaerch")) == "source 'leansaerch' is unknown; did you mean 'leansearch'?"


def test_a_source_of_several_files_with_checksums(conf: Conf, tmp_path: Path) -> None:
    right = hashlib.sha256(b"right").hexdigest()
    conf(
        "source",
        "mine",
        "title: t\nlicence: l\nby_hand: ask\nfiles:\n"
        f"  in/a.txt: {{sha256: {right}, size: 5}}\n  in/b.txt: {{sha256: '', size: 0}}\n",
    )
    file = tmp_path / "c.txt"
    file.write_text("right")
    assert message(lambda: accept(file, "mine")) == (
        f"{file}: source 'mine' has the files in/a.txt, in/b.txt; name it as one of them"
    )
    good, bad = tmp_path / "a.txt", tmp_path / "more" / "a.txt"
    good.write_text("right")
    bad.parent.mkdir()
    bad.write_text("wrong")
    assert accept(good, "mine").read_text() == "right"
    wrong = hashlib.sha256(b"wrong").hexdigest()
    assert message(lambda: accept(bad, "mine")) == f"{bad}: expected sha256 {right} for in/a.txt of mine, found {wrong}"


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file")
    monkeypatch.setenv("HARNESS_CACHE", str(blocked))
    brought = write(tmp_path / "b.json", groups())
    found = message(lambda: accept(brought, "leansearch"))
    assert found == f"{blocked}/files/leansearch/benchmark.json: cannot be written: Not a directory"


def test_formulas_of_ntcir_that_are_brought(tmp_path: Path) -> None:
    file = tmp_path / "formulas.txt"
    file.write_text("A:1 x\nA:1 y\n")
    assert message(lambda: accept(file, "ntcir-12")) == f"{file}:2: document 'A:1' is on an earlier line already"
    file.write_text("\n")
    assert message(lambda: accept(file, "ntcir-12")) == f"{file}: no formulas found"
    file.write_text("A:1 x\nB:2 y\n")
    accept(file, "ntcir-12")
    assert list(load_corpus("ntcir-12-formulas").ids()) == ["A:1", "B:2"]


def test_posts_that_are_brought(tmp_path: Path) -> None:
    file = tmp_path / "Posts.xml"
    file.write_text("<posts></posts>")
    assert message(lambda: accept(file, "arqmath-posts")) == f"{file}: no posts found"
    file.write_text(
        '<posts>\n<row Id="1" PostTypeId="1" Title="t"/>\n<row Id="2" PostTypeId="2" ParentId="1" Body="b"/></posts>'
    )
    accept(file, "arqmath-posts")
    (document,) = load_corpus("arqmath-posts")
    assert (document.id, document.title, document.body) == ("2", "t", "b")


def test_topics_of_ntcir() -> None:
    data = b"NTCIR12-MathWiki-1\t-0.02\\ldots\n\nNTCIR12-MathWiki-21\t-0.\\qvar{*1*}\\ldots \n"
    first, second = ntcir.read_topics(data, "f")
    assert first == Topic(
        "NTCIR12-MathWiki-1",
        "$-0.02\\ldots$",
        formulas=(Formula("NTCIR12-MathWiki-1", "-0.02\\ldots"),),
        attributes={"kind": "concrete"},
    )
    assert second.attributes == {"kind": "wildcard"}
    assert message(lambda: ntcir.read_topics(data + b"X x\n", "f")) == "f:4: expected a topic id, a tab and LaTeX"
    assert message(lambda: ntcir.read_topics(data + b"X\t \n", "f")) == "f:4: expected a topic id, a tab and LaTeX"
    assert message(lambda: ntcir.read_topics(b"", "f")) == "f: no topics found"


def test_protocols_of_ntcir_count_from_three_and_from_one() -> None:
    full, partial = load_protocol("ntcir-12"), load_protocol("ntcir-12-partial")
    assert (full.relevant_from, partial.relevant_from) == (3, 1)
    assert full.measures[0] == partial.measures[0] == "Bpref"


def test_the_ideal_ranking_of_mathlib_is_of_all_labelled_theorems() -> None:
    """Found is one partly relevant theorem (gain .3); labelled are it and an exact match (gain 1)."""
    qrels = leansearch.read_qrels(json.dumps([GROUP]).encode(), "f", "paper")
    run = Run.from_dict("r", {"1.1": {"Embedding.antisymm": 1.0}, "1.2": {"Embedding.antisymm": 1.0}})
    assert load_collection("leansearch").protocol == load_collection("mini-theorems").protocol == "mathlib"
    scores = score_run(run, qrels, load_protocol("mathlib"))
    assert scores.column("nDCG@20").tolist() == [pytest.approx(0.3 / (1 + 0.3 / math.log2(3)))] * 2
    assert score_run(run, qrels, load_protocol("mathlib-retrieved")).mean("nDCG@20") == pytest.approx(1.0)
    ours, other = load_protocol("mathlib"), load_protocol("mathlib-retrieved")
    assert replace(other, name=ours.name, title=ours.title, ideal="judged") == ours
