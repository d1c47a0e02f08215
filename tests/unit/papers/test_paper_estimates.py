"""Estimates of what a paper's tables take: origins of rates, arithmetic by hand, and what is not known."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from refusals import refuses

from harness.cli import facts
from harness.io import config
from harness.papers.estimate import EstimatedCalls, GroupEstimate, estimates, order, to_json, united
from harness.papers.paper import load_paper, paper_names
from harness.papers.plan import plan_paper
from harness.papers.rates import Measured, Range, amount, data
from harness.papers.report.estimates import cost_section
from harness.papers.steps import PlannedRun
from harness.papers.work import TableGroup, WorkStep, table_groups, work_steps
from harness.render.model import Prose, Table
from harness.store.llm.estimate import character_counts

RESULTS = Path(__file__).parents[3] / "bench" / "results"
PAPERS = paper_names()
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?|\.\d+")


def estimate_of(paper: str, table: str) -> GroupEstimate:
    (found,) = (each for each in estimates(load_paper(paper)) if table in each.group.tables)
    return found


def step_of(paper: str, table: str, title: str) -> WorkStep:
    (found,) = (step for step in estimate_of(paper, table).steps if step.title == title)
    return found


def hours(step: WorkStep) -> tuple[float, float]:
    assert step.hours is not None
    return step.hours.low, step.hours.high


def call_of(table: str, endpoint: str, what: str) -> EstimatedCalls:
    (found,) = (c for c in estimate_of("mathlib4", table).calls if (c.endpoint, c.what) == (endpoint, what))
    return found


# ---- groups ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_tables_that_need_the_same_runs_are_one_group() -> None:
    found = {name: [group.tables for group in table_groups(load_paper(name))] for name in PAPERS}
    assert found["mirmu-msm"] == [("1", "2"), ("3",), ("figure 2",)]
    assert found["mathlib4"] == [("4", "5"), ("6",)]
    assert found["crossmath"] == [("1", "2", "3", "4", "5")]
    assert found["saber-math"] == [("main results",)]
    assert found["mathamr-plus"][:2] == [("4.6", "4.7", "4.8"), ("4.9",)]


@pytest.mark.slow
def test_runs_of_a_group() -> None:
    (group,) = table_groups(load_paper("crossmath"))
    assert len(group.runs) == 60
    first = PlannedRun("crossmath-mbart-bi", "crossmath-eng", "arqmath-posts-html", (), "arqmath-1", rerank=True)
    assert group.runs[0] == first
    assert group.corpora == ("arqmath-posts-html",)
    (strategy,) = (g for g in table_groups(load_paper("mathamr-plus")) if g.source == "experiment=mathamr-strategy")
    mapping = strategy.runs[0].configuration
    assert (mapping["strategy"], mapping["training"]["seed"], mapping["training"]["epochs"]) == ("colbert", 42, 7)
    figure = table_groups(load_paper("mirmu-msm"))[2]
    assert len(figure.systems) == 9  # the inputs of the ensemble; a fusion itself is no run of a group
    assert "fusion-rrf" not in figure.systems


def test_equal_work_on_two_corpora_is_done_twice() -> None:
    """As linearised graphs of answers and of formulas; those of the answers' questions are others again."""
    wanted = (("qa-amr", "arqmath-posts"), ("qq-amr", "arqmath-posts"), ("linearised-dependency", "mse-formulas"))
    runs = tuple(PlannedRun(system, "arqmath-3-task1", corpus, ()) for system, corpus in (*wanted, *wanted))
    (encoding,) = (step for step in work_steps(TableGroup((), "", runs)) if step.title.startswith("encode"))
    assert (encoding.times, encoding.count.high) == (3, 2 * 1_445_495 + 62_233)


@pytest.mark.heavy
def test_the_total_of_tables_is_that_of_the_plan() -> None:
    paper = load_paper("mathamr-plus")
    whole = united(estimates(paper))
    planned = plan_paper(paper, published=False).totals["with what is left out"].hours
    assert (whole.hours.low, whole.hours.high) == pytest.approx((planned.low, planned.high))


# ---- origins --------------------------------------------------------------------------------------------------------


def plain(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("measured", [each for rate in data().rates.values() for each in rate.measured])
def test_a_rate_stands_in_the_file_it_is_from(measured: Measured) -> None:
    text = plain((RESULTS / measured.file).read_text(encoding="utf-8"))
    assert plain(measured.quoted) in text
    assert plain(measured.beside) in text
    printed, of_the_file = (
        {float(each.replace(",", "")) for each in NUMBER.findall(words)}
        for words in (f"{measured.quoted} {measured.beside}", text)
    )
    assert measured.amount in {1, *printed}
    assert {value for value in (measured.amount, measured.of) if value != 1} | {measured.n} <= of_the_file


def test_a_rate_is_a_range_around_its_measurements() -> None:
    found = data().rates["encode-answers"].range  # 0.7 s and 1.15 and 1.24 texts a second
    assert (found.low, found.high) == pytest.approx((0.7 / 2, 2 / 1.15))
    assert data().rates["encode-declarations"].range.high == pytest.approx(2 * 64 * 60 / 43_345)


def test_encoders_of_two_sizes_bear_the_scaling_by_size_out() -> None:
    """MiniLM and mpnet, both measured: scaled from one to the other, the range holds what was measured."""
    short, long = data().rates["encode-answers-short"], data().rates["encode-answers"]
    factor = long.layers * long.width**2 / (short.layers * short.width**2)
    scaled = short.range.times(factor)
    assert all(scaled.low < each.amount / each.of < scaled.high for each in long.measured)


def test_counts_of_the_papers_say_where_they_are_from() -> None:
    for name, counts in data().corpora.items():
        assert counts.origin, name
        assert counts.range.low <= counts.range.high
    assert data().corpora["arqmath-posts"].range == Range(1_445_495, 1_445_495)
    assert data().corpora["mse-formulas"].range.low == 62_233
    assert data().corpora["mathlib-decls"].range.low == 115_966 + 40_610
    assert sum(character_counts("if x = 1")) == 8  # letters and others, as prompts are counted


@pytest.mark.slow
def test_hours_are_dollars_by_a_price_with_source_and_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = estimate_of("mirmu-msm", "2"), estimate_of("mirmu-msm", "3")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf/paper/costs").mkdir(parents=True)
    given = "cpu: {dollars: 2, source: mine, date: 2026-01-02}\ngpu: {dollars: 3, source: mine, date: 2026-01-02}\n"
    (tmp_path / "conf/paper/costs/prices.yaml").write_text(given)
    assert one.dollars == one.hours.times(2)
    ours, mine = config.own_folders()
    with monkeypatch.context() as without:  # prices of a package are not those of its user
        without.setattr(config, "_folders", lambda: [(ours, "the harness"), (mine, "a package")])
        assert one.dollars != one.hours.times(2)
    both = united([one, other, one])
    assert max(one.hours.high, other.hours.high) <= both.hours.high < one.hours.high + other.hours.high
    assert len(both.group.runs) == len({*map(repr, (*one.group.runs, *other.group.runs))})
    assert both.steps == work_steps(TableGroup((), "", both.group.runs))
    section = cost_section([one, other], "mirmu-msm")
    notes = next(block for block in section.blocks if isinstance(block, Prose)).paragraphs
    assert "one core at 2 dollars (mine, 2026-01-02)" in notes[-1]
    (table,) = (block for block in section.blocks if isinstance(block, Table) and block.id == "cost-totals")
    dollars = [column.title for column in table.columns].index("dollars")
    whole = (one, other, united([one, other]))
    assert [row[dollars].text for row in table.rows] == [amount(each.hours.times(2)) for each in whole]
    assert table.rows[-1][0].text == "all tables"
    (tmp_path / "conf/paper/costs/prices.yaml").write_text(given.replace("dollars: 3", "dollars: -3"))
    refuses("'dollars' is -3", lambda: one.dollars)


# ---- every paper ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", PAPERS)
def test_every_paper_has_an_estimate(name: str) -> None:
    found = estimates(load_paper(name))
    assert found
    for each in found:
        assert each.needed
        assert 0 <= each.hours.low <= each.hours.high > 0
        assert all(step.hours is not None or step.origin == "not known" for step in each.steps)
        assert all("no GPU" in step.gpu or step.gpu.startswith("not known") for step in each.steps)
        known = [step for step in each.steps if step.hours is not None and step.hours.high]
        assert all("bench/results/" in step.origin for step in known)
    document = json.loads(json.dumps(to_json(found, name)))
    assert [table["tables"] for table in document["tables"]] == [list(each.group.tables) for each in found]
    assert {table["hours of one GPU"] for table in document["tables"]} == {None}
    assert document["order"][-1] == f"harness reproduce paper={name}"


@pytest.mark.slow
def test_what_is_not_known_stays_so() -> None:
    msm = estimate_of("mirmu-msm", "2")
    assert "encode answers by compubert" in msm.unknown
    assert "fine-tune FacebookAI/roberta-large" in msm.unknown
    assert {"corpus arqmath-posts", "compubert", "witiko/mathberta"} <= set(msm.unsized)
    assert step_of("mathamr-plus", "4.6", "make AMR graphs of posts").hours is None
    assert step_of("mathamr-plus", "4.6", "make AMR graphs of posts").gpu.startswith("not known (the thesis: ")
    (translated,) = (s for s in estimate_of("crossmath", "1").steps if s.title.endswith("nllb-200-distilled-600M"))
    assert (translated.hours, translated.gpu) == (None, "not known")
    saber = estimate_of("saber-math", "main results")
    assert saber.price is None
    assert all(call.tokens_in is None for call in saber.calls)


def test_a_corpus_or_class_without_counts_is_not_known() -> None:
    other = TableGroup(("9",), "rows", (PlannedRun("bm25", "mini-task1", "mini-formulas"),))
    assert work_steps(other) == ()
    assert GroupEstimate(other, (), (), ()).unknown == ("the work on corpus mini-formulas",)
    (_, step) = work_steps(replace(other, runs=(PlannedRun("overlap", "mini-task1", "arqmath-posts"),)))
    assert (step.title, step.hours) == ("the work of Overlap (overlap)", None)


# ---- by hand, one row of each paper ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_crossmath_by_hand() -> None:
    """101,079 judged answers by mpnet; 114,259 judged pairs in five languages by a model of half its size."""
    answers = step_of("crossmath", "1", "encode answers by all-mpnet-base-v2")
    assert hours(answers) == pytest.approx((101_079 * 0.35 / 3600, 101_079 * 2 / 1.15 / 3600))
    assert answers.disk is not None
    assert answers.disk.high == pytest.approx(101_079 * 768 * 4e-6)
    title = "score pairs by cross-encoder/qnli-distilroberta-base (crossmath-nllb-cross)"
    pairs = 5 * (39_124 + 40_288 + 34_847)
    assert step_of("crossmath", "1", title).count == Range(pairs, pairs)
    assert hours(step_of("crossmath", "1", title))[0] == pytest.approx(pairs * 0.35 / 2 / 3600)


@pytest.mark.slow
def test_mirmu_by_hand() -> None:
    """MiniLM of 12 layers has twice the layers of the one that was measured; two views of 1,445,495 answers."""
    found = step_of("mirmu-msm", "2", "encode answers by sentence-transformers/all-MiniLM-L12-v2")
    assert found.times == 2
    assert hours(found) == pytest.approx((2 * 1_445_495 * 2 / 15.45 / 2 / 3600, 2 * 1_445_495 * 2 * 2 / 12.96 / 3600))
    pairs = step_of("mirmu-msm", "2", "score pairs by FacebookAI/roberta-large (mirmu-minilm-roberta)")
    assert pairs.count == Range(226 * 125, 226 * 125)  # 77 + 71 + 78 topics
    assert hours(pairs)[0] == pytest.approx(28_250 * 0.35 * (24 * 1024**2) / (12 * 768**2) / 3600)


@pytest.mark.slow
def test_mathlib4_by_hand() -> None:
    uae = step_of("mathlib4", "4", "encode declarations by WhereIsAI/UAE-Large-V1")
    second = 64 * 60 / 43_345 * (24 * 1024**2) / (12 * 384**2)
    assert hours(uae) == pytest.approx((313_152 * second / 2 / 3600, 313_152 * second * 2 / 3600))  # two views
    prose = call_of("4", "openai-gpt-3.5", "informalise")
    tokens = 156_576 * (1260 + 159) / 3.5
    assert prose.calls == 156_576
    assert prose.tokens_in is not None
    assert (prose.tokens_in.low, prose.tokens_in.high) == pytest.approx((tokens / 2, tokens * 2))
    assert prose.price is not None
    assert prose.price.high == pytest.approx(2 * (tokens * 3 + 156_576 * 256 * 4) / 1e6)
    assert prose.hours is not None
    assert prose.hours.high == pytest.approx(2 * (tokens + 156_576 * 256) / 60_000 / 60)
    assert call_of("4", "openai-gpt-4", "augment").calls == 50


@pytest.mark.slow
def test_mathamr_by_hand() -> None:
    """Four representations and five seeds; 45,000 pairs in 4 to 7 epochs, as training may stop early."""
    found = step_of("mathamr-plus", "4.6", "train mathamr-plus-experiments")
    assert (found.times, found.count) == (20, Range(20 * 45_000 * 4, 20 * 45_000 * 7))
    low, high = 322 / 45_000 / 2, 151 / 8946 * 2
    assert hours(found) == pytest.approx((20 * 180_000 * low / 3600, 20 * 315_000 * high / 3600))
    assert step_of("mathamr-plus", "4.15", "train mathamr-plus-experiments").times == 5  # twelve rows share them


# ---- as shown -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_tables_of_the_report() -> None:
    paper = load_paper("mathlib4")
    section = cost_section(estimates(paper), paper.key, cores=4)
    tables = {block.id: block for block in section.blocks if isinstance(block, Table)}
    assert list(tables) == ["cost-totals", "cost-resources", "cost-work", "cost-calls"]
    heads = [column.title for column in tables["cost-totals"].columns]
    row = dict(zip(heads, (cell.text for cell in tables["cost-totals"].rows[0]), strict=True))
    assert (row["tables"], row["hours, 1 GPU"], row["runs"]) == ("4, 5", "not known", "8, by 8 systems")
    assert row["hours, 4 cores"] != row["hours, 1 core"]


@pytest.mark.slow
def test_by_hand_comes_first_and_the_verdicts_last() -> None:
    lines = order(estimates(load_paper("mirmu-msm")), "mirmu-msm")
    assert lines[0].startswith("get corpus arqmath-posts: manual download: get Posts.V1.3.xml from the organisers")
    assert lines[-1] == "harness reproduce paper=mirmu-msm"


@pytest.mark.slow
def test_costs_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    facts.show("papers", "mathlib4", True)
    document = json.loads(capsys.readouterr().out)["what it takes"]
    assert document["tables"][0]["steps"][0]["title"] == "keep the vectors of openai-ada-002"
    facts.show("papers", "demo", True)
    assert "what it takes" not in json.loads(capsys.readouterr().out)
