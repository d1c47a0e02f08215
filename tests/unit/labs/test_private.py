"""Private judgments: nothing written or printed for participants tells one, in any file, message or cache."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
import yaml
from lab_tools import (
    DOCS,
    TOPICS,
    Conf,
    collection,
    enrol,
    files,
    judgments,
    rankings,
    run_file,
    run_text,
    tiny_lab,
    token_of,
)
from lab_tools import files as files_of

from harness.cli import lab as commands
from harness.cli import score as scoring
from harness.collections.load import load_collection
from harness.data.columns import Floats
from harness.data.trec import read_run
from harness.errors import HarnessError
from harness.experiments.evaluate import evaluate
from harness.experiments.redacted_scores import redact
from harness.experiments.task import task
from harness.io.files import cache_root, data_root, sha256
from harness.labs.acts import lab_faults
from harness.labs.draw import noise
from harness.labs.journal import Committed
from harness.labs.lab import read_lab
from harness.labs.receipts import team_receipt
from harness.labs.submission_storage import Details, metadata_text, ranks_judged_alone
from harness.labs.submissions import scores_of, submissions
from harness.labs.submit import Offer, submit_run
from harness.scoring import measures
from harness.scoring.rankings import Judged, Measure, Ranked
from harness.store import sidecar

MINI = data_root() / "runs" / "mini" / "mini-task1"
NUMBER = re.compile(r"\d+\.\d+")
NOW = datetime(2026, 7, 1, tzinfo=UTC)
COMMITTED = sha256(sha256(b"a" * 64).encode())


@pytest.fixture
def secret(conf: Conf, tmp_path: Path) -> Path:
    """The mini collection with judgments that only its organisers have: `organisers/qrels.txt`."""
    qrels = tmp_path / "organisers" / "qrels.txt"
    qrels.parent.mkdir()
    qrels.write_bytes((data_root() / "qrels/mini-task1.txt").read_bytes())
    conf(
        "collection",
        "secret",
        f"name: secret\ntitle: Secret\nlicence: CC0\nprotocol: arqmath-task1\n"
        f"editions: {{test: {{title: the test edition, private: true, qrels: {{file: '{qrels}'}}}}}}\n"
        f"topics: {{reader: jsonl, embedded: topics/mini-task1.eng.jsonl}}\ncorpus: mini-answers\n",
    )
    return qrels


def part(tmp_path: Path, name: str, keep: int, tag: str) -> Path:
    """Of an embedded run, the results whose document's number leaves a remainder below `keep` of 4."""
    lines = (MINI / f"{name}.run").read_text().splitlines(keepends=True)
    kept = [line.replace(name, tag) for line in lines if int(line.split()[2][1:]) % 4 < keep]
    path = tmp_path / "runs" / f"{tag}.run"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(kept))
    return path


def refused(act: Callable[[], object]) -> str:
    """What a participant sees of a command that fails."""
    with pytest.raises(HarnessError) as caught:
        act()
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return str(caught.value)


def written(lab: Path) -> Iterator[tuple[str, str]]:
    """All files that participants may get: those of the lab but `private/`, and all of the cache."""
    for folder, without in ((lab, ("private",)), (cache_root(), ())):
        for name, content in files_of(folder, *without).items() if folder.exists() else ():
            yield name, content.decode()


@pytest.mark.slow
def test_nothing_tells_a_judgment(secret: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "lab"
    judged = load_collection("secret").qrels()
    ids = {doc.decode() for doc in judged.doc.tolist()}
    baseline = part(tmp_path, "shuffle", 4, "chance")
    commands.new(folder, "secret", cap=4, baseline=str(baseline), corpus="mini-answers", least_results=1)
    enrol(read_lab(folder), "A", "B")
    brought = {"chance": ("shuffle", 4), "a1": ("overlap", 2), "a2": ("overlap-title", 3), "b1": ("overlap", 3)}
    for tag, team in (("a1", "A"), ("a2", "A"), ("b1", "B")):
        name, keep = brought[tag]
        commands.submit(
            str(part(tmp_path, name, keep, tag)), folder, team=team, token=token_of(team), description="made here"
        )
    commands.withdraw("a2", folder, token=token_of("A"))
    commands.primary("a1", folder, token=token_of("A"))
    said = capsys.readouterr()
    printed = said.out + said.err
    lab = read_lab(folder)
    # Everything that goes wrong: runs, then judgments, then kept scores.
    odd = tmp_path / "runs" / "odd.run"
    odd.write_text("M.1 Q0 unheard-of 1 high odd\nM.9999 Q0 x 1 1 odd\n")
    printed += refused(lambda: commands.submit(str(odd), folder, token=token_of("B")))
    printed += (
        printed_of_b := refused(lambda: commands.submit(str(tmp_path / "runs/a1.run"), folder, token=token_of("B")))
    )
    assert "submitted before by another team; nothing was stored" in printed_of_b
    whole = secret.read_bytes()
    last = whole.splitlines()[-1].decode()
    fresh = part(tmp_path, "overlap", 4, "fresh")
    for damaged in (whole + last.encode() + b"\n", whole + f"{last.split()[0]} 0 a1088 high\n".encode(), b""):
        secret.write_bytes(damaged)
        printed += (hidden := refused(lambda: commands.submit(str(fresh), folder, token=token_of("B"))))
        assert "the reason may reveal private judgments; organisers see it with 'harness lab check'" in hidden
        with pytest.raises(HarnessError, match=r"qrels.txt"):  # they do
            lab_faults(lab)
    secret.write_bytes(whole.replace(b"M.1 0", b"M.1001 0").replace(b"M.1\t0", b"M.1001\t0"))
    printed += refused(lambda: commands.submit(str(fresh), folder, token=token_of("B")))
    secret.write_bytes(whole)
    (folder / "private" / "baseline" / "chance.v1" / "scores.json").write_text("{}")
    commands.submit(str(fresh), folder, token=token_of("A"))
    last_said = capsys.readouterr()
    printed += last_said.out + last_said.err
    assert "scored again from" in printed

    everything = [("printed", printed), *written(folder)]
    checked = 0
    for name, content in everything:
        if name.endswith("run.txt"):
            # A participant's own run, as it was: nothing was added, left out or marked.
            tag = read_run(folder / name).name.partition("-")[2]
            own = read_run(tmp_path / "runs" / f"{tag}.run").to_dict()
            assert read_run(folder / name).to_dict() == own
            assert all(len(line.split("\t")) == 6 for line in content.splitlines())
            checked += 1
            continue
        assert [doc for doc in ids if re.search(rf"\b{doc}\b", content)] == [], name
        # No topic but those of the participant's own faults, and no number that was not rounded.
        assert set(re.findall(r"\bM\.\d+\b", content)) <= ({"M.9999"} if name == "printed" else set())
        numbers = [n for n in NUMBER.findall(content) if not content.count(f"mathir-harness {n}")]
        assert {n for n in numbers if len(n.partition(".")[2]) > 2} == set(), name
        for hidden in hashes(folder, secret):
            assert hidden not in content
    assert checked == 5
    for line in whole.decode().splitlines():
        assert " ".join(line.split()) not in " ".join(printed.split())
    # What is private is complete, and only its owner may read it.
    assert [len(scores_of(lab, each).topics) for each in submissions(lab)] == [len(judged.topics)] * 5
    assert (folder / "private").stat().st_mode & 0o077 == 0


def hashes(folder: Path, secret: Path) -> set[str]:
    """Checksums by which a guess of what is private could be proven."""
    private = [path.read_bytes() for path in (folder / "private").rglob("*") if path.is_file()]
    return {sha256(content)[:12] for content in (*private, secret.read_bytes())}


@pytest.mark.parametrize("per_topic", [False, True])
def test_outputs_depend_on_nothing_but_shown_means(
    conf: Conf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, per_topic: bool
) -> None:
    """Two worlds of other judgments in which the runs have the same P@5: all that participants get is the same."""
    monkeypatch.setattr(
        "harness.labs.shown_scores.noise", lambda _, __, *of: noise("", *of)
    )  # else other judgments draw
    committed = Committed(COMMITTED, "2026-07-01", held_out=False)
    monkeypatch.setattr("harness.labs.lab._new_commitment", lambda _: ("a" * 64, committed))
    worlds = []
    first = judgments(1)
    runs = [rankings(seed) for seed in range(3)]
    shown = {topic: {doc for ranked in runs for doc in ranked[topic][:5]} for topic in TOPICS}
    draw = np.random.default_rng(3)
    for world in range(2):
        here = tmp_path / f"world{world}"
        judged = first
        if world:
            # Other documents are judged, with other grades; of those that stand among the first five, nothing changes.
            rest = {t: [doc for doc in DOCS if doc not in shown[t]] for t in TOPICS}
            judged = {
                t: {doc: grade for doc, grade in docs.items() if doc in shown[t]}
                | {str(doc): int(draw.integers(3)) for doc in draw.permutation(rest[t])[:12]}
                for t, docs in first.items()
            }
            assert judged != first
        collection(conf, here / "data", judged, name="tiny", private=True)
        lab = tiny_lab(here / "lab", measures=["P@5"], cap=5, per_topic=per_topic)
        receipts = []
        for number, ranked in enumerate(runs):
            path = here / f"{number}.run"
            path.write_text(run_text(ranked))
            receipts.append(submit_run(lab, Offer(path, f"T{number % 2}", str(number)), now=NOW))
        told = [str(receipt).replace(str(here), "") for receipt in receipts]
        worlds.append((told, files_of(lab.folder, "private"), files_of(lab.folder / "private")))
    assert worlds[0][:2] == worlds[1][:2]
    assert worlds[0][2] != worlds[1][2]
    tables = [content for name, content in worlds[0][1].items() if name.endswith("topics.csv")]
    assert len(tables) == (3 if per_topic else 0)
    assert all(content.startswith(b"topic,P@5\nT.1,0.") for content in tables)


def test_nothing_is_tested_before_the_end(conf: Conf, tmp_path: Path) -> None:
    """Equal shown means and one result more: a test of exact scores could tell its judgment, and so could no test."""
    collection(conf, tmp_path / "data", {topic: dict.fromkeys(DOCS[:5], 1) for topic in TOPICS}, private=True)
    lab = tiny_lab(tmp_path / "lab", measures=["P@5"], cap=9)
    for relevant in (0, 5, 4):
        path = tmp_path / f"{relevant}.run"
        path.write_text(run_text({topic: [*DOCS[:relevant], *DOCS[20 : 30 - relevant]] for topic in TOPICS}))
        told = submit_run(lab, Offer(path, "A", str(relevant)), now=NOW)
    assert told.standing is not None
    assert {(row.p, row.significant) for row in told.standing.rows} == {(None, None)}
    said = team_receipt(lab, told)
    assert said.against[0] == ("against", "it is", "P@5", "difference")
    assert said.tests == ""


@pytest.mark.slow
@pytest.mark.parametrize("as_json", [False, True])
def test_redacted_reports(secret: Path, tmp_path: Path, as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [str(part(tmp_path, name, 3, name)) for name in ("overlap", "overlap-title", "shuffle")]
    for at, run in enumerate(list(runs)):  # a result without a judgment or two, and ties
        text = Path(run).read_text() + f"M.{at + 1} Q0 a9999 99 -5 {Path(run).stem}\n"
        Path(run).write_text(text)
    ids = {doc.decode() for doc in load_collection("secret").qrels().doc.tolist()}
    scoring.compare(runs, "secret", redact=True, output=tmp_path / "compared", json=as_json)
    scoring.score(runs, "secret", redact=True, output=tmp_path / "scored", json=as_json)
    scoring.compare(runs, "secret", baseline="shuffle", redact=True, output=tmp_path / "baseline", json=as_json)
    said = capsys.readouterr()
    contents = {"printed": said.out + said.err}
    for folder in ("compared", "scored", "baseline"):
        contents |= {f"{folder}/{name}": content.decode() for name, content in files_of(tmp_path / folder).items()}
    assert {Path(name).suffix for name in contents} == {"", ".html", ".md", ".tex", ".json", ".csv"}
    for name, content in contents.items():
        assert [doc for doc in ids if re.search(rf"\b{doc}\b", content)] == [], name
        assert re.findall(r"\bM\.\d+\b", content) == [], name
        assert sha256(secret.read_bytes())[:12] not in content
        assert "Judged" not in content
        assert "explorer-data" not in content  # compressed: ids could stand there unseen
    means = re.compile(r"0\.\d{3,}")
    for name, content in contents.items():
        if Path(name).suffix in (".csv", ".json", ".md"):
            assert means.findall(content) == [], name
    assert "rounded to multiples of 0.05" in contents["printed"]
    assert "overlap" in contents["compared/report.md"]
    for word in ("significant", "t-test", "share a letter", "Judged", "family"):
        assert not any(word in content for name, content in contents.items() if not name.endswith("html")), word


def test_what_cannot_be_redacted(secret: Path, tmp_path: Path, conf: Conf) -> None:
    run = str(part(tmp_path, "overlap", 4, "overlap"))
    for options, said in (
        ({"per_topic": True}, "--per-topic and --redact: say one of them"),
        ({"measures": "Judged@10"}, "--redact: every measure is private, such as counts"),
        ({"protocol": "arqmath-task1-answered"}, "means over answered topics only would reveal the score of a topic"),
    ):
        with pytest.raises(HarnessError, match=re.escape(said)):
            scoring.score([run], "secret", redact=True, **options)


@pytest.mark.slow
def test_a_full_report_of_a_private_edition_says_what_it_is(
    secret: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scoring.score([str(part(tmp_path, "overlap", 4, "overlap"))], "secret", output=tmp_path / "full")
    expected = capsys.readouterr().err
    assert "edition test is private, and this report shows its judgments; --redact leaves them out" in expected


MINI = data_root() / "runs" / "mini" / "mini-task1"


def said(pool: bool | None, sha256: str) -> sidecar.Said:
    return sidecar.Said(sha256, "tiny", "", "", False, pool, {})


def found_share(ranked: Ranked, judged: Judged, k: int | None) -> Floats:
    return ranked.total(ranked.judged, k) / (k or 1)


@pytest.mark.parametrize("sensitivity", [None, 1.0])
def test_a_measure_of_another_package_is_private_unless_it_declares_otherwise(
    conf: Conf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sensitivity: float | None
) -> None:
    """Whatever its name; here it tells which results are judged, or would without noise."""
    monkeypatch.setattr(measures, "MEASURES", dict(measures.MEASURES))
    measures.register(Measure("Found", found_share, needs_cut=True, sensitivity=sensitivity))
    collection(conf, tmp_path / "data", judgments())
    given = {"private": True, "cap": 3, "measures": ["nDCG", "Found@5"]}
    found = evaluate(task("mini-task1", measures=["nDCG", "Found@5"]), MINI / "overlap.run")
    if sensitivity is None:
        reason = "measure Found@5: declares no sensitivity to one judgment, and the judg"
        with pytest.raises(HarnessError, match=reason):
            tiny_lab(tmp_path / "lab", **given)
        assert list(redact(found).labels) == ["nDCG"]
    else:
        assert tiny_lab(tmp_path / "lab", **given).measures == ("nDCG", "Found@5")
        assert list(redact(found).labels) == ["nDCG", "Found@5"]
    private = {name for name, each in measures.MEASURES.items() if each.private} - {"Found"}
    assert private == {"GMAP", "Judged", "RelRet", "NumRet", "NumRel", "NumQ"}


def test_a_wide_measure_has_wide_noise(conf: Conf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measures, "MEASURES", dict(measures.MEASURES))
    measures.register(Measure("Found", found_share, needs_cut=True, sensitivity=4.0))
    collection(conf, tmp_path / "data", judgments())
    assert tiny_lab(tmp_path / "lab", private=True, cap=3, measures=["Found@5"]).noise == 5.0  # 4 x 10 / 8
    with pytest.raises(HarnessError, match="'sensitivity' is -1, expected a number above 0"):
        Measure("Odd", found_share, sensitivity=-1)


def test_protocols_that_tell_what_is_judged(conf: Conf, tmp_path: Path) -> None:
    """Each refusal of a run would tell that a document is not judged, and cost nothing."""
    collection(conf, tmp_path / "data", judgments(), protocol="candidates: judged\n")
    with pytest.raises(HarnessError, match="protocol tiny-plain: it refuses runs with documents that are not judged"):
        tiny_lab(tmp_path / "lab", private=True, cap=3)


def test_results_are_not_counted() -> None:
    """Where unjudged results are removed first, the number of results is that of judged ones."""
    found = redact(evaluate(task("mini-task1", measures=["nDCG", "NumRet", "NumRet(rel=1)"]), MINI / "overlap.run"))
    assert list(found.labels) == ["nDCG"]


@pytest.mark.parametrize(("wanted", "step"), [(["nDCG"], 0.05), (["nDCG", "RelRet"], 0.05)])
def test_a_single_document_does_not_show(wanted: list[str], step: float) -> None:
    """A run of which all topics but one score 0 shows as 0."""
    found = evaluate(task("mini-task1", measures=wanted), MINI / "overlap.run")
    only = found.scores[0]
    values = only.values.copy()
    values[:] = 0.0
    values[3] = 1.0
    told = redact(replace(found, scores=(replace(only, values=values),)))
    assert (told.step, dict(told.means[0].means)) == (step, {"nDCG": 0.0})


def test_half_of_the_topics_where_no_file_lists_them(
    conf: Conf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names of topics that there are not make no run complete."""
    collection(conf, tmp_path / "data", judgments())
    lab = tiny_lab(tmp_path / "lab", private=True, cap=3)
    path = tmp_path / "run"
    path.write_text(run_text(rankings(1, ("T.1", *(f"made-up-{n}" for n in range(50))))))
    monkeypatch.setattr("harness.collections.collection.Collection.known_topics", lambda _: None)
    before = files(lab.folder)
    with pytest.raises(HarnessError, match=r"answers 1 of 9 topics; with private judgments, a run must answer"):
        submit_run(lab, Offer(path, "A"))
    assert files(lab.folder) == before


@pytest.mark.parametrize("private", [False, True])
def test_a_run_of_the_judged_documents(
    conf: Conf, tmp_path: Path, private: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a random order of them, the baseline that comes to mind: the lab's public folder would have their ids."""
    collection(conf, tmp_path / "data", judgments())
    lab = tiny_lab(tmp_path / "lab", private=private, cap=3)
    path = run_file(tmp_path / "run", 1)
    run = read_run(path)
    for pool, digest in ((False, run.sha256), (None, run.sha256), (True, "0" * 64), (True, run.sha256)):
        monkeypatch.setattr(sidecar, "sidecar_of_document", lambda _, pool=pool, digest=digest: said(pool, digest))
        assert ranks_judged_alone(path, run) == (pool is True and digest == run.sha256)
    if private:
        with pytest.raises(HarnessError, match="ranks judged documents only"):
            submit_run(lab, Offer(path, "A"))
        assert not list((lab.folder / "submissions").iterdir())
    else:
        assert submit_run(lab, Offer(path, "A")).made == 1


@pytest.mark.parametrize("private", [False, True])
def test_checksums_of_training_judgments(conf: Conf, tmp_path: Path, private: bool) -> None:
    """They may be those of private ones, and would prove a guess."""
    collection(conf, tmp_path / "data", judgments())
    lab = tiny_lab(tmp_path / "lab", private=private, cap=3)
    run = read_run(run_file(tmp_path / "run", 1))
    said = Details("A", "one", "automatic", "", "", "")
    text = metadata_text(lab, said, run, {"data": {"corpus": {"name": "c"}, "training data": "f" * 64}})
    data = yaml.safe_load(text)["data"]
    assert data["corpus"] == {"name": "c"}
    assert ("training data" in data) is not private
