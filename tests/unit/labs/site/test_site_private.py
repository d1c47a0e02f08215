"""Sites under the rules of labs: published means, pseudonyms, held-out topics, and acts of organisers."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from lab_tools import DOCS, TOPICS, Conf, collection, judgments, tiny_lab
from site_tools import bare, build, sent
from typer.testing import CliRunner

from harness.cli.main import app
from harness.errors import HarnessError
from harness.labs.acts import act, reveal
from harness.labs.journal import Appealed, Disqualified, Refunded, Reinstated
from harness.labs.lab import Lab, read_lab
from harness.labs.roster import add_team
from harness.labs.shown_scores import public_and_held_out
from harness.labs.submissions import events, scores_of, submissions
from harness.labs.submit import withdraw_run

REAL = ("Zeppelin", "Quokka")
OURS = {
    "method": {"retrieval": [{"name": "x", "method": "BM25"}]},
    "implementation": {
        "source": {"repository": "https://example.org/zep-pelin/x"},
        "executable": {"cmd": "/home/zeppelin/run.sh"},
    },
    "resources": {"latency": {"mean": "250 ms"}},
}


def ranking(lab: Lab, *options: str) -> object:
    """What `harness leaderboard` prints for a lab."""
    found = CliRunner().invoke(app, ["leaderboard", str(lab.folder), "--json", "--quiet", *options])
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)[0]


def made(lab: Lab) -> Path:
    site = lab.folder.parent / "site"
    code, said = build(lab.folder, "-o", site, "--quiet")
    assert code == 0, said
    return site


def texts(site: Path) -> dict[str, str]:
    """All that a site says, and its files' names, without our own styles, scripts and schemas."""
    found = {path.relative_to(site).as_posix(): path for path in site.rglob("*") if path.is_file()}
    return {name: f"{name}\n{bare(path.read_text())}" for name, path in found.items() if "schemas/" not in name}


def document(site: Path, path: str) -> dict[str, object]:
    found: dict[str, object] = json.loads((site / "lab" / path).read_text())
    return found


def exact(lab: Lab, *, topics: frozenset[str] = frozenset(TOPICS)) -> Iterator[str]:
    """Exact scores and means with three to six decimals, but those that a rounded mean may equal."""
    for submission in submissions(lab):
        scores = scores_of(lab, submission)
        for part in (scores, scores.select(topics)):
            for value in (*part.values.ravel().tolist(), *map(part.mean, part.measures)):
                shown = [] if math.isnan(value) else [f"{value:.{digits}f}" for digits in (3, 4, 5, 6)]
                yield from (each for each in shown if abs(float(each) * 100 - round(float(each) * 100)) > 1e-9)


def telling(lab: Lab, site: Path) -> set[str]:
    """What a file of a private lab's site tells of topics, judged documents and exact scores."""
    shown = "\n".join(texts(site).values())
    numbers = set(re.findall(r"(?<![\d.])\d\.\d+", shown))
    qrels = lab.task().scorer.qrels.sha256
    found = {each for each in (*DOCS, *TOPICS, qrels, qrels[:12]) if each in shown}
    return found | numbers.intersection(exact(lab)) | {name for name in texts(site) if "/topics/" in name}


@pytest.fixture(autouse=True)
def _known_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise by chance could make a shown mean look like an exact score."""
    monkeypatch.setattr("harness.labs.lab.new_key", lambda: "5" * 64)


@pytest.fixture
def lab(conf: Conf, tmp_path: Path) -> Lab:
    """A lab with private judgments, and no runs yet."""
    collection(conf, tmp_path / "data", judgments(), private=True)
    return tiny_lab(tmp_path / "lab", cap=9, measures=["nDCG", "AP"])


def setting(lab: Lab, line: str) -> Lab:
    """The lab with another setting; the last of a key counts."""
    path = lab.folder / "lab.yaml"
    key = line.partition(":")[0]
    kept = [each for each in path.read_text().splitlines() if not each.startswith(f"{key}:")]
    path.write_text("\n".join([*kept, line]) + "\n")
    return read_lab(lab.folder)


@pytest.mark.slow
def test_means_are_those_that_the_lab_published(conf: Conf, tmp_path: Path) -> None:
    """On the ladder a worse run shows its team's best means, and nothing is significant."""
    collection(conf, tmp_path / "data", judgments(), private=True)
    lab = tiny_lab(tmp_path / "lab", cap=9, measures=["nDCG", "AP"], ladder=True, decimals=2, results=10)
    for seed, label in ((1, "one"), (2, "two"), (3, "three")):
        sent(lab, seed, "A", label)
    sent(lab, 4, "B", "one")
    site = made(lab)
    assert telling(lab, site) == set()
    assert document(site, "leaderboard.json") == ranking(lab)
    known = {(each.name, "nDCG"): each.means["nDCG"] for each in submissions(lab)}
    with (site / "lab/leaderboard.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {(row["run"], row["measure"]): float(row["mean"]) for row in rows} == known
    assert {row["group"] for row in rows} == {""}
    for each in submissions(lab):
        stem = f"runs/{each.team.lower()}/{each.label}.v1"
        found = document(site, f"{stem}.json")
        assert found["group"] == ""
        assert {m: part["value"] for m, part in found["means"].items()} == {"nDCG": each.means["nDCG"]}  # type: ignore[attr-defined]
        with (site / f"lab/{stem}.csv").open(newline="") as file:
            assert {row["measure"]: float(row["mean"]) for row in csv.DictReader(file)} == {"nDCG": each.means["nDCG"]}
        page = (site / f"lab/{stem}.html").read_text()
        assert f">{each.means['nDCG']:.{lab.decimals}f}<" in page
    for path in (site / "lab").rglob("*.html"):
        said = bare(path.read_text())
        assert "paired t-test p" not in said
        assert "share a letter" not in said
        assert ">group<" not in said
    assert "nothing is tested: one private judgment may decide" in (site / "lab/about.html").read_text()


@pytest.mark.slow
def test_published_means_stay_as_they_were(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as those of a lab from before there was noise."""
    given = {1: {"nDCG": 0.31, "AP": 0.12}, 2: {"nDCG": 0.33, "AP": 0.11}}
    for seed, means in given.items():
        monkeypatch.setattr("harness.labs.submit.shown_means", lambda *_, means=means: means)
        sent(lab, seed, "A", f"run-{seed}")
    site = made(lab)
    assert telling(lab, site) == set()
    assert document(site, "leaderboard.json") == ranking(lab)
    for seed, means in given.items():
        found = document(site, f"runs/a/run-{seed}.v1.json")
        assert {name: part["value"] for name, part in found["means"].items()} == means  # type: ignore[attr-defined]
    page = bare((site / "lab/runs/a/run-2.v1.html").read_text())
    assert "nDCG is 0.33; that of the best run, " not in page
    assert "a difference of" in page
    assert "paired t-test p" not in page


def private_site(conf: Conf, tmp_path: Path, **settings: object) -> tuple[Lab, Path]:
    collection(conf, tmp_path / "data", judgments(), private=True)
    lab = tiny_lab(tmp_path / "lab", cap=5, measures=["nDCG", "AP"], **settings)
    for seed, team, label in ((1, "A", "first"), (2, "B", "only"), (3, "A", "other"), (4, "A", "first")):
        sent(lab, seed, team, label, OURS)
    return lab, made(lab)


@pytest.mark.slow
def test_scores_per_topic_alone_do_not_make_pages_of_topics(conf: Conf, tmp_path: Path) -> None:
    lab, site = private_site(conf, tmp_path, per_topic=True)
    assert telling(lab, site) == set()
    run = document(site, "runs/a/first.v2.json")
    assert run["values"] == {}
    assert run["means"]["nDCG"]["low"] is run["means"]["nDCG"]["n"] is None  # type: ignore[index]
    assert [file["name"] for file in run["files"]] == ["run.txt", "run.ir-metadata.yml"]  # type: ignore[attr-defined]
    assert "only the organisers can score" in (site / "lab/runs/a/first.v2.html").read_text()


@pytest.mark.slow
def test_pages_of_topics_are_deleted_once_judgments_are_private_again(conf: Conf, tmp_path: Path) -> None:
    """And the scan finds what they tell, as long as the lab allows them."""
    lab, site = private_site(conf, tmp_path, per_topic=True, topic_pages=True)
    told = telling(lab, site)
    assert {*DOCS, *TOPICS} & told > set(TOPICS)
    assert told & set(exact(lab))
    assert (site / "lab/pairs.html").is_file()
    lab = setting(lab, "topic_pages: false")
    assert telling(lab, made(lab)) == set()


@pytest.mark.parametrize("key", ["held_out", "ladder"])
def test_labs_that_hide_more_have_no_pages_of_topics(conf: Conf, tmp_path: Path, key: str) -> None:
    collection(conf, tmp_path / "data", judgments(), private=True)
    with pytest.raises(HarnessError, match="'topic_pages' is true, but participants do not see scores per topic"):
        tiny_lab(tmp_path / "lab", cap=5, measures=["nDCG"], topic_pages=True, **{key: True})
    with pytest.raises(HarnessError, match=f"keys '{key}' and 'per_topic' exclude each other"):
        tiny_lab(tmp_path / "lab", cap=5, measures=["nDCG"], topic_pages=True, per_topic=True, **{key: True})


@pytest.mark.slow
def test_pseudonyms_are_everywhere_until_their_end(lab: Lab) -> None:
    lab = setting(lab, "pseudonyms_until: 2099-01-01T00:00:00Z")
    (zeppelin, _), (quokka, _) = (add_team(lab, name) for name in REAL)
    sent(lab, 1, zeppelin, "old", OURS, code="https://example.org/a", description="By the team ZEPPELIN.")
    sent(lab, 2, zeppelin, "old", OURS, code="https://example.org/b", description="Better than before.")
    sent(lab, 3, zeppelin, "gone", description="As Quokka did.")
    withdraw_run(lab, zeppelin, "gone", reason="Zeppelin's mistake")
    sent(lab, 4, quokka, "other", OURS, external_data="data of quok-ka")
    sent(lab, 5, quokka, "out")
    act(lab, Disqualified, quokka, "out", reason="Quokka knew")
    sent(lab, 6, "A", "known", OURS, code="https://example.org/known", description="Not by Quokka.")
    sent(lab, 7, "B", "known", {"method": {"k1": 1.5}}, code="https://example.org/known")
    site = made(lab)
    shown = texts(site)
    spelled = re.compile("zep-?pelin|quok-?ka|example.org/[ab]|run\\.sh", re.IGNORECASE)
    assert {name: found for name, text in shown.items() if (found := spelled.findall(text))} == {}
    assert telling(lab, site) == set()
    assert {path.name for path in (site / "lab/runs").iterdir()} == {zeppelin, quokka, "a", "b"}
    assert f"{zeppelin} / gone" in shown["lab/feed.xml"]
    assert f"Former run of {quokka}" in shown[f"lab/runs/{quokka}/out.v1.html"]
    assert f"submissions/{zeppelin}/old.v2" in shown[f"lab/runs/{zeppelin}/old.v2.html"]
    assert "code, metadata" in shown[f"lab/runs/{zeppelin}/old.v2.html"]
    run = document(site, f"runs/{zeppelin}/old.v2.json")
    assert (run["description"], run["code"], run["metadata"]) == ("Better than before.", "", {})
    assert (run["resources"], run["costs"]) == (["lexical"], {"latency (s per topic)": 0.25})
    known = document(site, "runs/a/known.v1.json")  # its team has no pseudonym
    assert (known["description"], known["code"], known["metadata"]) == ("", "https://example.org/known", {})
    assert "method / k1" in document(site, "runs/b/known.v1.json")["metadata"]  # type: ignore[operator]
    # From the date on names are shown, at the same addresses, and the lab's files keep the pseudonyms.
    before = {name for name in shown if name != "manifest.json"}
    lab = setting(lab, "pseudonyms_until: 2020-01-01T00:00:00Z")
    site = made(lab)
    shown = texts(site)
    assert set(shown) - {"manifest.json"} == before
    assert document(site, "leaderboard.json") == ranking(lab)
    assert "Zeppelin / gone" in shown["lab/feed.xml"]
    assert "Former run of Quokka" in shown[f"lab/runs/{quokka}/out.v1.html"]
    assert "The current version is" in shown[f"lab/runs/{zeppelin}/old.v1.html"]
    run = document(site, f"runs/{zeppelin}/old.v2.json")
    assert (run["run"], run["code"]) == ("Zeppelin / old", "https://example.org/b")
    assert f"submissions/{zeppelin}/old.v2" in shown[f"lab/runs/{zeppelin}/old.v2.html"]
    assert telling(lab, site) == set()


def test_a_baseline_of_a_team_with_a_pseudonym(lab: Lab) -> None:
    """It stays the baseline under its name."""
    lab = setting(lab, "pseudonyms_until: 2099-01-01T00:00:00Z")
    team, _ = add_team(lab, "Zeppelin")
    sent(lab, 1, team, "one")
    sent(lab, 2, "A", "one")
    lab = setting(setting(lab, f"baseline: {team} / one"), "pseudonyms_until: 2020-01-01T00:00:00Z")
    found = document(made(lab), "leaderboard.json")["ranked"]
    assert [each["name"] for each in found if each["baseline"]] == ["Zeppelin / one"]  # type: ignore[attr-defined]


@pytest.mark.slow
def test_held_out_topics(conf: Conf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.labs.shown_scores.noise", lambda *_: 0.0)
    collection(conf, tmp_path / "data", judgments(), private=True)
    lab = tiny_lab(tmp_path / "lab", cap=9, measures=["nDCG", "AP"], held_out=True)
    for seed, team in ((1, "A"), (2, "B"), (3, "DPRL")):
        sent(lab, seed, team, "one")
    public, held = public_and_held_out(lab, events(lab), TOPICS)
    site = made(lab)
    assert telling(lab, site) == set()
    assert set(exact(lab, topics=held)).isdisjoint(re.findall(r"\d\.\d+", "\n".join(texts(site).values())))
    board = document(site, "leaderboard.json")
    assert (board, board["topics"]) == (ranking(lab), len(TOPICS) + 1)  # all of the collection, judged or not
    for each in submissions(lab):
        scores = scores_of(lab, each).select(public)
        shown = document(site, f"runs/{each.team.lower()}/one.v1.json")["means"]
        assert {name: part["value"] for name, part in shown.items()} == {"nDCG": round(scores.mean("nDCG"), 1)}  # type: ignore[attr-defined]
    assert not (site / "lab/final.html").exists()
    assert "the others decide the final ranking" in (site / "lab/about.html").read_text()
    reveal(lab, now=datetime(2099, 1, 1, tzinfo=UTC))
    site = made(lab)
    assert document(site, "leaderboard.json") == ranking(lab) == board
    assert document(site, "final.json") == ranking(lab, "--final")
    assert telling(lab, site) == set()
    page = (site / "lab/final.html").read_text()
    assert page.count('href="runs/') == 3
    assert 'href="final.html"' in (site / "lab/index.html").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("private", [True, False])
def test_disqualified_and_refunded_runs(conf: Conf, tmp_path: Path, private: bool) -> None:
    collection(conf, tmp_path / "data", judgments(), private=private)
    lab = tiny_lab(tmp_path / "lab", cap=9, measures=["nDCG", "AP"])
    for seed, team, label in ((1, "A", "x"), (2, "A", "x"), (3, "B", "y"), (4, "T1", "z")):
        sent(lab, seed, team, label)
    act(lab, Disqualified, "A", "x", reason="the judgments were used")
    act(lab, Disqualified, "B", "y")
    act(lab, Appealed, "B", "y", reason="we did not")
    act(lab, Refunded, "T1", "z", reason="our mistake")
    site = made(lab)
    board = document(site, "leaderboard.json")
    assert board == ranking(lab)
    assert {each["name"] for each in board["ranked"]} == {"A / x", "T1 / z"}  # type: ignore[attr-defined]
    pages = {name: (site / f"lab/runs/{name}.html").read_text() for name in ("a/x.v1", "a/x.v2", "b/y.v1", "t1/z.v1")}
    assert "disqualified by the organisers" in pages["a/x.v2"]
    assert 'href="x.v1.html"' in pages["a/x.v2"]  # which counts again
    assert "has appealed" not in pages["a/x.v2"]
    assert "disqualified by the organisers. Its team has appealed." in pages["b/y.v1"]
    assert "replaced" not in pages["b/y.v1"]
    assert "disqualified" not in pages["a/x.v1"] + pages["t1/z.v1"]
    assert not any((site / f"lab/runs/{name}.json").exists() for name in ("a/x.v2", "b/y.v1"))
    assert "B / y" not in bare((site / "lab/index.html").read_text())
    act(lab, Reinstated, "A", "x", 2)
    assert build(lab.folder, "-o", site, "--quiet")[0] == 0
    assert "replaced by a later version" in (site / "lab/runs/a/x.v1.html").read_text()
    assert document(site, "leaderboard.json") == ranking(lab)
    if private:
        assert telling(lab, site) == set()
