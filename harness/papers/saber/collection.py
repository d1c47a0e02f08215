"""Writes the built collection: queries with rated candidates, documents, and their configurations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.data.trec import Qrels
from harness.errors import HarnessError
from harness.io.files import write_atomic
from harness.papers.saber.analyses import best_rated, formulas_only, words_only
from harness.papers.saber.databank import MathProblem, problem_named
from harness.papers.saber.lines import write_lines
from harness.papers.saber.rate import RATINGS, Ratings, write_ratings
from harness.papers.saber.select import Target

QUERIES = "queries.jsonl"
DOCUMENTS = "documents.jsonl"
JOINED = "documents-joined.jsonl"
VARIANTS = {"formulas": formulas_only, "words": words_only}


def as_qrels(rated: Sequence[Ratings], edition: str = "ratings") -> Qrels:
    """Converts ratings to judgments; the grades are the exact ratings, real numbers.

    >>> from harness.papers.saber.rate import Rating
    >>> as_qrels([Ratings("t", (Rating("a", 2.5, 0.1, 0.0, 3, 1),))]).grade.tolist()
    [2.5]
    """
    return Qrels.from_dict(edition, {each.target: each.by_candidate() for each in rated})


def write_collection(
    folder: Path,
    name: str,
    problems: Mapping[str, MathProblem],
    targets: Sequence[Target],
    rated: Sequence[Ratings],
    *,
    title: str,
    licence: str,
    notes: Sequence[str] = (),
) -> None:
    """Writes a collection to a folder; `HARNESS_CONF=FOLDER/conf` makes it available by its name.

    Files:

    - `queries.jsonl`, `documents.jsonl`: as `harness.papers.saber.readers` reads them, with exact ratings.
    - `ratings.jsonl`: ratings with their standard errors.
    - `queries-formulas.jsonl`, `queries-words.jsonl`: the formulas and the words of the queries that have both, as has
      each of their five best-rated candidates.
    - `documents-joined.jsonl`: statements and solutions without any words between them.
    - `conf/collection/`: NAME, NAME-full (queries with their solutions), NAME-formulas and NAME-words, whose runs on
      NAME-joined `analyses.preference` compares.
    - `conf/corpus/`: NAME (with solutions), NAME-statements, NAME-joined.

    Raises
    ------
    HarnessError
        A target has no ratings, a problem is not in the databank, or a file cannot be written.
    """
    by_target = {each.target: each for each in rated}
    queries: list[dict[str, Any]] = []
    documents: dict[str, MathProblem] = {}
    for target in targets:
        if target.id not in by_target:
            raise HarnessError(f"target {target.id}: has no ratings")
        ratings = by_target[target.id].by_candidate()
        for candidate in ratings:
            documents[candidate] = problem_named(problems, candidate)
        source = {each.id: each.source for each in target.candidates}
        own = problem_named(problems, target.id)
        query: dict[str, Any] = {"id": target.id, "problem": own.statement, "solution": own.solution}
        query |= {"domains": list(target.domains) or [target.domain], "candidates": list(ratings)}
        query |= {"relevance_scores": list(ratings.values()), "signals": [source.get(each) for each in ratings]}
        queries.append(query)
    rows = ({"id": key, "problem": each.statement, "solution": each.solution} for key, each in documents.items())
    write_lines(folder / QUERIES, queries)
    write_lines(folder / DOCUMENTS, rows)
    order = {key: place for place, key in enumerate(problems)}
    cut = [
        query
        for query in queries
        if _is_in_both_variants(query["problem"])
        and all(
            _is_in_both_variants(documents[name].statement, documents[name].solution)
            for name in best_rated(by_target[query["id"]], order)
        )
    ]
    for variant, reduce in VARIANTS.items():
        reduced = ({**query, "problem": reduce(query["problem"]), "solution": ""} for query in cut)
        write_lines(folder / f"queries-{variant}.jsonl", reduced)
    # As the authors' code joins them for the comparison of formulas and words.
    joined = ({"id": key, "text": each.statement + each.solution} for key, each in documents.items())
    write_lines(folder / JOINED, joined)
    write_ratings(folder / RATINGS, rated)
    whole, of_cut = ((len(some), sum(len(query["candidates"]) for query in some)) for some in (queries, cut))
    for path, content in configurations(name, title, licence, whole, of_cut, notes).items():
        write_atomic(folder / path, content)


def _is_in_both_variants(*texts: str) -> bool:
    return all(any(map(reduce, texts)) for reduce in VARIANTS.values())


def configurations(
    name: str, title: str, licence: str, counts: tuple[int, int], cut: tuple[int, int], notes: Sequence[str] = ()
) -> dict[str, str]:
    """Returns path -> content of the configuration files.

    `counts` are the numbers of queries and of candidates, `cut` those of the queries cut to their formulas or words, if
    there are any.
    """
    import yaml

    joined = f"{name}-joined"
    made = [
        ("", QUERIES, "saber", name, counts, ""),
        ("-full", QUERIES, "saber-full", name, counts, ", queries with their solutions"),
        *((f"-{each}", f"queries-{each}.jsonl", "saber", joined, cut, f", the {each} of queries") for each in VARIANTS),
    ]
    out = {}
    for suffix, source, reader, corpus, (topics, judgments), also in made:
        if not topics:
            continue
        file = {"file": f"../../{source}"}
        edition = {"title": "ratings from 0 to 5 by a tournament of preferences", "qrels": {"reader": "saber", **file}}
        said = ["Runs rank the candidates of each query only (rerank=true); ratings are real numbers.", *notes]
        about = {"name": name + suffix, "title": title + also, "licence": licence, "protocol": "saber"}
        editions = {"ratings": {**edition, "topics": topics, "judgments": judgments}}
        asked = {"topics": {"reader": reader, **file}, "corpus": corpus, "notes": said}
        out[f"conf/collection/{name}{suffix}.yaml"] = {**about, "editions": editions, **asked}
    corpora: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
        ("", "statements with their solutions", DOCUMENTS, {"reader": "saber"}),
        ("-statements", "statements alone", DOCUMENTS, {"reader": "saber-statements"}),
        ("-joined", "statements and solutions, joined", JOINED, {"fields": {"id": "id", "text": "body"}}),
    )
    for suffix, also, source, how in corpora:
        about = {"name": name + suffix, "title": f"{title}: {also}", "licence": licence}
        out[f"conf/corpus/{name}{suffix}.yaml"] = {**about, "file": {"file": f"../../{source}"}, **how}
    return {path: yaml.safe_dump(each, sort_keys=False, allow_unicode=True, width=120) for path, each in out.items()}
