"""The extractor of Lean declarations: on files written for it, against lists checked by hand."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from case_tables import literals

from harness.collections.corpora import load_corpus
from harness.collections.corpus import Corpus
from harness.collections.readers import lean
from harness.collections.readers.lean import derived
from harness.collections.readers.lean_declarations import declarations
from harness.collections.readers.lean_text import Additive
from harness.errors import HarnessError
from harness.sources.checkout import Checkout
from harness.store import artefacts

DATA = Path(__file__).parents[2] / "data" / "lean"


def corpus_of(place: Path, keep: tuple[str, ...] = lean.COLUMNS) -> Corpus:
    checkout = Checkout("checkout", "", ("Mini",), place=place)
    return Corpus("lean", "", "", checkout, keep=keep, reader=lean.DECLARATIONS)


@pytest.fixture
def rows() -> Mapping[str, Mapping[str, str]]:
    return {document.id: document.columns for document in corpus_of(DATA)}


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DATA, tmp_path / "copied"))


def test_names_kinds_lines_references(rows: Mapping[str, Mapping[str, str]]) -> None:
    listed = [line.split("\t") for line in (DATA / "expected.tsv").read_text(encoding="utf-8").splitlines()]
    found = [[row["kind"], row["line"], row["name"], row["references"] or "-"] for row in rows.values()]
    assert found == listed


@pytest.mark.parametrize(("name", "signature"), literals("collections/lean_signatures"))
def test_signatures(rows: Mapping[str, Mapping[str, str]], name: str, signature: str) -> None:
    assert rows[name]["signature"] == signature


def test_to_additive_says_what_it_is_made_from(rows: Mapping[str, Mapping[str, str]]) -> None:
    made = {name: row["generated"] for name, row in rows.items() if row["generated"]}
    assert made == {
        "Product.SumsAlike": "Product.Alike",
        "Product.SumsAlike.map_add": "Product.Alike.map_mul",
        "Product.add_sum_comm": "Product.mul_prod_comm",
    }
    assert rows["Product.SumsAlike"]["signature"].startswith("def Product.SumsAlike, to_additive of def Product.Alike ")


def test_what_is_left_out_is_counted() -> None:
    assert corpus_of(DATA).remarks() == {
        "declarations": 46,
        "examples (left out)": 1,
        "instances without a name (left out)": 1,
        "made by to_additive": 3,
        "made by to_additive, their names derived": 2,
        "private declarations (left out)": 2,
    }


@pytest.mark.parametrize(
    ("old", "new"),
    literals("collections/lean_derived_names"),
)
def test_derived_names(old: str, new: str) -> None:
    assert derived(old) == new


def names(source: str) -> list[str]:
    """Kinds and names of what a source declares."""
    return [f"{one.kind} {one.name}" for one in declarations(source, "a.lean")[0]]


@pytest.mark.parametrize(
    "head", ["mk ::", "private mk ::", "/-- make -/\n  mk ::", "/-- make -/ protected mk ::", "mk::"]
)
@pytest.mark.parametrize("between", [" ", "\n  ", "\n  /-- what it has -/\n  "])
def test_the_constructor_of_a_structure_is_no_field(head: str, between: str) -> None:
    source = f"structure A where\n  {head}{between}carrier : Type\n" + "  size : Nat\n" * ("\n" in between)
    fields = ["field A.carrier", "field A.size"] if "\n" in between else ["field A.carrier"]
    assert names(source) == ["structure A", *fields]


def test_another_default_of_a_field_is_no_field() -> None:
    source = "class B extends A where\n  one := 1\n  pow : Nat := 2\n  two :=\n    2\n"
    assert names(source) == ["class B", "field B.pow"]


@pytest.mark.parametrize("proof", ["by\n  open O in\n  exact a", "by\n  skip\n  open O in simp", "\n  open O in a"])
def test_what_is_opened_in_a_proof_is_open_there_alone(proof: str) -> None:
    source = f"theorem a : True := {proof}\nvariable (x : Nat)\ntheorem b : c = x := rfl"
    (_, last), _ = declarations(source, "a.lean")
    assert (last.name, last.opens, last.signature) == ("b", (), "theorem b (x : Nat) : c = x")
    (last,), _ = declarations("open O in\n-- why\n@[simp]\ntheorem b : c = 1 := rfl", "a.lean")
    assert last.opens == ("O",)


@pytest.mark.parametrize(
    "text",
    [
        *('s!"a {"b"} {\'"\'} c"', 's!"{m!"{x} {"}"}"} \\" y"', 'f!"\\{ {fun x => {x with y := "}"}}"'),
        *('s!"{/- " -/ x} -- {y}"', '"{" ++ s "}"', "s!" + '"{s!' * 3000 + '"{x}"' + '}"' * 3000),
    ],
)
def test_strings_with_code_in_them(text: str) -> None:
    text += '}"' if text.endswith('{"') else ""
    assert names(f"def a := {text}\ntheorem b : True := trivial") == ["def a", "theorem b"]


def test_names_that_attributes_give_later() -> None:
    source = (
        "namespace A\ntheorem a_mul : x = x := rfl\ntheorem b_mul : x = x := rfl\nend A\n"
        "attribute [simp, to_additive\n    a_plus] A.a_mul\nattribute [to_additive existing b_add] A.b_mul\n"
        "attribute [to_additive] Else.where\nattribute [simp] A.b_mul\nattribute [to_additive] A.b_mul in\n"
        "theorem c : True := trivial\n"
    )
    found, left = declarations(source, "a.lean")
    asked = [one.additive for one in found]
    assert asked == [Additive("a_plus"), Additive(), None]
    assert left == {"`to_additive` of what is declared elsewhere": 1}


@pytest.mark.parametrize(
    ("ends", "left"),
    [
        ("end B\nend A", {}),
        ("end A.B", {}),
        ("end\nend", {}),
        ("end C\nend A", {"`end` of another name than what it closes": 1}),
        ("end A.C", {"`end` of another name than what it closes": 1}),
        ("end B\nend A\nend A", {"`end` that closes nothing": 1}),
    ],
)
def test_an_end_that_fits_nothing_is_counted(ends: str, left: dict[str, int]) -> None:
    found, counted = declarations(f"namespace A.B\n{ends}\ntheorem a : True := trivial", "a.lean")
    assert ([one.name for one in found], counted) == (["a"], left)


@pytest.mark.parametrize(("source", "fault"), literals("collections/lean_cut_files"))
def test_a_file_that_is_cut(copied: Path, source: str, fault: str) -> None:
    path = copied / "Mini" / "Data" / "Cut.lean"
    path.write_bytes(source.encode())
    with pytest.raises(HarnessError) as caught:
        list(corpus_of(copied))
    (line,) = caught.value.lines
    assert line.startswith(f"{path}{fault}")


@pytest.mark.parametrize("end", ["(", "(b", "(b :", "(b : Nat", "[", "⦃", "b (", "deriving", "/-- of b -/", "private"])
def test_a_structure_that_is_cut_in_a_field_is_there(end: str) -> None:
    found, _ = declarations(f"structure A where\n  a : Nat\n  {end}", "cut")
    assert [one.name for one in found][:2] == ["A", "A.a"]
    assert declarations(f"structure A where {end}", "cut")[0][0].name == "A"


def test_bytes_that_are_no_text(copied: Path) -> None:
    path = copied / "Mini" / "Data" / "Bytes.lean"
    path.write_bytes(b"def a := 1\n-- \xff\n")
    with pytest.raises(HarnessError, match=r"Bytes\.lean:2: byte 0xff is not UTF-8 text"):
        list(corpus_of(copied))


def test_a_reading_goes_on_where_it_was(copied: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    cut = copied / "Mini" / "Data" / "Cut.lean"
    cut.write_text("/- cut", encoding="utf-8")
    with pytest.raises(HarnessError):
        list(corpus_of(copied))
    kept = {artefact.key: artefact.path.stat().st_mtime_ns for artefact in artefacts.artefacts()}
    assert len(kept) == 1  # the folder before the fault
    cut.unlink()
    assert [document.id for document in corpus_of(copied)] == [document.id for document in corpus_of(DATA)]
    now = {artefact.key: artefact.path.stat().st_mtime_ns for artefact in artefacts.artefacts()}
    assert len(now) == 2
    assert now.items() > kept.items()


def test_another_version_has_another_digest(copied: Path) -> None:
    before = corpus_of(copied).digest()
    assert before == corpus_of(DATA).digest()
    path = copied / "Mini" / "Data" / "Shapes.lean"
    path.write_text(path.read_text(encoding="utf-8") + "\ntheorem more : True := trivial\n", encoding="utf-8")
    assert corpus_of(copied).digest() != before
    assert "more" in set(corpus_of(copied).ids())


def test_every_beginning_of_a_file_is_read_or_refused() -> None:
    source = (DATA / "Mini" / "Data" / "Shapes.lean").read_text(encoding="utf-8")
    whole = [one.name for one in declarations(source, "whole")[0]]
    for end in range(0, len(source), 7):
        try:
            found = [one.name for one in declarations(source[:end], "cut")[0]]
        except HarnessError as error:
            assert "has no end" in str(error)
            continue
        assert found[:-3] == whole[: max(len(found) - 3, 0)]  # the last command alone may be another one


def test_the_checkout_of_the_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, copied: Path) -> None:
    monkeypatch.delenv("HARNESS_MATHLIB", raising=False)
    corpus = load_corpus("mathlib-checkout")
    assert corpus.state().startswith("needs a Mathlib checkout: git clone ")
    assert corpus.files() == []
    with pytest.raises(HarnessError, match=r"needs a Mathlib checkout: git clone .* HARNESS_MATHLIB"):
        list(corpus)
    monkeypatch.setenv("HARNESS_MATHLIB", str(tmp_path))
    with pytest.raises(HarnessError, match=r"HARNESS_MATHLIB=.*: has no folder 'Mathlib'; expected a Mathlib checkout"):
        list(corpus)
    (copied / "Mini").rename(copied / "Mathlib")
    monkeypatch.setenv("HARNESS_MATHLIB", str(copied))
    assert corpus.state() == "here"
    assert sum(1 for _ in corpus) == 46


def test_faults_of_the_configuration() -> None:
    with pytest.raises(HarnessError, match="keep: 'docs' is unknown; did you mean 'doc'"):
        list(corpus_of(DATA, ("docs",)))
    with pytest.raises(HarnessError, match="reader 'lean' needs the key 'checkout'"):
        list(replace(corpus_of(DATA), sources=DATA / "expected.tsv"))
    with pytest.raises(HarnessError, match="'variable' or a 'place'"):
        Checkout("checkout", "")
