"""Bi-encoders over tiny models: vectors kept in shards, parts of documents combined, what is left out and said."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from encoder_models import save
from lexical_tools import rows_corpus
from refusals import refusal

from harness.collections.corpus import Corpus, Document
from harness.data.topics import Formula, Topic, Topics
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.store import artefacts
from harness.store.cost import measuring
from harness.systems.base import Request
from harness.systems.build import load_system
from harness.systems.dense import encoder, texts, vectors
from harness.systems.dense.bi_encoder import BiEncoder
from harness.systems.dense.engines import EncodedTexts

if lines := encoder.missing():
    pytest.skip(lines[0], allow_module_level=True)

TOPICS = Topics((Topic("T1", "w1 w2", "w3", ("w90",)), Topic("T2", "w40 w41"), Topic("T3", "", "w7 $w8$")))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("model") / "tiny", prompts={"query": "w50 "})


def rows(count: int = 60) -> list[dict[str, str]]:
    rng = np.random.default_rng(1)

    def words(most: int) -> str:
        return " ".join(f"w{word}" for word in rng.integers(0, 100, rng.integers(1, most)))

    return [
        {"id": f"d{n}", "title": words(5) if n % 7 else "", "body": words(25), "question": words(12)}
        for n in range(count)
    ]


def corpus_of(tmp_path: Path, documents: Sequence[Mapping[str, str]], name: str = "made") -> Corpus:
    return rows_corpus(tmp_path / f"{name}.jsonl", documents, "id title body", "question")


def run(corpus: Corpus, tmp_path: Path, folder: Path, *, topics: Topics = TOPICS, pool: Any = None, **keys: Any) -> Run:  # noqa: ANN401
    system = BiEncoder("bi", str(folder), device="cpu", **keys)
    return system(Request(topics, corpus, tmp_path / "workspace", pool=pool))


def by_hand(folder: Path, documents: Sequence[Mapping[str, str]], fields: Sequence[str]) -> np.ndarray[Any, Any]:
    """Cosines, shape (topics, documents), by the library; NaN for documents without text."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu")
    asked = [f"{topic.title} {topic.body}".strip() for topic in TOPICS]
    whole = [" ".join(row[name] for name in fields if row[name]) for row in documents]
    out = model.encode(asked, prompt_name="query").astype(np.float64) @ model.encode(whole).astype(np.float64).T
    out[:, [not text for text in whole]] = np.nan
    return np.asarray(out)


def scores(found: Run, topic: str, documents: Sequence[Mapping[str, str]]) -> np.ndarray[Any, Any]:
    got = found.to_dict()[topic]
    return np.array([got.get(row["id"], np.nan) for row in documents])


# ---- runs -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_scores_are_cosines(tmp_path: Path, folder: Path) -> None:
    documents = rows()
    found = run(corpus_of(tmp_path, documents), tmp_path, folder)
    expected = by_hand(folder, documents, ["body"])
    for at, topic in enumerate(TOPICS):
        np.testing.assert_allclose(scores(found, topic.id, documents), expected[at], atol=1e-5)


def test_compubert_reads_the_folder_that_a_person_brings(tmp_path: Path) -> None:
    """Bodies alone, compared by the cosine, although the model does not normalise its vectors."""
    from sentence_transformers import SentenceTransformer

    brought = save(tmp_path / "compubert", normalise=False)
    documents = rows(20)
    built = load_system("compubert", model=str(brought), device="cpu")
    found = built(Request(TOPICS, corpus_of(tmp_path, documents), tmp_path / "workspace"))
    assert (found.name, found.topics) == ("compubert", ("T1", "T3"))  # the second topic has no body
    model = SentenceTransformer(str(brought), device="cpu")
    asked, read = (model.encode(some) for some in (["w3", "w7 $w8$"], [row["body"] for row in documents]))
    lengths = np.linalg.norm(asked, axis=1)[:, None] * np.linalg.norm(read, axis=1)
    assert lengths.std() > 0.01
    for at, topic in enumerate(found.topics):
        np.testing.assert_allclose(scores(found, topic, documents), (asked @ read.T / lengths)[at], atol=1e-5)


@pytest.mark.slow
def test_parts_are_combined(tmp_path: Path, folder: Path) -> None:
    documents = rows()
    corpus = corpus_of(tmp_path, documents)
    parts = {"answer": ["body"], "title": ["title"], "thread": ["title", "question", "body"]}
    single = {name: by_hand(folder, documents, fields) for name, fields in parts.items()}
    weights = {"title": 0.25, "thread": 2}
    summed = run(corpus, tmp_path, folder, parts=parts, weights=weights)
    highest = run(corpus, tmp_path, folder, parts=parts, weights=weights, combine="max")
    each = np.array([single["answer"], 0.25 * single["title"], 2 * single["thread"]])
    for at, topic in enumerate(TOPICS):
        np.testing.assert_allclose(scores(summed, topic.id, documents), np.nansum(each, axis=0)[at], atol=2e-5)
        np.testing.assert_allclose(scores(highest, topic.id, documents), np.nanmax(each, axis=0)[at], atol=2e-5)


def test_the_first_documents_only_and_equal_ones_by_id(tmp_path: Path, folder: Path) -> None:
    documents = [*rows(20), *({**row, "id": f"e{row['id']}"} for row in rows(20))]
    corpus = corpus_of(tmp_path, documents)
    every, first = run(corpus, tmp_path, folder), run(corpus, tmp_path, folder, depth=5)
    order = {topic: list(docs) for topic, docs in every.to_dict().items()}
    for topic, docs in first.to_dict().items():
        assert list(docs) == order[topic][:5]
        assert docs == {doc: every.to_dict()[topic][doc] for doc in docs}
    for topic in order:
        assert [doc.removeprefix("e") for doc in order[topic][::2]] == order[topic][1::2]


def test_half_as_many_bits(tmp_path: Path, folder: Path) -> None:
    corpus = corpus_of(tmp_path, rows())
    whole, half = run(corpus, tmp_path, folder), run(corpus, tmp_path, folder, storage="float16")
    kept = [np.load(path, mmap_mode="r") for path in artefacts.store_root().glob("vectors/*/values.npy")]
    assert sorted(values.dtype.name for values in kept) == ["float16", "float32"]
    for topic, docs in whole.to_dict().items():
        assert max(abs(half.to_dict()[topic][doc] - score) for doc, score in docs.items()) < 5e-4


def test_topics_without_text_are_named_and_left_out(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = corpus_of(tmp_path, rows())
    found = run(corpus, tmp_path, folder, topics=Topics((*TOPICS, Topic("T4", "", " "))))
    assert set(found.topics) == {"T1", "T2", "T3"}
    assert "bi: 1 topic has no text, left out, such as T4" in capsys.readouterr().err
    line = refusal(lambda: run(corpus, tmp_path, folder, topics=Topics((Topic("T4", ""),))))
    assert line == "system bi: no topic has a text in the fields title, body"


def test_views_and_fields(tmp_path: Path, folder: Path) -> None:
    document = Document("d", "t", "a $x$ b", ("p", "q"), columns={"question": "why $y$?"})
    assert texts.of_document(document, ["tags", "title", "question", "body"]) == "p q t why $y$? a $x$ b"
    assert texts.of_document(document, ["question", "body"], "text") == "why ? a b"
    line = refusal(lambda: texts.of_document(document, ["html"]))
    assert line == "document d: has no field 'html'; known: body, id, question, tags, title"
    assert texts.of_topic(Topic("T", "a", "$b$ c", ("d",)), ["body", "tags"], "text") == "c d"
    with pytest.raises(HarnessError, match="no document has a text to encode"):
        run(
            corpus_of(tmp_path, [{"id": "d", "title": "", "body": "$w1$", "question": ""}]),
            tmp_path,
            folder,
            view="text",
        )


@pytest.mark.slow
def test_only_the_first_of_another_ranking_are_encoded_and_put_in_a_new_order(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = [*rows(), {"id": "empty", "title": "", "body": "", "question": ""}]
    corpus = corpus_of(tmp_path, documents)
    cosines = run(corpus, tmp_path, folder).to_dict()
    before = ["d9", "gone", "d2", "empty", "d30", "d7", "d1"]
    path = tmp_path / "first.run"
    lines = [f"{topic} Q0 {doc} 0 {-place} first\n" for topic in ("T1", "T3") for place, doc in enumerate(before)]
    path.write_text("".join(lines))
    found = run(corpus, tmp_path, folder, first=str(path), k=4).to_dict()
    assert list(found) == ["T1", "T3"]
    for topic, docs in found.items():
        new = sorted(("d9", "d2", "d30"), key=lambda doc: -cosines[topic][doc])
        order = sorted(docs, key=lambda doc: -docs[doc])
        assert order == [*new, "empty", "d7", "d1"]  # the corpus lacks "gone", and "empty" has no vector
        assert [docs[doc] for doc in new] == pytest.approx([cosines[topic][doc] for doc in new], abs=1e-6)
    assert "bi: 2 of 14 results are left out; corpus made does not hold them" in capsys.readouterr().err
    sizes = sorted(len(np.load(place)) for place in artefacts.store_root().glob("vectors/*/values.npy"))
    assert sizes == [3, 60]
    pool = {"T1": frozenset({"d1", "d7"}), "T3": frozenset()}
    among = run(corpus, tmp_path, folder, first=str(path), k=4, pool=pool).to_dict()
    assert {topic: set(docs) for topic, docs in among.items() if docs} == {"T1": {"d1", "d7"}}


def test_fields_are_joined_and_cut_after_a_number_of_characters(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prefixes = {"query": "w50 ", "document": "w51 "}  # four characters of each input
    parts, documents = {"both": ["question", "body"]}, rows()
    cut = [{**row, "body": f"{row['question']} \n {row['body']}"[:16]} for row in documents]
    expected = run(corpus_of(tmp_path, cut, "cut"), tmp_path, folder, prefixes=prefixes).to_dict()
    joined: Any = {"parts": parts, "join": " \n ", "characters": 20, "prefixes": prefixes}
    with measuring() as meter:
        found = run(corpus_of(tmp_path, documents), tmp_path, folder, **joined).to_dict()
    for topic, docs in expected.items():
        assert found[topic] == pytest.approx(docs, abs=1e-6)
    long = sum(len(f"{row['question']} \n {row['body']}") > 16 for row in documents)
    noted: Any = meter.notes["bi: texts cut, documents, both"]
    assert 0 < long < 60
    assert (noted["cut"] >= long, noted["texts"], noted["characters"]) == (True, 60, 20)
    assert "word pieces and 20 characters read" in capsys.readouterr().err


# ---- vectors that are kept --------------------------------------------------------------------------------------


def counted(calls: list[int]) -> Callable[[Sequence[str]], EncodedTexts]:
    """Encodes a text as its length and its first character; counts what it is asked."""

    def encode(some: Sequence[str]) -> EncodedTexts:
        calls.append(len(some))
        return EncodedTexts(
            np.array([[len(text), ord(text[0])] for text in some], np.float32), np.array([len(t) > 5 for t in some])
        )

    return encode


def items(count: int) -> list[tuple[str, str]]:
    return [(f"d{n}", "" if n % 10 == 3 else chr(97 + n % 26) * (n % 9 + 1)) for n in range(count)]


def test_vectors_stand_beside_their_ids() -> None:
    calls: list[int] = []
    some = items(2 * vectors.SHARD + 5)
    made = vectors.made(lambda: some, counted(calls), {"x": 1})
    assert len(calls) == 3
    assert max(calls) < 300  # of texts that are equal one is encoded
    assert made.vectors.ids.tolist() == [name.encode() for name, _ in some]
    for (_, text), row in zip(some, made.vectors.document.tolist(), strict=True):
        assert (row < 0) == (not text)
        if text:
            assert made.vectors.values[row].tolist() == [len(text), ord(text[0])]
    again = vectors.made(lambda: pytest.fail("asked for texts"), counted(calls), {"x": 1})
    assert (len(calls), again.folder, again.cut) == (3, made.folder, made.cut)
    assert [artefact.kind for artefact in artefacts.artefacts()] == ["vectors"]


# ---- the view `mathberta` ---------------------------------------------------------------------------------------


# The special tokens of github.com/Witiko/scm-at-arqmath3, system/train_extended_tokenizer.py: blanks belong to them.
TOKENS = (" [MATH] ", " [/MATH]")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            r"If $\theta = \pi$, then $\sin(\theta)$ is",
            r"If [MATH] \theta = \pi [/MATH] , then [MATH] \sin(\theta) [/MATH] is",
        ),
        ("by $$x\n= 1$$ and\n\\(y\\)!", "by [MATH] x = 1 [/MATH] and [MATH] y [/MATH] !"),
        ("either $a$ $b$ or $c$", "either [MATH] a b [/MATH] or [MATH] c"),  # one formula; none is closed at the end
        ("$a$ is $b$ ", " [MATH] a [/MATH] is [MATH] b"),  # the token needs the blank before it
        ("  no  formula ", "no formula"),
        ("empty $ $ one", "empty one"),
        ("", ""),
    ],
)
def test_formulas_stand_between_tokens(text: str, expected: str) -> None:
    assert texts.with_math_tokens(text) == expected
    assert texts.of_document(Document("d", "", text), ["body"], "mathberta") == expected
    assert texts.of_topic(Topic("T", "", text), ["body"], "mathberta") == expected


def test_fields_are_joined_before() -> None:
    topic = Topic("T", "Roots of $x$", "$y$ or", formulas=(Formula("q", "z"),))
    assert texts.of_topic(topic, ["title", "body"], "mathberta") == "Roots of [MATH] x y [/MATH] or"
    assert texts.of_topic(topic, ["formulas"], "mathberta") == " [MATH] z"


def test_a_bi_encoder_keeps_the_blank_of_the_first_token() -> None:
    topic = Topic("T", "", "$y$ or")
    assert BiEncoder("b", "m", view="mathberta")._asked(topic) == " [MATH] y [/MATH] or"
    assert BiEncoder("b", "m", view="latex")._asked(topic) == "$y$ or"


@pytest.mark.skipif(bool(encoder.missing()), reason="sentence-transformers is not installed")
@pytest.mark.parametrize("text", ["$a$ is $b$ too", "so $a$, $b$", "let $a$ $b$ be"])
def test_the_tokenizer_finds_its_tokens(text: str) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    unknown = {"unk_token": "?"}
    made: Any = Tokenizer(models.WordLevel({"?": 0}, **unknown))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    made.add_special_tokens(list(TOKENS))
    opens, closes = (made.token_to_id(token) for token in TOKENS)
    for view, count in (("mathberta", text.count("$") // 2 - (" $b$ be" in text)), ("latex", 0)):
        found = made.encode(texts.of_topic(Topic("T", "", text), ["body"], view)).ids
        assert found.count(opens) == count
        assert found.count(closes) == max(count - text.endswith("$"), 0)
