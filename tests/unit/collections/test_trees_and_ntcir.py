"""Formula files with operator trees, and formulas of NTCIR-12."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from corpora_tools import corpus, message

from harness.collections.corpus import Document
from harness.data.topics import Formula

TREES = "\nQ\tB.1\nE\t[V!x]\nR\t7\t0\t[V!y]\t[1.0]\nR\t8\t0\t[V!z]\t[.5]\n\nQ\tB.2\nE\t[V!q]\nR\t7\t0\t[V!y]\t[.1]\n"


def test_trees(tmp_path: Path) -> None:
    first, second = tmp_path / "opt.tsv", tmp_path / "slt.tsv"
    first.write_text(TREES + 'R\t10\t0\t\\"[V!\\"\\",0[N!1]]\\"\t[]\n')
    second.write_text(TREES.replace("R\t8", "R\t9").replace("V!", "v!"))
    made = corpus((first, second), "tangent")
    assert list(made) == [
        Document("7", body="[V!y] [v!y]", columns={"opt": "[V!y]", "slt": "[v!y]"}),
        Document("8", body="[V!z]", columns={"opt": "[V!z]"}),
        Document("10", body='[V!",0[N!1]]', columns={"opt": '[V!",0[N!1]]'}),
        Document("9", body="[v!z]", columns={"slt": "[v!z]"}),
    ]
    assert made.remarks() == {
        "formulas": 4,
        "formulas without a symbol layout tree": 2,
        "formulas without an operator tree": 1,
        "trees whose brackets do not match": 0,
    }
    second.write_text(TREES + "R\t7\t0\t[V!other\t[.1]\n")
    assert Counter(made.remarks())["trees whose brackets do not match"] == 1
    assert Counter(made.remarks())["visual ids with more than one tree (the first is kept)"] == 1


@pytest.mark.parametrize(
    "line", [b"R\t7\t0\tV!y\t[1]", b"R\t7\t[V!y]\t[1]", b"X\tB.1", b"Q", b"E\t[V!x]\t1", b"R\t7\t0\t[V!y]\t[1]\tmore"]
)
def test_faults_of_trees(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "opt.tsv"
    path.write_bytes(TREES.encode() + line)
    expected = "expected Q and a topic, E and a tree, or R, visual id, 0, tree, scores"
    assert message(lambda: list(corpus((path, path), "tangent"))) == f"{path}:10: {expected}"


def test_other_faults_of_trees(tmp_path: Path) -> None:
    path = tmp_path / "opt.tsv"
    path.write_bytes(b"Q\tB.1\n\xff")
    assert message(lambda: list(corpus((path, path), "tangent"))) == f"{path}:2: not UTF-8 text"
    path.write_text("R\t7 8\t0\t[V!y]\t[1]\n")
    assert message(lambda: list(corpus((path, path), "tangent"))).startswith(f"{path}:1: document id '7 8' is empty or")
    assert message(lambda: list(corpus(path, "tangent"))) == "c: 1 files, expected those of OPT and SLT"


def test_formulas_of_ntcir(tmp_path: Path) -> None:
    path = tmp_path / "formulas.txt"
    path.write_text("Duckworth–Lewis_method:2 \\frac{a}{% b}\n\nA:1\t x_1 \nA:2\n", encoding="utf-8")
    made = corpus(path, "ntcir-12")
    assert list(made) == [
        Document(
            "Duckworth–Lewis_method:2",
            body=r"$\frac{a}{b}$",
            formulas=(Formula("Duckworth–Lewis_method:2", r"\frac{a}{b}"),),
        ),
        Document("A:1", body="$x_1$", formulas=(Formula("A:1", "x_1"),)),
        Document("A:2", formulas=(Formula("A:2", ""),)),
    ]
    assert made.remarks() == {"formulas": 3, "formulas without LaTeX": 1}


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b"A 1 x", "'A' is not a formula id such as Binomial_coefficient:197"),
        (b"A:\xff x", "not UTF-8 text"),
        (b"A:1 y", "document 'A:1' is on an earlier line already"),
    ],
)
def test_faults_of_formulas_of_ntcir(tmp_path: Path, line: bytes, fault: str) -> None:
    path = tmp_path / "formulas.txt"
    path.write_bytes(b"A:1 x\n\n" + line)
    assert message(lambda: list(corpus(path, "ntcir-12"))) == f"{path}:3: {fault}"
