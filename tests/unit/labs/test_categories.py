"""Scores by category of topics in receipts: values by hand, and nothing of them where they would tell judgments."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path

import pytest
from lab_tools import TOPICS, Conf, collection, run_file, tiny_lab
from server_tools import served

from harness.data.topics import Topic
from harness.labs.lab import Lab
from harness.labs.receipts import Shown, team_receipt
from harness.labs.standing import scores_by_category, topic_slices
from harness.labs.submit import Offer, submit_run, withdraw_run
from harness.scoring.protocol import load_protocol
from harness.scoring.scores import Scores

RELEVANT = {"a": ("d1", "d2", "d3", "d4"), "b": ("d1",), "c": ("d1", "d9"), "none": ("d8", "d9")}
LEVEL = {topic: "high; odd" if n == 1 else "high" if n < 6 else "low" for n, topic in enumerate(TOPICS)}


def levelled_lab(conf: Conf, folder: Path, **settings: object) -> Lab:
    """A lab by P@5 on eight topics, d1 to d4 relevant for each: six are high, of which one is also odd, two are low."""
    judged = {topic: dict.fromkeys(RELEVANT["a"], 1) | {"d9": 0} for topic in TOPICS}
    collection(conf, folder / "data", judged, private=bool(settings.get("private")))
    attributes = {topic: {"level": LEVEL[topic], "year": "2026"} for topic in TOPICS}
    topics = "".join(json.dumps({"id": t, "title": "x", "attributes": of}) + "\n" for t, of in attributes.items())
    (folder / "data" / "topics.jsonl").write_text(topics)
    return tiny_lab(folder / "lab", **{"measures": ["P@5"], "cap": 9, "least_results": 1, **settings})


def submitted(lab: Lab, team: str, high: str, low: str, label: str = "r") -> Shown:
    """Submits a run that has, for high and low topics, the documents of these names."""
    path = lab.folder.parent / f"{team}-{label}.run"
    docs = {topic: RELEVANT[low if LEVEL[topic] == "low" else high] for topic in TOPICS}
    lines = [f"{t} Q0 {d} {n} {9 - n} x\n" for t, found in docs.items() for n, d in enumerate(found, 1)]
    path.write_text("".join(lines))
    return team_receipt(lab, submit_run(lab, Offer(path, team, label)))


def test_categories_stand_beside_the_median_of_the_other_ranked_runs(conf: Conf, tmp_path: Path) -> None:
    lab = levelled_lab(conf, tmp_path)
    rows = (("level: high", "6", "0.8000"), ("level: low", "2", "0.2000"), ("level: odd", "1", "0.8000"))
    first = submitted(lab, "A", "a", "b")
    assert first.by_category == (("topics with", "n", "P@5"), *rows)
    assert first.category_notes == ("3 categories have fewer than 10 topics: such means say little",)
    submitted(lab, "A", "none", "a", "other")  # not the primary run of its team, so in nobody's median
    submitted(lab, "B", "none", "c")
    submitted(lab, "C", "c", "none")
    withdraw_run(lab, "C", "r")
    last = submitted(lab, "D", "b", "a")
    # High: 0.2, beside 0.8 and 0.0; low: 0.8, beside 0.2 and 0.2.
    assert last.by_category == (
        ("topics with", "n", "P@5", "median of 2 other runs", "difference"),
        ("level: high", "6", "0.2000", "0.4000", "-0.2000"),
        ("level: low", "2", "0.8000", "0.2000", "+0.6000"),
        ("level: odd", "1", "0.2000", "0.4000", "-0.2000"),
    )
    again = submitted(lab, "A", "b", "none", "third")  # its team's primary run stays out of the median
    assert again.by_category[1] == ("level: high", "6", "0.2000", "0.1000", "+0.1000")
    (lab.folder / "submissions/B/r.v1/scores.json").unlink()
    (lab.folder / "submissions/B/r.v1/run.txt").unlink()
    assert submitted(lab, "E", "c", "c").by_category[0][3] == "median of 2 other runs"


def test_topics_that_do_not_count_are_in_no_mean() -> None:
    """By hand: of three topics of a category, one is NaN for the run and another for the other run."""
    known = {name: Topic(name, "", attributes={"kind": kind}) for name, kind in zip("abcd", "xxxy", strict=True)}
    nan, protocol = math.nan, load_protocol("trec_eval")

    def scores(run: str, *values: float) -> Scores:
        import numpy as np

        return Scores(run, "c", "e", protocol, ("AP",), tuple("abcd"), np.array([[v] for v in values]))

    x, y = scores_by_category(
        scores("m", 0.5, nan, 0.1, nan), "AP", [scores("o", 0.2, 0.4, nan, nan), scores("p", 1, 1, 1, 0.25)], known
    )
    assert (x.attribute, x.value, x.topics) == ("kind", "x", 2)
    assert [x.mean, x.median, x.difference] == pytest.approx([0.3, 0.65, -0.35])  # median of 0.3 and 1
    assert y.topics == 0 and math.isnan(y.mean) and y.median == 0.25 and math.isnan(y.difference)
    assert topic_slices("abc", known) == {}
    assert topic_slices("abcd", known)["kind"] == {"x": ["a", "b", "c"], "y": ["d"]}


def test_the_notes_name_the_strongest_and_the_weakest_category(conf: Conf, tmp_path: Path) -> None:
    from harness.labs import receipts

    lab = levelled_lab(conf, tmp_path)
    submitted(lab, "A", "b", "b")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(receipts, "SMALL", 2)
        notes = submitted(lab, "B", "c", "a").category_notes
    assert notes == (
        "relative to the median, strongest on level: low (+0.6000, n = 2); weakest on level: high (+0.0000, n = 6); "
        "these differences are not tested",
        "1 category has fewer than 2 topics: such means say little",
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"private": True},
        {"private": True, "per_topic": True},
        {"private": True, "feedback": "none"},
        {"per_topic": False},
    ],
)
def test_without_public_scores_per_topic_no_category_is_told(
    conf: Conf, tmp_path: Path, settings: dict[str, object]
) -> None:
    """Not even of one topic, or of all but one; neither by command nor by the pages and the API of a server."""
    lab = levelled_lab(conf, tmp_path, **settings)
    receipt = submit_run(lab, Offer(run_file(tmp_path / "m.run", 1), "A", "one"))
    assert (receipt.categories, receipt.compared) == ((), 0)
    shown = team_receipt(lab, receipt)
    assert (shown.by_category, shown.category_notes) == ((), ()) and "level" not in str(asdict(shown))
    site = served(lab)
    upload = site.submit(token := site.team("Z"), run_file(tmp_path / "z.run", 2).read_bytes(), label="two")
    page = site.client(token).get(f"/submissions/{upload['id']}").text
    assert upload["receipt"]["by_category"] == [] and "Categories of topics" not in page and "level" not in page


def test_the_page_of_a_submission_shows_the_categories_escaped(conf: Conf, tmp_path: Path) -> None:
    lab = levelled_lab(conf, tmp_path)
    topics = tmp_path / "data" / "topics.jsonl"
    topics.write_text(topics.read_text().replace('"low"', '"<b>low</b>"'))
    site = served(lab)
    upload = site.submit(token := site.team("A"), run_file(tmp_path / "m.run", 1).read_bytes(), label="one")
    assert upload["receipt"]["by_category"][1][:2] == ["level: <b>low</b>", "2"]
    page = site.client(token).get(f"/submissions/{upload['id']}").text
    assert "<h2>Categories of topics</h2>" in page and "level: &lt;b&gt;low" in page and "<b>low" not in page
