"""Search for declarations: scores and mentions by hand, and what each parameter does."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from lexical_tools import found, message, rows_corpus, topics_of

from harness.collections.corpora import load_corpus
from harness.collections.corpus import Corpus
from harness.collections.load import load_collection
from harness.data.run_writers import write_run
from harness.io import config
from harness.store import artefacts
from harness.systems.base import Request
from harness.systems.build import build_system, load_system
from harness.systems.theorems.declarations import Declarations, mentions, mentions_of

FIELDS = ("name", "doc", "signature", "module")
WORDS = {"name": "declarations"}
Row = Mapping[str, str]


def library(folder: Path, rows: Sequence[Row], keep: Sequence[str] = FIELDS) -> Corpus:
    """Declarations as a corpus; their names are their ids."""
    full = [{"id": row["name"]} | {column: row.get(column, "") for column in keep} for row in rows]
    return rows_corpus(folder / "library.jsonl", full, "id", " ".join(keep))


def search(folder: Path, rows: Sequence[Row], query: str, **parameters: object) -> dict[str, float]:
    """Declaration -> score of one query, best first."""
    given: dict[str, Any] = {"view": WORDS, "prior": 0, **parameters}
    system = Declarations(**given)
    scores = found(system, topics_of(T=query), library(folder, rows), folder)["T"]
    return dict(sorted(scores.items(), key=lambda pair: -pair[1]))


# `sum` is in both, `even` in the name and the documentation of the first.
TWO = (
    {"name": "even_sum", "doc": "even sum even", "signature": "x"},
    {"name": "sum", "doc": "total", "signature": "even_sum"},
)
SETTINGS: dict[str, Any] = {"fields": {"name": 2, "doc": 0.5}, "b": {"name": 1, "doc": 0.4}, "k1": 1.5}


def test_the_score_of_two_documents_by_hand(tmp_path: Path) -> None:
    """Lengths of names are 2 and 1, of documentation 3 and 1."""
    even = 2 * 1 / (2 / 1.5) + 0.5 * 2 / (0.6 + 0.4 * 3 / 2)
    sum_first = 2 * 1 / (2 / 1.5) + 0.5 * 1 / (0.6 + 0.4 * 3 / 2)
    sum_second = 2 * 1 / (1 / 1.5)
    idf_even, idf_sum = math.log(1 + 1.5 / 1.5), math.log(1 + 0.5 / 2.5)
    first = idf_even * even / (even + 1.5) + idf_sum * sum_first / (sum_first + 1.5)
    second = idf_sum * sum_second / (sum_second + 1.5)
    got = search(tmp_path, TWO, "even sum", **SETTINGS)
    assert got == pytest.approx({"even_sum": first, "sum": second}, rel=1e-6)
    # One other signature mentions the first; nothing mentions the second.
    with_prior = search(tmp_path, TWO, "even sum", **SETTINGS, prior=0.3)
    assert with_prior == pytest.approx({"even_sum": first + 0.3 * math.log(2), "sum": second}, rel=1e-6)


def test_words_of_the_query_count_as_often_as_they_stand_there(tmp_path: Path) -> None:
    once, twice = (search(tmp_path, TWO, query, **SETTINGS) for query in ("sum", "sum sum"))
    assert twice == pytest.approx({name: 2 * score for name, score in once.items()}, rel=1e-6)


def test_mentions_by_hand() -> None:
    library = [
        ("Set", "def Set (α : Type) := α → Prop"),
        ("Set.Finite", "def Finite (s : Set α) : Prop"),  # Set; its own name means itself
        ("Finite", "class Finite (α : Sort) : Prop"),
        ("Set.Finite.union", "theorem union {s t : Set α} (hs : s.Finite) : Finite (s ∪ t)"),  # Set, Set.Finite
        ("Finset.card", "def card (s : Finset α) [Finite α] : ℕ"),  # Finite, not Set.Finite
        ("card_union", "theorem card_union : Finset.card s + Finset.card t = Set.Finite Set"),  # each once
        ("s", "def s := Set"),  # a single character is a variable, here and above
    ]
    counted = dict(zip([name for name, _ in library], mentions(library).tolist(), strict=True))
    mentioned = {name: number for name, number in counted.items() if number}
    assert mentioned == {"Set": 4, "Set.Finite": 2, "Finite": 1, "Finset.card": 1}


def test_the_innermost_namespace_comes_first() -> None:
    names = ["open", "A.open", "A.B.open", "A.B.C.here", "A.B.there", "D.elsewhere"]
    library = [(name, "open" if "here" in name else "") for name in names]
    assert mentions(library).tolist() == [1, 0, 2, 0, 0, 0]


LIBRARY = (
    {"name": "IsOpen.union", "doc": "The union of open sets is open.", "signature": "theorem union : IsOpen (s ∪ t)"},
    {"name": "IsOpen", "doc": "A set is open.", "signature": "def IsOpen (s : Set X) : Prop"},
    {"name": "isOpen_union_iff", "doc": "When a union is open.", "signature": "theorem x : IsOpen s ↔ IsOpen t"},
    {"name": "lt_or_le", "doc": "", "signature": "theorem lt_or_le (a b : α) : a < b ∨ b ≤ a"},
    {"name": "two_ne_zero", "doc": "Two is not zero.", "signature": "theorem two_ne_zero : 2 ≠ 0"},
)


@pytest.mark.parametrize("name", [row["name"] for row in LIBRARY])
def test_a_whole_identifier_finds_its_declaration_first(name: str, tmp_path: Path) -> None:
    mapping, _ = config.load("system", "mathlib")
    shipped = {key: mapping[key] for key in ("view", "fields", "b", "k1", "prior")}
    assert next(iter(search(tmp_path, LIBRARY, name, **shipped))) == name


@pytest.mark.parametrize(
    ("query", "name"), [(r"$b \le a$", "lt_or_le"), (r"2 \neq 0", "two_ne_zero"), (r"s \cup t", "IsOpen.union")]
)
def test_latex_meets_the_characters_of_lean(query: str, name: str, tmp_path: Path) -> None:
    assert next(iter(search(tmp_path, LIBRARY, query))) == name


def twins(mentioned: int) -> list[Row]:
    """Two declarations that a query cannot tell apart; so many others mention the second of them."""
    rows: list[Row] = [{"name": "Ring.ideal", "signature": "def"}, {"name": "Field.ideal", "signature": "def"}]
    return rows + [{"name": f"other{n}", "signature": "Field.ideal"} for n in range(mentioned)]


def test_mentions_raise_the_rank_unless_they_weigh_nothing(tmp_path: Path) -> None:
    fields = {"name": 1}
    above = []
    for mentioned in (0, 1, 5):
        scores = search(tmp_path, twins(mentioned), "ideal", fields=fields, prior=0.5)
        above.append(scores["Field.ideal"] - scores["Ring.ideal"])
        without = search(tmp_path, twins(mentioned), "ideal", fields=fields, prior=0)
        assert without["Field.ideal"] == without["Ring.ideal"]
        assert list(without) == ["Ring.ideal", "Field.ideal"]  # ties go by id, descending
    assert above == pytest.approx([0.5 * math.log(1 + mentioned) for mentioned in (0, 1, 5)], abs=1e-6)


def test_what_shares_no_word_is_not_found_however_often_it_is_mentioned(tmp_path: Path) -> None:
    assert set(search(tmp_path, twins(9), "ring", fields={"name": 1}, prior=5)) == {"Ring.ideal"}


def test_a_field_of_weight_0_is_not_read(tmp_path: Path) -> None:
    without = {"name": 1, "doc": 0, "signature": 1}
    rows = [row | {"doc": "other words entirely"} for row in LIBRARY]
    (first := tmp_path / "a").mkdir()
    (second := tmp_path / "b").mkdir()
    query = "open union of sets"
    assert search(first, LIBRARY, query, fields=without) == search(second, rows, query, fields=without)
    assert search(first, LIBRARY, query) != search(second, rows, query)
    bare = library(tmp_path, LIBRARY, ("name", "signature"))
    assert found(Declarations(fields=without, prior=0), topics_of(T=query), bare, tmp_path)


def test_the_pool_is_ranked_and_nothing_else(tmp_path: Path) -> None:
    corpus, topics = library(tmp_path, LIBRARY), topics_of(T="open union", U="zero")
    system = Declarations(prior=0.3)
    everything = found(system, topics, corpus, tmp_path)
    pool = {"T": frozenset({"two_ne_zero", "IsOpen", "not_there"}), "U": frozenset({"two_ne_zero"})}
    pooled = found(system, topics, corpus, tmp_path, pool)
    assert pooled == {
        "T": {"IsOpen": everything["T"]["IsOpen"], "two_ne_zero": 0.0},
        "U": {"two_ne_zero": everything["U"]["two_ne_zero"]},
    }


def test_depth_cuts_the_ranking(tmp_path: Path) -> None:
    whole = list(search(tmp_path, LIBRARY, "open union zero"))
    assert list(search(tmp_path, LIBRARY, "open union zero", depth=2)) == whole[:2]
    assert len(whole) > 2


def test_the_same_bytes_twice_and_from_the_store(tmp_path: Path) -> None:
    mini, corpus, system = load_collection("mini-theorems"), load_corpus("mini-theorems"), shipped_for_mini()
    written = []
    for name in ("first", "second"):
        write_run(system(Request(mini.topics(), corpus, tmp_path)), tmp_path / name)
        written.append((tmp_path / name).read_bytes())
    assert written[0] == written[1]
    assert {artefact.kind for artefact in artefacts.artefacts()} == {"tokens", "counts", "postings", "mentions"}


def shipped_for_mini() -> Declarations:
    """The shipped system on the embedded corpus, whose columns have other names."""
    mapping, where = config.load("system", "mathlib")
    rename = {"name": "id", "signature": "formal"}
    parts = {key: {rename.get(field, field): x for field, x in mapping[key].items()} for key in ("fields", "b")}
    system = build_system(mapping | parts | {"statement": "formal"}, where).system
    assert isinstance(system, Declarations)
    return system


def test_the_shipped_system_beats_a_shuffle_on_the_embedded_theorems(tmp_path: Path) -> None:
    mini, corpus = load_collection("mini-theorems"), load_corpus("mini-theorems")
    scorer = mini.scorer()
    ours = scorer(shipped_for_mini()(Request(mini.topics(), corpus, tmp_path)))
    assert ours.mean("P@10") > 2 * scorer(load_system("shuffle")(Request(mini.topics(), corpus, tmp_path))).mean("P@10")


def test_a_corpus_without_the_fields_is_one_line(tmp_path: Path) -> None:
    bare, topics = library(tmp_path, LIBRARY, ("name", "doc")), topics_of(T="open")
    said = message(lambda: Declarations()(Request(topics, bare, tmp_path)))
    assert said.startswith("corpus library: no document has the field 'module'")
    # The fields that are searched are there, but not what mentions are counted in.
    fields = {"name": 1, "doc": 1}
    said = message(lambda: Declarations(fields=fields)(Request(topics, bare, tmp_path)))
    assert said.startswith("corpus library: no document has the field 'signature'")
    assert Declarations(fields=fields, prior=0)(Request(topics, bare, tmp_path))
    said = message(lambda: Declarations()(Request(topics, None, tmp_path)))
    assert said.startswith("system declarations: needs a corpus; name one with corpus=NAME (known: ")
    assert "no topic shares a word" in message(lambda: search(tmp_path, LIBRARY, "unheard"))


def test_damaged_mentions_in_the_store_are_counted_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = library(tmp_path, LIBRARY)
    before = mentions_of(corpus, "signature").tolist()
    (kept,) = [artefact.path for artefact in artefacts.artefacts() if artefact.kind == "mentions"]
    (kept / "mentions.npy").write_bytes(b"damaged")
    assert mentions_of(corpus, "signature").tolist() == before
    assert capsys.readouterr().err == f"{kept}: damaged: 'mentions.npy' differs from what was written; rebuilding it\n"
