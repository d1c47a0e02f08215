"""What a language model does to theorem search: the 40 queries of `mini-theorems`, as typed and as it writes them out.

Each retriever searches the statements in Lean (`formal`) and the statements with the model's prose beside them
(`formal+informal`), for each query as it is and augmented to the same form; pairs differ in that alone. Queries of one
group share their judgments, so that tests are of the means of groups. All answers come from the folder of kept ones;
`--live` asks a server of the endpoint for those that are missing.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from pathlib import Path

from bench.theorems import machine, number, table
from harness.experiments.evaluate import evaluate
from harness.experiments.task import task
from harness.io import config
from harness.scoring.compare import compare
from harness.store import prompts
from harness.store.llm import Ask, Client, load_endpoint
from harness.systems.base import Request
from harness.systems.build import load_system
from harness.systems.theorems import augment

PIPELINE, COLLECTION = "theorem-pipeline-mini", "mini-theorems"
VIEWS = ("formal", "formal+informal")
MEASURES = ("nDCG@20", "P@10", "R@10", "RR")
PERMUTATIONS = 100_000


def searchers() -> dict[str, object]:
    """The retrievers, by what the tables call them."""
    return {"BM25": "bm25", "MiniLM": config.load("system", PIPELINE)[0]["system"]}


def answered(mode: str, folder: Path) -> None:
    """How many queries the model wrote out, and what was wrong with the others."""
    client = Client(load_endpoint(str(config.load("system", PIPELINE)[0]["llm"])), mode, cache=folder)  # type: ignore[arg-type]
    queries = [augment.asked(topic, ("title", "body")) for topic in task(COLLECTION, COLLECTION).topics]
    answers = client.ask([Ask(prompts.messages(augment.PROMPT, query=query), augment.SCHEMA) for query in queries])
    wrong = Counter(answer.failed.partition(":")[0] for answer in answers if answer.failed)
    tokens = f"{sum(a.tokens_in for a in answers):,} tokens in, {sum(a.tokens_out for a in answers):,} out"
    print(f"{client.endpoint.model}: {len(answers) - wrong.total()} of {len(answers)} queries written out ({tokens})")
    print("; ".join(f"{count} failed: {why}" for why, count in wrong.most_common()))


def main() -> None:
    """Search, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--live", action="store_true", help="ask for answers that are missing")
    parser.add_argument("--answers", type=Path, default=Path("corpora/mini-theorems-answers.jsonl"))
    arguments = parser.parse_args()
    mode = "live" if arguments.live else "replay"
    answered(mode, arguments.answers)
    mini = task(COLLECTION, COLLECTION, measures=MEASURES)
    runs, pairs = [], []
    with tempfile.TemporaryDirectory() as folder:
        for view in VIEWS:
            for name, system in searchers().items():
                names = [f"{name}_{view}_{what}" for what in ("plain", "augmented")]
                for augmented, run in enumerate(names):
                    given = {"view": view, "augment": bool(augmented), "system": system, "name": run}
                    made = load_system(PIPELINE, mode=mode, cache={"file": str(arguments.answers)}, **given)
                    runs.append(made(Request(mini.topics, mini.corpus, Path(folder))))
                pairs.append((names[1], names[0]))
    found = evaluate(mini, *runs)
    clusters = mini.collection.clusters()
    tests = compare(
        found.scores,
        pairs=pairs,
        measures=MEASURES,
        test="randomization",
        permutations=PERMUTATIONS,
        clusters=clusters,
    )
    table(
        (f"{found.scores[0].n(MEASURES[0])} queries: retriever, documents, queries", *MEASURES),
        [
            (scores.run.replace("_", ", "), *(number(scores.mean(measure)) for measure in MEASURES))
            for scores in found.scores
        ],
    )
    table(
        ("augmented − plain", "measure", "mean", "95% interval", "better / equal / worse", "p", "Holm"),
        [
            (
                ", ".join(row.a.split("_")[:2]),
                row.measure,
                f"{row.difference:+.3f}",
                f"{row.ci_low:+.3f} to {row.ci_high:+.3f}",
                f"{row.wins} / {row.ties} / {row.losses}",
                f"{row.p_randomization:.4f}",
                f"{row.p_holm:.4f}",
            )
            for row in tests.rows
        ],
    )
    print(f"\n{tests.rows[0].n} groups of queries; two-sided randomization tests, corrected over {tests.family}\n")
    machine()


if __name__ == "__main__":
    main()
