"""Annotations by a language model that answers well and badly, what they cost, and by the annotator that stands in."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from llm_server import Server, serving

from harness.errors import HarnessError
from harness.papers.saber import local, model, pipeline, steps
from harness.papers.saber.annotate import ANNOTATIONS, AnnotateSettings, Annotation, read_annotations, write_annotations
from harness.papers.saber.databank import MathProblem
from harness.papers.saber.ontology import Ontology
from harness.store.llm import Client


def node(title: str, *links: object) -> dict[str, object]:
    return {"title": title, "links": list(links)}


TOPS = ("Algebra", "Geometry", "Topology")
TREE = Ontology.of(
    node("M", *(node(top, *(node(f"{top}{i}", node("Leaf"), node("Bud")) for i in "12")) for top in TOPS))
)
WORDS = (
    *("take", "the", "sum", "of", "all", "roots", "and", "show", "that", "an", "even"),
    *("number", "divides", "this", "product", "of", "sides"),
)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as made:
        made.answer = well
        yield made


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))


def schema(body: dict[str, Any]) -> dict[str, Any]:
    return dict(body["response_format"]["json_schema"]["schema"])


def well(body: dict[str, Any]) -> str:
    """As a model should: one or two topics of a level by the text, and none below some."""
    text = body["messages"][0]["content"]
    rng = random.Random(f"{text[-200:]}{sorted(schema(body)['properties'])}")
    if "coreIdea" in schema(body)["properties"]:
        core = " ".join(rng.sample(WORDS, rng.randint(4, 12)))
        return json.dumps({"noCoreIdea": False, "coreIdea": core, "supportingIdeas": ["count twice"]})
    titles = schema(body)["required"]
    chosen = rng.sample(titles, 1 if rng.random() < 0.9 else min(2, len(titles)))
    return json.dumps({title: 1.0 if title in chosen else 0.25 for title in titles})


def problems(count: int) -> list[MathProblem]:
    rng = random.Random(5)

    def some(low: int, high: int) -> str:
        return " ".join(rng.choices(WORDS, k=rng.randint(low, high)))

    return [MathProblem(f"p{i}", f"Problem {i}: {some(8, 40)}", some(20, 120)) for i in range(count)]


def annotated(part: list[MathProblem], client: Client) -> tuple[dict[str, Annotation], Counter[str]]:
    found: dict[str, Annotation] = {}
    bad: Counter[str] = Counter()
    for name, annotation, counts in model.annotated(part, TREE, client, 0.85):
        found[name] = annotation
        bad += counts
    return found, bad


@pytest.mark.slow
def test_tags_are_walked_level_by_level(server: Server) -> None:
    found, bad = annotated(problems(4), Client(server.endpoint(timeout=60.0)))
    assert not bad
    asked = sum("coreIdea" not in schema(body)["properties"] for body in server.bodies)
    for name, annotation in found.items():
        assert annotation.core
        assert annotation.supporting == ("count twice",)
        assert all(tag in TREE.children and value == 1.0 for tag, value in annotation.tags.items()), name
        for tag in annotation.tags:
            assert tag.rpartition("/")[0] in {"", *annotation.tags}
    inner = sum(bool(TREE.children[tag]) for annotation in found.values() for tag in annotation.tags)
    assert asked == 4 + inner
    below = [body for body in server.bodies if '"Algebra" is the topic' in body["messages"][0]["content"]]
    assert all("Algebra1, Algebra2, Algebra" in body["messages"][0]["content"] for body in below)


def test_relevance_below_the_threshold_ends_the_walk(server: Server) -> None:
    server.answer = lambda body: (
        well(body)
        if "coreIdea" in schema(body)["properties"]
        else json.dumps({title: 0.9 if title == "Algebra" else 0.5 for title in schema(body)["required"]})
    )
    found, _ = annotated(problems(2), Client(server.endpoint(timeout=60.0)))
    assert [annotation.tags for annotation in found.values()] == [{"Algebra": 1.0}] * 2
    assert len(server.bodies) == 2 * 3


@pytest.mark.parametrize("core", [None, "word " * 31, 7, ""], ids=["missing", "31 words", "number", "empty"])
def test_bad_answers_are_asked_again_then_counted(core: object, server: Server) -> None:
    def answer(body: dict[str, Any]) -> str:
        if "coreIdea" not in schema(body)["properties"]:
            return json.dumps(dict.fromkeys(schema(body)["required"], 7))
        rest = {} if core is None else {"coreIdea": core}
        return json.dumps({"noCoreIdea": False, "supportingIdeas": [], **rest})

    server.answer = answer
    found, bad = annotated(problems(2), Client(server.endpoint(repairs=1, timeout=60.0)))
    assert bad == {"bad answers on ideas": 2, "bad answers on topics": 2}
    assert list(found.values()) == [Annotation(), Annotation()]
    assert len(server.bodies) == 2 * 2 * 2


def test_no_idea_is_none(server: Server) -> None:
    none = json.dumps({"noCoreIdea": True, "coreIdea": None, "supportingIdeas": []})
    server.answer = lambda body: none if "coreIdea" in schema(body)["properties"] else well(body)
    found, bad = annotated(problems(2), Client(server.endpoint(timeout=60.0)))
    assert [annotation.core for annotation in found.values()] == [None, None]
    assert not bad


@pytest.mark.slow
def test_the_step_writes_what_the_model_says(server: Server, conf: Callable[[str, str, str], Path]) -> None:
    conf("llm", "mine", f"model: tiny-1\nurl: {server.url}\nprice_in: 1.0\nprice_out: 2.0\n")
    settings, where = pipeline.load_settings("saber-mini")
    by_model = replace(settings, annotate=AnnotateSettings(by="llm", endpoint="mine"))
    folders = steps.build_steps(pipeline.steps(by_model, where)[:2])
    found = read_annotations(folders["annotate"] / ANNOTATIONS)
    assert {each.supporting for each in found.values()} == {("count twice",)}
    counts = pipeline.counts_of(folders["annotate"])
    assert counts["problems"] == len(found) > 40
    calls = len(server.bodies)
    assert steps.build_steps(pipeline.steps(by_model, where)[:2]) == folders
    assert len(server.bodies) == calls


# ---- dollars by a model -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_is_half_done_is_not_counted_twice(server: Server) -> None:
    every, endpoint = problems(30), server.endpoint(timeout=60.0)
    annotated(every[:25], Client(endpoint))
    whole = model.plan(every, TREE, Client(endpoint, "dry"), 0.85)
    Client(endpoint).ask([model.idea_ask(problem) for problem in every])
    rest = model.plan(every, TREE, Client(endpoint, "dry"), 0.85)
    assert rest.calls == pytest.approx(whole.calls - 5)
    assert 0 < rest.cost < whole.cost


def test_dollars_by_the_model_are_taken_only_if_nothing_else_changed(server: Server) -> None:
    texts = {"Find x.": r"\boxed{Find $x$.}", "Take y = 2.": r"\boxed{Take $y = 3$.}"}
    texts |= {"So 5.": "So $5$.", "Do it.": r"\boxed{Do it.}"}
    server.answer = lambda body: next(
        a for q, a in texts.items() if body["messages"][0]["content"].rstrip().endswith(q)
    )
    given = [MathProblem("a", "Find x.", "Take y = 2."), MathProblem("b", "So 5.", "Do it.")]
    found, counts = model.rewriter(Client(server.endpoint(timeout=60.0)))(given)
    assert found == [MathProblem("a", "Find $x$.", "Take $y = 2$."), MathProblem("b", "So $5$.", "Do it.")]
    assert counts == {"texts rewritten by the model": 2, "bad answers, rewritten by rule": 2}


# ---- the annotator that stands in -------------------------------------------------------------------------------


def test_the_local_annotator_is_deterministic_and_finds_titles() -> None:
    tree = Ontology.of(node("M", node("Geometry", node("InscribedCircle"), node("Square")), node("Algebra")))
    tangents = "The tangents from each vertex are equal, which gives the radius."
    adding = "Note that adding all three equations removes every unknown but the first one, $x$."
    given = [
        MathProblem("a", "Find the radius of the inscribed circle.", tangents),
        MathProblem("b", "Which square is largest?", "Add $1$. So $x=2$."),
        MathProblem("c", "Solve it.", adding),
    ]
    found = dict(local.annotated(given, tree))
    assert found == dict(local.annotated(given, tree))
    assert max(found["a"].tags, key=lambda tag: found["a"].tags[tag]) == "Geometry/InscribedCircle"
    assert "Geometry/Square" in found["b"].tags
    assert found["c"].tags == {}
    assert found["b"].core is None
    assert found["c"].core == "Note that adding all three equations removes every unknown but the first one, …."
    for annotation in found.values():
        values = annotation.tags.values()
        assert not values or (max(values) == 1.0 and all(0 <= value <= 1 for value in values))


def test_annotations_are_read_as_they_were_written(tmp_path: Path) -> None:
    made = {"a": Annotation("Do it", ("x",), {"Algebra": 1.0}), "b": Annotation()}
    write_annotations(tmp_path / "a.jsonl", made)
    assert read_annotations(tmp_path / "a.jsonl") == made


def test_a_model_needs_an_endpoint() -> None:
    with pytest.raises(HarnessError, match="key 'endpoint' is missing"):
        AnnotateSettings(by="llm")
