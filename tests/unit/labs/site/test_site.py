"""The site of a lab: what its pages hold, that private judgments are in none, and that hostile texts stay texts."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import numpy as np
import pytest
from lab_tools import TOPICS, Conf, collection, files, judgments, tiny_lab
from referencing import Registry, Resource
from scipy import stats
from site_tools import Seen, build, sent

import harness
from harness.errors import HarnessError
from harness.io.files import sha256
from harness.labs.closing import extend, freeze
from harness.labs.lab import Lab
from harness.labs.site.files import csv_columns
from harness.labs.submissions import scores_of, submissions
from harness.labs.submit import withdraw_run
from harness.render.pages import BuildFolder

FOLDER = Path(harness.__file__).parent / "data" / "schemas"
SCHEMAS = {path.stem: json.loads(path.read_text("utf-8")) for path in FOLDER.glob("*.json")}
REGISTRY = Registry().with_resources((each["$id"], Resource.from_contents(each)) for each in SCHEMAS.values())
NEURAL = {"method": {"retrieval": [{"name": "x", "method": "dense"}]}, "resources": {"latency": {"mean": "250 ms"}}}
LEXICAL = {"method": {"retrieval": [{"name": "y", "method": "BM25"}]}, "resources": {"latency": {"mean": "0.01 s"}}}


@pytest.fixture
def lab(conf: Conf, tmp_path: Path) -> Lab:
    """Three teams: A with two runs and a replaced one, B, and C, whose run was withdrawn."""
    collection(conf, tmp_path / "data", judgments())
    made = tiny_lab(tmp_path / "lab", contact="https://example.org/ask", rules=["Be fair."], cap=5)
    sent(made, 1, "A", "first", NEURAL, description="A first run.")
    sent(made, 2, "A", "second", external_data="Wikipedia")
    sent(made, 3, "A", "first", NEURAL)
    sent(made, 4, "B", "only", LEXICAL, kind="manual")
    sent(made, 5, "C", "gone")
    withdraw_run(made, "C", "gone", reason="wrong file")
    return made


@pytest.fixture
def site(lab: Lab, tmp_path: Path) -> Path:
    code, said = build(lab.folder, "-o", tmp_path / "site")
    assert code == 0, said
    return tmp_path / "site"


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@pytest.mark.slow
def test_every_document_fits_its_schema_and_every_table_its_description(site: Path) -> None:
    found = [path for path in site.rglob("*.json") if path.parent.name != "schemas" and path.name != "manifest.json"]
    kinds = set()
    for path in found:
        document = json.loads(read(path))
        kind = document["schema"].removeprefix("mathir-harness/")
        kinds.add(kind)
        assert (site / "schemas" / f"{kind}.json").is_file()
        jsonschema.Draft202012Validator(SCHEMAS[kind], registry=REGISTRY).validate(document)
    assert kinds == {"site", "leaderboard", "site-run", "site-topics", "site-topic", "site-pairs"}
    described = {path: [each["name"] for each in columns] for path, columns in csv_columns().items()}
    for path in site.rglob("*.csv"):
        with path.open(encoding="utf-8", newline="") as file:
            header = next(csv.reader(file))
        shape = (
            "topics/index" if path.stem == "index" else path.parent.name if path.parent.name == "topics" else path.stem
        )
        key = {"topics": "LAB/topics/TOPIC.csv", "topics/index": "LAB/topics/index.csv"}.get(shape)
        key = key or (f"LAB/{path.name}" if path.parent.name == "lab" else "LAB/runs/TEAM/LABEL.vN.csv")
        assert set(header) - {"A / first", "A / second", "B / only"} <= set(described[key]), path


@pytest.mark.slow
def test_values_of_runs_are_those_of_the_lab_and_quartiles_are_right(site: Path, lab: Lab) -> None:
    current = {each.name: scores_of(lab, each) for each in submissions(lab) if each.current}
    ranked = np.stack([current[name].column("nDCG") for name in ("A / first", "B / only")])
    run = json.loads(read(site / "lab/runs/a/first.v2.json"))
    assert run["values"]["nDCG"] == dict(zip(TOPICS, current["A / first"].column("nDCG").tolist(), strict=True))
    with (site / "lab/topics/index.csv").open(newline="") as file:
        rows = {row["topic"]: row for row in csv.DictReader(file)}
    for at, topic in enumerate(TOPICS):
        low, high = sorted(ranked[:, at])
        expected = (low + (high - low) / 4, (low + high) / 2, low + 3 * (high - low) / 4)
        shown = tuple(float(rows[topic][name]) for name in ("lower_quartile", "median", "upper_quartile"))
        assert shown == pytest.approx(expected, abs=1e-12)
    with (site / "lab/pairs.csv").open(newline="") as file:
        tests = {row["run"]: row for row in csv.DictReader(file)}
    best = json.loads(read(site / "lab/leaderboard.json"))["ranked"][0]["name"]
    other = next(name for name in tests if name != best)
    expected_p = stats.ttest_rel(current[other].column("nDCG"), current[best].column("nDCG")).pvalue
    assert float(tests[other]["p"]) == pytest.approx(expected_p, abs=1e-9)


@pytest.mark.slow
def test_a_topic_says_where_each_run_put_each_judged_document(site: Path) -> None:
    document = json.loads(read(site / "lab/topics/t.3.json"))
    judged = judgments()["T.3"]
    assert {each["document"]: each["grade"] for each in document["judged"]} == judged
    assert [each["grade"] for each in document["judged"]] == sorted(judged.values(), reverse=True)
    from lab_tools import rankings

    seeds = {"A / first": 3, "A / second": 2, "B / only": 4}
    for each in document["judged"]:
        for run, rank in zip(document["runs"], each["ranks"], strict=True):
            ranked = rankings(seeds[run])["T.3"]
            assert rank == (ranked.index(each["document"]) + 1 if each["document"] in ranked else 0)


@pytest.mark.slow
def test_a_topic_of_many_runs_lists_the_best_and_has_all_as_data(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.labs.site.topic.MOST_SCORED", 2)
    build(lab.folder, "-o", tmp_path / "site")
    page = read(tmp_path / "site/lab/topics/t.3.html")
    table = page.split('id="runs"')[1].split("</table>")[0]
    scores = {
        run: each["nDCG"] for run, each in json.loads(read(tmp_path / "site/lab/topics/t.3.json"))["scores"].items()
    }
    best = sorted(scores, key=lambda run: -scores[run])
    assert len(best) == 3
    assert re.findall(r"<tr><th[^>]*><a[^>]*>([^<]*)</a>", table) == [run.split(" / ")[1] for run in best[:2]]
    assert "Scores of the 2 best of 3 runs on this topic" in table
    assert "has the scores of all runs" in page


@pytest.mark.slow
def test_runs_say_what_they_use_cost_and_how_they_are_recomputed(site: Path, lab: Lab) -> None:
    run = json.loads(read(site / "lab/runs/b/only.v1.json"))
    assert (run["resources"], run["costs"], run["kind"]) == (["lexical"], {"latency (s per topic)": 0.01}, "manual")
    assert json.loads(read(site / "lab/runs/a/second.v1.json"))["resources"] == ["external data"]
    page = read(site / "lab/runs/b/only.v1.html")
    for words in (
        "checksums verified",
        "recomputed",
        "SHA256SUMS",
        "@misc{b-only.v1",
        "Difference from the best ranked run",
    ):
        assert words in page
    assert f"sha256 {run['sha256']}" not in page
    verify, score = run["commands"]
    assert score.startswith("harness score submissions/B/only.v1/run.txt --collection tiny --edition test ")
    assert verify == "(cd submissions/B/only.v1 && sha256sum -c SHA256SUMS)"
    board = read(site / "lab/index.html")
    assert board.index("<figure") < board.index("<table")
    assert "latency (s per topic)" in board


@pytest.mark.slow
def test_former_submissions_keep_their_pages_and_the_feed_names_all(site: Path, lab: Lab) -> None:
    assert "replaced by a later version" in read(site / "lab/runs/a/first.v1.html")
    stored = (lab.folder / "submissions/A/second.v1/run.txt").read_bytes()
    page = read(site / "lab/runs/a/second.v1.html")
    assert "SHA-256 of the rankings" in page and page.count(sha256(stored)) == 2  # among the facts and the files
    assert "withdrawn by its team" in read(site / "lab/runs/c/gone.v1.html")
    root = ElementTree.fromstring(read(site / "lab/feed.xml"))  # noqa: S314 - our own
    atom = "{http://www.w3.org/2005/Atom}"
    ids = [entry.findtext(f"{atom}id") for entry in root.iter(f"{atom}entry")]
    assert len(ids) == len(set(ids)) == 5
    for entry in root.iter(f"{atom}entry"):
        link = entry.find(f"{atom}link")
        assert link is not None
        assert (site / "lab" / link.attrib["href"]).is_file()
    assert "Be fair." in read(site / "lab/about.html")
    assert "@misc{lab,\n  title = {{A lab}}," in read(site / "lab/about.html")
    assert 'href="https://example.org/ask"' in read(site / "lab/about.html")


@pytest.mark.slow
def test_ids_of_a_page_are_unique(site: Path) -> None:
    for path in site.rglob("*.html"):
        ids = [value for _, name, value in Seen(read(path)).attributes if name == "id"]
        assert len(ids) == len(set(ids)), path
        assert "" not in ids, path


@pytest.mark.slow
def test_all_links_inside_the_site_lead_to_files(site: Path) -> None:
    seen = 0
    for path in site.rglob("*.html"):
        for tag, name, value in Seen(read(path)).attributes:
            if name == "href" and not value.startswith(("#", "https:", "data:")):
                assert (path.parent / value.partition("#")[0]).resolve().is_file(), (path, value)
                seen += tag == "a"
    assert seen > 100


@pytest.mark.slow
def test_building_again_writes_nothing_and_a_new_run_only_its_pages(site: Path, lab: Lab) -> None:
    before = files(site)
    assert ": 0 files written" in build(lab.folder, "-o", site)[1]
    assert files(site) == before
    (site / "CNAME").write_text("example.org")
    sent(lab, 6, "C", "new")
    code, said = build(lab.folder, "-o", site)
    assert code == 0
    assert said.strip().splitlines()[-1].endswith(" 0 deleted")
    assert (site / "lab/runs/c/new.v1.html").is_file()
    assert read(site / "CNAME") == "example.org"
    assert read(site / "lab/runs/c/gone.v1.html") == before["lab/runs/c/gone.v1.html"].decode()


# ---- hostile texts --------------------------------------------------------------------------------------------------

SCRIPT = "<script>alert(1)</script>"
IMAGE = "</script></title></style><img src=x onerror=alert(1)>\"'"


@pytest.mark.slow
def test_hostile_texts_stay_texts_and_names_stay_inside(conf: Conf, tmp_path: Path) -> None:
    collection(conf, tmp_path / "data", judgments())
    topics = [{"id": topic, "title": f"{IMAGE} $\\href{{javascript:alert(1)}}{{x}}$ $<b>$"} for topic in TOPICS]
    text = "".join(json.dumps({**topic, "tags": [SCRIPT], "attributes": {SCRIPT: IMAGE}}) + "\n" for topic in topics)
    (tmp_path / "data" / "topics.jsonl").write_text(text)
    lab = tiny_lab(tmp_path / "lab", title=SCRIPT, about=IMAGE, rules=[SCRIPT], contact="javascript:alert(1)")
    wild = {"method": {SCRIPT: IMAGE}, "implementation": {"executable": {"cmd": f"x; {IMAGE}\n{SCRIPT}"}}}
    sent(lab, 1, "Ünïcode", "a#b%2e=(x)@~", wild, description=IMAGE)
    odd = {"resources": {"latency": SCRIPT, "parameters": IMAGE}}
    sent(lab, 2, "_..", "..a..%2f..".strip("."), odd, description=SCRIPT)
    sent(lab, 3, "con", "nul.txt", {"method": {"a" * 500: ["b"] * 2000}}, description="=1+1 \\(x\\)")
    site = tmp_path / "site"
    assert build(lab.folder, "-o", site)[0] == 0
    names = {path.relative_to(site).as_posix() for path in site.rglob("*")}
    assert all(
        re.fullmatch(r"[a-z0-9_./-]+", name) and ".." not in name.split("/") for name in names - {"manifest.json"}
    )
    assert not {name for name in names if re.search(r"(^|/)(con|nul)(\.|/|$)", name)}
    for path in site.rglob("*.html"):
        page = Seen(read(path))
        assert page.tags.count("script") <= 6
        assert "img" not in page.tags
        for _, name, value in page.attributes:
            assert not name.startswith("on")
            assert name != "style"
            assert not (name in ("href", "src", "action") and value.lower().startswith(("javascript", "data:text")))
        policy = next(value for _, name, value in page.attributes if name == "content" and "default-src" in value)
        assert policy.startswith("default-src 'none'; style-src 'sha256-")
        assert "\u202e" not in read(path)
    ElementTree.fromstring(read(site / "lab/feed.xml"))  # noqa: S314 - our own
    with (site / "lab/topics/t.1.csv").open(newline="", encoding="utf-8") as file:
        assert not any(field.startswith(("=", "+", "@")) for row in csv.reader(file) for field in row)


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (
            {"topic_pages": True},
            "key 'topic_pages' is true, but participants do not see scores per topic; set per_topic",
        ),
        ({"server": "javascript:alert(1)"}, "key 'server' is 'javascript:alert(1)', expected an address such as https"),
        ({"address": "javascript:alert(1)"}, "expected an address such as https://example.org/lab/"),
        ({"address": "https://example.org/?q=<b>"}, "expected an address such as https://example.org/lab/"),
        ({"topic_pages": "yes"}, "key 'topic_pages' is 'yes', expected true or false"),
        ({"rules": "be fair"}, "key 'rules'"),
    ],
)
def test_settings_of_sites_are_checked(conf: Conf, tmp_path: Path, settings: dict[str, object], line: str) -> None:
    collection(conf, tmp_path / "data", judgments(), private=True)
    with pytest.raises(HarnessError) as caught:
        tiny_lab(tmp_path / "lab", cap=5, measures=["nDCG"], **settings)
    assert line in caught.value.lines[0]
    assert len(caught.value.lines) == 1


@pytest.mark.slow
def test_two_labs_with_one_name_are_refused(lab: Lab, tmp_path: Path) -> None:
    shutil.copytree(lab.folder, tmp_path / "more" / "LAB")
    with pytest.raises(HarnessError, match="has the same folder in the site as"):
        build(lab.folder, tmp_path / "more" / "LAB", "-o", tmp_path / "site")
    assert build(lab.folder, lab.folder, "-o", tmp_path / "site")[0] == 0  # one lab twice


def test_a_run_with_other_scores_than_stored_stops_the_build(lab: Lab, tmp_path: Path) -> None:
    """As if the judgments had changed: nothing that is wrong is published."""
    qrels = tmp_path / "data" / "qrels.txt"
    qrels.write_text("\n".join(f"{row[:-1]}1" for row in read(qrels).splitlines()) + "\n")
    with pytest.raises(HarnessError, match="judgments changed since the first submission"):
        build(lab.folder, "-o", tmp_path / "site")
    assert not (tmp_path / "site" / "index.html").exists()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ((), "nothing to build; name one or more labs, or give --papers"),
        (
            ("nowhere",),
            "nowhere: not a lab: the file lab.yaml is missing; check the path, or create a lab with 'harness lab new'",
        ),
        (("lab", "--reproduced", "nowhere"), "--reproduced: nowhere: no such folder"),
    ],
)
def test_refusals(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], line: str
) -> None:
    assert lab.folder.is_dir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(HarnessError) as caught:
        build(*arguments, "-o", "out")
    assert caught.value.lines == (line,)


@pytest.mark.slow
def test_runs_that_the_harness_made_again_get_a_badge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import harness as h
    from harness.labs.lab import new_lab
    from harness.labs.submit import Offer, submit_run

    monkeypatch.chdir(tmp_path)
    found = h.task("mini-task1", "mini-answers")
    h.produce(h.load_system("bm25"), found, runs=tmp_path / "made")
    (path,) = (tmp_path / "made").rglob("bm25.run")
    lab = new_lab(tmp_path / "mini", {"title": "Mini", "collection": "mini-task1"})
    submit_run(lab, Offer(path, "Ours"), bench=lab.task())
    assert build(lab.folder, "-o", "one", "--reproduced", "made")[0] == 0
    run = json.loads(read(tmp_path / "one/mini/runs/ours/bm25.v1.json"))
    assert run["reproduced"]
    assert run["resources"] == ["lexical"]
    assert run["costs"]["latency (s per topic)"] > 0
    assert ">reproducible<" in read(tmp_path / "one/mini/runs/ours/bm25.v1.html")
    assert (tmp_path / "one/mini/slices/category.html").is_file()


@pytest.mark.slow
def test_a_frozen_lab_says_so_and_a_lab_with_a_server_links_to_it(lab: Lab, tmp_path: Path) -> None:
    before = tmp_path / "before"
    build(lab.folder, "-o", before)
    for path in before.rglob("*.html"):
        assert ">Submit<" not in read(path)
        assert "froze the lab" not in read(path)
    settings = lab.folder / "lab.yaml"
    settings.write_text(settings.read_text() + "server: https://example.org/submit/\n")
    freeze(lab, "We <b>check</b> the results.", now=datetime(2026, 8, 1, tzinfo=UTC))
    extend(lab, datetime(2099, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=-12))), "A holiday.")
    build(lab.folder, "-o", tmp_path / "site")
    for page in ("index", "about"):
        text = read(tmp_path / f"site/lab/{page}.html")
        assert "The organisers froze the lab on 2026-08-01 00:00:00 UTC" in text
        assert "Reason: We &lt;b&gt;check&lt;/b&gt; the results." in text
    about = read(tmp_path / "site/lab/about.html")
    assert "to 2099-01-02 03:04:05 (anywhere on Earth): A holiday." in about
    assert "harness submit my.run --server https://example.org --description" in about
    assert "HARNESS_TOKEN" in about
    for path in (tmp_path / "site/lab").rglob("*.html"):
        assert '<a href="https://example.org/submit" rel="noreferrer"><bdi>Submit</bdi></a>' in read(path)


def test_a_lab_of_post_hoc_runs_lists_them_without_a_rank(conf: Conf, tmp_path: Path) -> None:
    collection(conf, tmp_path / "data", judgments())
    lab = tiny_lab(tmp_path / "lab", deadline="2020-01-01T00:00:00+00:00")
    sent(lab, 1, "A", "late", kind="post-hoc")
    sent(lab, 2, "B", "later", kind="post-hoc")
    code, said = build(lab.folder, "-o", tmp_path / "site")
    assert code == 0, said
    page = read(tmp_path / "site/lab/index.html")
    assert "2 runs on tiny (edition test, 8 topics, protocol tiny-plain), none of them ranked" in page
    assert "primary and others" not in page  # such a filter would hide all runs
    assert "not ranked" in read(tmp_path / "site/lab/runs/a/late.v1.html")
    board = json.loads(read(tmp_path / "site/lab/leaderboard.json"))
    assert jsonschema.Draft202012Validator(SCHEMAS["leaderboard"], registry=REGISTRY).is_valid(board)
    assert not board["ranked"] and {each["name"] for each in board["others"]} == {"A / late", "B / later"}


@pytest.mark.slow
def test_an_option_names_the_server_if_the_lab_does_not(lab: Lab, tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"--server lab\.example\.org: expected an address such as https"):
        build(lab.folder, "-o", tmp_path / "site", "--server", "lab.example.org")
    build(lab.folder, "-o", tmp_path / "site", "--server", "http://127.0.0.1:8000/")
    about = read(tmp_path / "site/lab/about.html")
    assert "harness submit my.run --server http://127.0.0.1:8000 --description" in about
    assert '<a href="http://127.0.0.1:8000/submit"' in about
    settings = lab.folder / "lab.yaml"
    settings.write_text(settings.read_text() + "server: https://lab.example.org/\n")
    build(lab.folder, "-o", tmp_path / "site", "--server", "http://127.0.0.1:8000")
    about = read(tmp_path / "site/lab/about.html")
    assert "--server https://lab.example.org --description" in about and "127.0.0.1" not in about


@pytest.mark.slow
def test_pages_come_after_those_that_they_list(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A site that is built in place never has a list with links to pages that are not there yet."""
    written: list[str] = []
    write = BuildFolder.write

    def noted(folder: BuildFolder, files: Mapping[str, str | bytes]) -> None:
        written.extend(files)
        write(folder, files)

    monkeypatch.setattr(BuildFolder, "write", noted)
    build(lab.folder, "-o", tmp_path / "site")
    at = {path: number for number, path in enumerate(written)}
    for folder, page in (("lab/runs/", "lab/index.html"), ("lab/topics/t", "lab/topics/index.html")):
        assert max(n for path, n in at.items() if path.startswith(folder)) < at[page]
    assert at["lab/index.html"] < at["index.html"]
