"""Theorem search with a language model: what is asked, what is searched, and that it repeats from kept answers."""

from __future__ import annotations

import json
import re
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from case_tables import literals
from llm_server import Server, serving
from refusals import refuses

from harness.collections.corpora import load_corpus
from harness.collections.corpus import Corpus
from harness.collections.load import load_collection
from harness.collections.readers import lean
from harness.data.run_writers import run_text
from harness.data.topics import Topic, Topics
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.experiments.task import task
from harness.sources.checkout import Checkout
from harness.store import artefacts, prompts
from harness.store.llm import Ask, Client
from harness.store.llm.answer_cache import AnswerCache, Reply
from harness.store.llm.endpoint import request
from harness.store.llm.wire import worded
from harness.systems.base import Request
from harness.systems.build import BuiltSystem, load_system
from harness.systems.theorems import informalise
from harness.systems.theorems.informalise import DeclarationColumns, Informal, asks, augmented, informal

LEAN = Path(__file__).parents[3] / "data" / "lean"
MINI = DeclarationColumns(statement="formal")


def answer(body: Mapping[str, Any]) -> str:
    """What stands for a model: it reads its prompt, and answers in the form that it is asked for."""
    said = body["messages"][1]["content"]
    if found := re.search(r"^Query: (.*)$", said, re.MULTILINE):
        query = found[1]
        return json.dumps(
            {"name": "Query", "statement": f"It holds that {query}", "lean": f"theorem q : {query} := by"}
        )
    name = re.search(r"`(.*)`", said)
    words = re.sub(r"[^A-Za-z]+", " ", name[1] if name else "")
    return json.dumps({"name": words.strip(), "statement": f"A statement\nof {words.lower().strip()}."})


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as made:
        made.answer = answer
        yield made


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The answers to all that the mini collection asks, as the model of the loopback server would give them."""
    folder = tmp_path_factory.mktemp("answers")
    endpoint = Server().endpoint(url="http://127.0.0.1:9/v1")
    queries = (topic.title for topic in load_collection("mini-theorems").topics())
    wanted = [ask for _, ask in asks(load_corpus("mini-theorems"), MINI)]
    wanted += [Ask(prompts.messages("augment", query=query), informalise.QUERY_SCHEMA) for query in queries]
    for ask in wanted:
        body = request(endpoint, worded(ask, endpoint.schemas), ask.schema)
        AnswerCache(folder).keep(body, Reply(answer(body), model=endpoint.model, tokens_in=9, tokens_out=9))
    assert sum(1 for _ in folder.rglob("*.json")) == 131
    return folder


@pytest.fixture
def kept(made: Path, tmp_path: Path) -> Path:
    """The same in a folder of the test's own."""
    return Path(shutil.copytree(made, tmp_path / "kept"))


@pytest.fixture
def endpoint(server: Server, conf: Callable[[str, str, str], Path]) -> str:
    text = f"url: {server.url}\nmodel: tiny-1\nparameters: {{max_tokens: 100}}\nprice_in: 10.0\nprice_out: 30.0\n"
    conf("llm", "loopback", text)
    return "loopback"


@pytest.fixture
def tree(tmp_path: Path) -> Corpus:
    return Corpus("lean", "", "", Checkout("checkout", "", ("Mini",), place=LEAN), keep=lean.COLUMNS, reader=READER)


READER = lean.DECLARATIONS


def pipeline(endpoint: str, cache: Path, **settings: object) -> BuiltSystem:
    given = {"llm": endpoint, "cache": {"file": str(cache)}, "system": "bm25", "name": "piped", **settings}
    return load_system("theorem-pipeline-mini", **given)


def produced(system: BuiltSystem, folder: Path) -> str:
    mini = task("mini-theorems", "mini-theorems")
    return run_text(system(Request(mini.topics, mini.corpus, folder)))


# ---- prompts --------------------------------------------------------------------------------------------------------


def test_an_ask_shows_what_the_paper_says_it_shows(tree: Corpus) -> None:
    said = {name: ask.messages[1].content for name, ask in asks(tree, DeclarationColumns())}
    shown = said["Product.Alike.map_mul"]
    assert "`Product.Alike.map_mul`, of kind theorem" in shown
    assert "theorem Product.Alike.map_mul {M : Type u}" in shown
    for definition in ("RespectsProduct", "Alike"):  # with their statements and doc strings
        assert re.search(rf"^(structure|def) Product\.{definition} ", shown, re.MULTILINE)
    assert "A map that respects products." in shown
    assert "Its documentation" not in shown
    assert "Its documentation:\n\nA set with a product." in said["Product"]
    assert "What it refers to" not in said["Product"]
    assert len(said) == 46


def test_what_a_statement_refers_to_is_found_without_a_column_of_it(tree: Corpus) -> None:
    named = DeclarationColumns(references="no such column")
    said = {name: ask.messages[1].content for name, ask in asks(tree, named)}
    assert re.search(r"^structure Product\.RespectsProduct ", said["Product.Alike.map_mul"], re.MULTILINE)
    few = {name: ask.messages[1].content for name, ask in asks(tree, named, most=0)}
    assert "What it refers to" not in few["Product.Alike.map_mul"]


def test_kinds_and_faults_of_columns(tree: Corpus) -> None:
    kinds = [name for name, _ in asks(tree, DeclarationColumns(), ["lemma"])]
    assert kinds == ["with_braces", "with_parentheses"]
    refuses("has no column 'formal'", lambda: list(asks(tree, MINI)))


def test_no_prompt_is_without_its_purpose() -> None:
    for name in prompts.names():
        assert (prompts.FOLDER / f"{name}.jinja").read_text(encoding="utf-8").startswith("{#")
    refuses("prompt 'augmen' is unknown; did you mean 'augment'", lambda: prompts.messages("augmen"))
    refuses("prompt augment: 'query' is undefined", lambda: prompts.messages("augment"))


# ---- what comes of answers ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_statements_in_prose_and_their_provenance(server: Server, kept: Path) -> None:
    client = Client(server.endpoint(), cache=kept)
    found = informal(load_corpus("mini-theorems"), client, columns=MINI)
    assert (len(found), len(server.bodies)) == (91, 0)
    assert found["ZMod.pow_prime_eq_self"] == Informal(
        "ZMod pow prime eq self", "A statement of zmod pow prime eq self."
    )
    (one,) = [one for one in artefacts.artefacts() if one.kind == "informal-statements"]
    assert one.spec["prompt"] == {"name": "informalise", "sha256": prompts.digest("informalise")}
    assert (one.spec["model"], one.spec["about"]["corpus"]["corpus"]) == ("tiny-1", "mini-theorems")
    about = json.loads((one.path / "provenance.json").read_text())
    assert (about["made"], about["failed"], about["mode"]) == (91, 0, "live")


@pytest.mark.slow
def test_what_a_model_fails_on_is_counted_and_left_out(server: Server, kept: Path) -> None:
    (path,) = [path for path in kept.rglob("chat/*/*.json") if "`Nat.exists_prime_above`" in path.read_text("utf-8")]
    path.unlink()
    server.answer = lambda _: "no"
    client = Client(server.endpoint(), cache=kept)
    found = informal(load_corpus("mini-theorems"), client, columns=MINI)
    assert (len(found), client.spent.failed) == (90, 1)
    assert "Nat.exists_prime_above" not in found
    (one,) = [one for one in artefacts.artefacts() if one.kind == "informal-statements"]
    last = json.loads((one.path / "texts.jsonl").read_text().splitlines()[-1])
    assert last["id"] == "Nat.exists_prime_above"
    assert "JSON" in last["failed"]


def test_queries_are_augmented_without_proofs(server: Server, tmp_path: Path) -> None:
    topics = [Topic("a", "1 = 1", ""), Topic("b", "", ""), Topic("c", "two", "parts")]
    found = augmented(topics, Client(server.endpoint(), cache=tmp_path))
    assert {name: (one.formal, one.informal.text) for name, one in found.items()} == {
        "a": ("theorem q : 1 = 1", "Query: It holds that 1 = 1"),
        "c": ("theorem q : two parts", "Query: It holds that two parts"),
    }


# ---- the system -----------------------------------------------------------------------------------------------------


class Seen:
    """A system that keeps what it is asked."""

    texts: dict[str, str]
    topics: Topics

    def __call__(self, request: Request) -> Run:
        Seen.texts = {document.id: f"{document.title}{document.body}" for document in request.corpus_for("seen")}
        Seen.topics = request.topics
        return load_system("bm25")(request)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("view", "document", "query"),
    [
        ("formal", "theorem Nat.exists_prime_above (n : ℕ) : ∃ p : ℕ, n < p ∧ p.Prime", "theorem q : {}"),
        ("informal", "Nat exists prime above: A statement of nat exists prime above.", "Query: It holds that {}"),
        (
            "formal+informal",
            "theorem Nat.exists_prime_above (n : ℕ) : ∃ p : ℕ, n < p ∧ p.Prime \n "
            "Nat exists prime above:A statement of nat exists prime above.",
            "theorem q : {} \n Query:It holds that {}",
        ),
    ],
)
def test_documents_and_queries_have_one_form(
    endpoint: str, server: Server, kept: Path, tmp_path: Path, view: str, document: str, query: str
) -> None:
    seen = {"_target_": f"{__name__}.Seen"}
    asked = load_collection("mini-theorems").topics()
    produced(pipeline(endpoint, kept, view=view, system=seen), tmp_path)
    assert Seen.texts["Nat.exists_prime_above"] == document
    first = next(iter(asked))
    assert next(iter(Seen.topics)).title == query.format(first.title, first.title)
    produced(pipeline(endpoint, kept, view=view, augment=False, system=seen), tmp_path)
    assert [topic.title for topic in Seen.topics] == [topic.title for topic in asked]
    assert server.bodies == []


def test_kinds_that_no_declaration_is_of_are_one_line(endpoint: str, kept: Path, tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"key 'kinds': no document is of kind 'theorm'; did you mean 'theorem'\?"):
        produced(pipeline(endpoint, kept, kinds=["theorm"], augment=False, system="bm25"), tmp_path)


@pytest.mark.slow
def test_a_run_live_and_two_replays_are_the_same_bytes(
    endpoint: str, server: Server, kept: Path, tmp_path: Path
) -> None:
    lost = sorted(kept.rglob("chat/*/*.json"))[:5]
    for path in lost:
        path.unlink()
    live = produced(pipeline(endpoint, kept, mode="live"), tmp_path)
    assert len(server.bodies) == len(lost)
    shutil.copytree(kept, tmp_path / "published")  # as another machine would get it
    replays = [produced(pipeline(endpoint, tmp_path / "published"), tmp_path) for _ in range(2)]
    assert replays == [live, live]
    assert len(server.bodies) == len(lost)


@pytest.mark.slow
def test_the_answers_in_the_repository_make_the_same_run_without_a_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(*_: object) -> None:
        raise AssertionError("somebody calls out")

    monkeypatch.setattr(socket.socket, "connect", connect)
    runs = [produced(load_system("theorem-pipeline-mini", system="bm25"), tmp_path / name) for name in ("one", "two")]
    assert runs[0] == runs[1]
    assert len({line.split()[0] for line in runs[0].splitlines()}) == 38  # two share no word with any statement
    plain = produced(load_system("theorem-pipeline-mini", system="bm25", augment=False), tmp_path / "plain")
    assert plain != runs[0]


def test_a_run_is_known_by_the_answers_it_is_made_of(endpoint: str, kept: Path) -> None:
    before = pipeline(endpoint, kept).reads()
    assert pipeline(endpoint, kept).reads() == before
    sorted(kept.rglob("chat/*/*.json"))[0].unlink()
    assert pipeline(endpoint, kept).reads() != before


@pytest.mark.parametrize("change", ["schemas: none", "repairs: 0"])
def test_a_run_is_known_by_how_its_answers_are_asked_for(change: str, endpoint: str, conf: Callable[..., Path]) -> None:
    same = "url: http://127.0.0.1:9/v1\nmodel: tiny-1\nparameters: {max_tokens: 100}\nprice_in: 10.0\nprice_out: 30.0\n"
    conf("llm", "same", same)
    conf("llm", "other", same + change)
    before = load_system("theorem-pipeline-mini", llm=endpoint, system="bm25").reads()
    assert load_system("theorem-pipeline-mini", llm="same", system="bm25").reads() == before
    assert load_system("theorem-pipeline-mini", llm="other", system="bm25").reads() != before


@pytest.mark.slow
@pytest.mark.parametrize("batch", [4096, 20])
def test_a_dry_run_says_what_it_would_take_and_asks_nobody(
    batch: int, endpoint: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(informalise, "_BATCH", batch)
    said = r"dry run, nothing is searched: informal 91 calls, .* augment 40 calls, .*system\.mode=live"
    refuses(said, lambda: produced(pipeline(endpoint, tmp_path / "kept", mode="dry"), tmp_path))
    assert server.bodies == []


@pytest.mark.parametrize(("settings", "fault"), literals("systems/theorem_faults"))
def test_faults_of_its_configuration(settings: dict[str, object], fault: str) -> None:
    with pytest.raises(HarnessError, match=fault) as caught:
        load_system("theorem-pipeline", **settings)
    assert len(caught.value.lines) == 1
