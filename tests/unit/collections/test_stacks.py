from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from case_tables import DATA, literals
from refusals import refusal as message

from harness.collections.corpora import load_corpus
from harness.collections.corpus import Corpus, CorpusReader
from harness.collections.files import read_judgments, read_places, read_topics
from harness.collections.load import load_collection
from harness.collections.readers import stacks
from harness.collections.readers.stacks_book import expander, latex_to_text, read_book, without_comments

CHAPTERS = ("sets", "sites", "sites-modules", "rings", "schemes", "flat", "late", "stacks")
TAGS, PREAMBLE, SETS, SITES, MODULES, RINGS = (
    (DATA / "stacks" / name).read_text()
    for name in ("tags", "preamble.tex", "sets.tex", "sites.tex", "sites-modules.tex", "rings.tex")
)
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """A project in a folder, with other texts of some of its files."""

    def write(**changed: str) -> Path:
        chapters = " \\\n\t".join((" ".join(CHAPTERS[:3]), " ".join(CHAPTERS[3:])))
        texts = {"sets": SETS, "sites": SITES, "sites-modules": MODULES, "rings": RINGS}
        files = {f"{name}.tex": texts.get(name, f"\\title{{{name}}}\n") for name in CHAPTERS}
        files |= {"Makefile": f"# all\nLIJST = {chapters}\n\nALL = x\n", "preamble.tex": PREAMBLE, "tags/tags": TAGS}
        for name, text in (files | {name.replace("_", "/"): text for name, text in changed.items()}).items():
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return tmp_path

    return write


def corpus(folder: Path, reader: CorpusReader, keep: tuple[str, ...] = ()) -> Corpus:
    names = ("Makefile", "preamble.tex", "tags/tags", *(f"{name}.tex" for name in CHAPTERS))
    return Corpus("mine", "", "", tuple(folder / name for name in names), (), keep, reader)


def test_statements_are_documents_in_the_order_of_the_book(write: Write) -> None:
    found = corpus(write(), stacks.STATEMENTS, tuple(stacks.COLUMNS))
    first, second, *_ = documents = list(found)
    assert [document.id for document in documents] == ["0002", "0001", "0003", "0004", "0005", "0006"]
    assert first.body == r"A map is $\operatorname{Hom}(A, B)$ on $S_{\acute{e}tale}$."
    assert second.title == "Nakayama's lemma"
    assert second.body == (
        r"Let $f : A \to B$ be as in Definition. Then $\operatorname{Spec}(A) = \lim A_i$, and "
        r"$$a \leq 100\%$$ nothing else."
    )
    assert [formula.id for formula in second.formulas] == ["0001.1", "0001.2", "0001.3"]
    assert second.columns == {
        "kind": "lemma", "chapter": "Set Theory", "section": "Maps", "label": "lemma-first",
        "slogan": "Small is zero.", "history": "", "cites": "0002",
        "proof": "See Definition and part of Lemma, and.",
    }  # fmt: skip
    assert documents[3].body == r"$$x \in \text{modules}$$"


def test_what_is_odd_is_counted(write: Write) -> None:
    remarks = corpus(write(), stacks.STATEMENTS).remarks()
    assert remarks["references to nowhere"] == 2  # lemma-none, and a label of a chapter that is not there
    assert remarks["references"] == 14
    assert remarks["statements without a tag (left out)"] == 1
    assert remarks["statements"] == 6


def test_of_two_statements_of_one_tag_the_first_is_one(write: Write) -> None:
    """A label that stands twice, and two labels that are the same with their chapters' names."""
    again = r"""
\begin{lemma}
\label{theorem-main}
Again.
\begin{equation}
\label{equation-again}
x
\end{equation}
\end{lemma}
\begin{proof}
By Lemma \ref{remark-last}.
\end{proof}
\begin{lemma}
\label{lemma-after}
After.
\end{lemma}
\begin{proof}
By (\ref{equation-again}).
\end{proof}
"""
    other = "\\begin{lemma}\n\\label{modules-lemma-x}\nThe same full label.\n\\end{lemma}\n"
    folder = write(
        **{"sites.tex": SITES + other, "rings.tex": RINGS + again, "tags/tags": f"{TAGS}0008,rings-lemma-after"}
    )
    found = corpus(folder, stacks.STATEMENTS)
    bodies = {document.id: document.body for document in found}
    assert (bodies["0004"], bodies["0005"], bodies["0008"]) == ("The same full label.", "Main.", "After.")
    assert found.remarks()["statements with the tag of an earlier one (left out)"] == 2
    assert [document.id for document in corpus(folder, stacks.PROOFS)] == [
        "0001.1",
        "0003.1",
        "0003.2",
        "0005.1",
        "0008.1",
    ]
    assert list(read_places(folder, "stacks-order")) == ["0002", "0001", "0003", "0004", "0005", "0006", "0008"]
    premises = read_judgments(folder, "stacks-premises", "all").to_dict()
    assert premises["0005"] == {"0003": 1, "0004": 1} and "0008" not in premises
    topics = [topic.id for topic in read_topics(folder, "stacks-proofs")]
    assert topics == ["0001", "0003", "0005", "0008"]


@pytest.mark.parametrize("end", [b"\r\n", b"\r"])
def test_line_ends_of_other_systems_are_line_ends(end: bytes, write: Write) -> None:
    plainly = [(document.id, document.body) for document in corpus(write(), stacks.STATEMENTS)]
    folder = write()
    for path in (*folder.glob("*.tex"), folder / "Makefile", folder / "tags/tags"):
        path.write_bytes(path.read_bytes().replace(b"\n", end))
    assert [(document.id, document.body) for document in corpus(folder, stacks.STATEMENTS)] == plainly


def test_pairs_have_what_is_proved_and_the_chapter(write: Write) -> None:
    """For training: statements as questions; the columns are the corpus's choice, and its proofs are the same."""
    folder = write()
    keep = ("question", "question_id", "chapter")
    found = list(replace(corpus(folder, stacks.PROOFS), keep=keep))
    plain = list(corpus(folder, stacks.PROOFS))
    assert [(document.id, document.body) for document in found] == [(document.id, document.body) for document in plain]
    statements = {document.id: document for document in corpus(folder, stacks.STATEMENTS)}
    chapters = {topic.id: topic.attributes["chapter"] for topic in read_topics(folder, "stacks-proofs")}
    for document in found:
        asked = statements[document.id.partition(".")[0]]
        assert document.columns == {
            "question": f"{asked.title} {asked.body}".strip(),
            "question_id": asked.id,
            "chapter": chapters[asked.id],
        }
    said = message(lambda: list(replace(corpus(folder, stacks.PROOFS), keep=("label",))))
    assert said.startswith("corpus mine: keep: 'label' is unknown")


def test_proofs_show_no_reference(write: Write) -> None:
    documents = list(corpus(write(), stacks.PROOFS))
    assert [document.id for document in documents] == ["0001.1", "0003.1", "0003.2", "0005.1"]
    assert documents[2].body == "By Lemma and Sets, Definition and Section."
    for document in documents:
        assert not document.title and not document.columns and not document.tags
        assert not any(word in document.body for word in ("first", "lemma", "definition", "ref", "item"))


def test_a_proof_is_judged_for_its_statement(write: Write) -> None:
    folder = write()
    qrels = read_judgments(folder, "stacks-proofs", "all").to_dict()
    assert qrels == {"0001": {"0001.1": 1}, "0003": {"0003.1": 1, "0003.2": 1}, "0005": {"0005.1": 1}}
    topics = list(read_topics(folder, "stacks-proofs"))
    assert [topic.id for topic in topics] == list(qrels)
    assert [document.body for document in corpus(folder, stacks.STATEMENTS) if document.id in qrels] == [
        topic.body for topic in topics
    ]


def test_premises_are_earlier_statements_that_a_proof_cites(write: Write) -> None:
    """A label of a part means the whole; its own statement, later ones and sections are none; labels of a chapter
    whose name begins as another's are not taken for it."""
    folder = write()
    qrels = read_judgments(folder, "stacks-premises", "all").to_dict()
    assert qrels == {"0001": {"0002": 1}, "0003": {"0001": 1, "0002": 1}, "0005": {"0003": 1, "0004": 1}}
    assert [topic.id for topic in read_topics(folder, "stacks-premises")] == list(qrels)


def test_chapters_are_split_and_learning_sees_no_test_chapter(write: Write) -> None:
    folder = write()
    split = stacks.split_of(read_book(folder))
    assert [name for name, kind in split.items() if kind == "test"] == ["sites-modules", "stacks"]
    for collection in ("stacks-proofs", "stacks-premises"):
        parts = {name: read_judgments(folder, collection, name).to_dict() for name in ("all", "train", "learn")}
        assert parts["train"] == parts["all"]  # no statement of a test chapter has a proof here
    assert parts["all"]["0005"] == {"0003": 1, "0004": 1} and parts["learn"]["0005"] == {"0003": 1}
    attributes = {topic.id: topic.attributes for topic in read_topics(folder, "stacks-proofs")}
    assert attributes["0005"] == {"chapter": "rings", "kind": "theorem", "split": "train"}
    said = message(lambda: read_judgments(folder, "stacks-proofs", "trian"))
    assert "edition 'trian' is unknown; did you mean 'train'?" in said


@pytest.mark.parametrize(("files", "said"), literals("collections/stacks_faults_are_one_line"))
def test_faults_are_one_line(write: Write, files: dict[str, str], said: str) -> None:
    folder = write(**files)
    assert said in message(lambda: read_topics(folder, "stacks-proofs"))


def test_a_chapter_that_is_no_text_is_named(write: Write) -> None:
    folder = write()
    (folder / "flat.tex").write_bytes(b"\\title{a}\n\xff")
    assert "flat.tex:2: byte 0xff is not UTF-8 text" in message(lambda: read_book(folder))
    (folder / "flat.tex").write_bytes(b"\\begin{lemma}\n\\label{a}\n\0007\0\n\\end{lemma}\n")
    assert "flat.tex:3: byte 0x00 is not UTF-8 text" in message(lambda: read_book(folder))


def test_files_and_folders_are_told_apart(write: Write) -> None:
    folder = write()
    assert "a folder, and reader 'jsonl' reads a file" in message(lambda: read_topics(folder, "jsonl"))
    said = message(lambda: read_judgments(folder / "Makefile", "stacks-proofs", "all"))
    assert "reader 'stacks-proofs' reads a folder" in said
    unknown = corpus(folder, stacks.STATEMENTS, ("proofs",))
    assert "keep: 'proofs' is unknown" in message(lambda: list(unknown))


@pytest.mark.parametrize(("latex", "text"), literals("collections/stacks_prose"))
def test_prose(latex: str, text: str) -> None:
    assert latex_to_text(latex) == text


def test_comments_go_and_lines_stay() -> None:
    text = "a % b\n\\% c %% d\n\\\\% e\n\\begin{verbatim}\n%\n\\end{lemma}\n\\end{verbatim}\nf"
    out = without_comments(text)
    assert out.split("\n") == ["a ", "\\% c ", "\\\\", "\\begin{verbatim}", "", "", "\\end{verbatim}", "f"]


def test_macros_do_not_begin_longer_names() -> None:
    assert expander({"Ob": "O", "Obs": "P"})(r"\Ob \Obs \Obst x^\Ob") == r"O P \Obst x^{O}"


def test_collections_name_all_files_of_a_source() -> None:
    collection, corpus = load_collection("stacks-premises"), load_corpus("stacks")
    assert len(collection.files()) == len(corpus.files()) == 118
    assert {file.commit for file in collection.files()} == {"4ac4815d5a00dc2eacab7824cf4e4baafe2773ac"}
    assert list(collection.editions) == ["all", "train", "test", "learn"]
    assert collection.edition().order is not None
