"""The steps from problems to a collection on the embedded problems, and what runs on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from case_tables import literals

import harness as h
from harness.collections.load import load_collection
from harness.errors import HarnessError
from harness.papers.saber import analyses, judging, pipeline, steps
from harness.papers.saber.collection import JOINED
from harness.papers.saber.databank import PROBLEMS, read_problems
from harness.papers.saber.judging import JudgeSettings
from harness.papers.saber.lines import read_lines
from harness.papers.saber.pipeline import rate_step
from harness.papers.saber.rate import RATINGS, RateSettings, read_ratings
from harness.papers.saber.report import Beside, built_report
from harness.papers.saber.select import TARGETS, read_targets
from harness.papers.saber.swiss import GAMES, position_bias, read_games, round_robin, write_games

LAST = ("judge", "rate", "collection")


def built(**changed: object) -> tuple[dict[str, Path], list[str]]:
    """The folders of all steps, and the names of those that were made now."""
    settings, where = pipeline.load_settings("saber-mini")
    made: list[str] = []

    def begun(step: steps.BuilderStep, kept: bool) -> None:
        made.extend([] if kept else [step.name])

    return steps.build_steps(pipeline.steps(replace(settings, **changed), where), begun), made  # type: ignore[arg-type]


@pytest.mark.slow
def test_from_problems_to_compared_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders, made = built()
    assert tuple(made[-3:]) == LAST
    targets = read_targets(folders["select"] / TARGETS)
    played = read_games(folders["judge"] / GAMES)
    rated = read_ratings(folders["rate"] / RATINGS)
    assert [games.target for games in played] == [each.target for each in rated] == [target.id for target in targets]
    assert all(len(each.games) + sum(map(len, each.sat_out)) / 2 == 3 * 6 / 2 for each in played)
    assert position_bias(played).undecided == 0
    shares = analyses.cumulative_ranks(rated, targets)
    assert all(values[-1] == 1.0 for values in shares.values())

    monkeypatch.setenv("HARNESS_CONF", str(folders["collection"] / "conf"))
    task = h.task("saber-mini", "saber-mini")
    assert task.coverage is not None
    assert task.coverage.complete
    assert len(task.topics) == len(targets)
    systems = [h.load_system("rerank-pool", system=name) for name in ("bm25", "shuffle")]
    runs = [h.produce(system, task, runs=tmp_path, rerank=True) for system in systems]
    evaluation = h.evaluate(task, *runs)
    page = h.report(evaluation, h.compare(evaluation))
    assert "Domains" in [section.title for section in page.sections]
    assert all(0 < scores.mean("nDCG@10") <= 1 for scores in evaluation.scores)
    notes = load_collection("saber-mini").notes
    assert any("cosine of TF-IDF vectors of words" in note for note in notes)


@pytest.mark.slow
def test_only_what_follows_a_change_is_made_again() -> None:
    first, _ = built()
    assert built() == (first, [])
    judged = JudgeSettings(rounds=3, seed=1)
    other, made = built(judge=judged)
    assert made[0] == "judge"
    assert set(made) <= set(LAST)
    assert {name for name in first if first[name] == other[name]} == set(first) - set(made)
    assert built(judge=judged, rate=RateSettings(penalty=0.5))[1] == ["rate", "collection"]
    assert built() == (first, [])


def test_an_oracle_and_a_dry_run(monkeypatch: pytest.MonkeyPatch) -> None:
    settings, where = pipeline.load_settings("saber-mini")
    oracle = replace(settings, judge=JudgeSettings("oracle", rounds=5))
    planned = steps.dry(pipeline.steps(oracle, where))
    counts = next(each for each in planned if each.step == "judge").plan.counts
    assert counts == {"comparisons at most": 4 * 5 * 3}
    folders = steps.build_steps(pipeline.steps(oracle, where))
    for each in read_games(folders["judge"] / GAMES):
        pairs = {frozenset((game.first, game.second)) for game in each.games}
        assert len(pairs) == len(each.games) == 15 - sum(map(len, each.sat_out)) // 2


def test_a_dry_run_counts_texts_that_a_model_puts_dollars_in(conf: Callable[[str, str, str], Path]) -> None:
    conf("llm", "mine", "model: tiny\nprice_in: 1.0\nprice_out: 2.0\nparameters: {max_tokens: 64}\n")
    settings, where = pipeline.load_settings("saber-mini")
    bank = replace(settings.databank, delimiters="llm", endpoint="mine")
    planned = steps.dry(pipeline.steps(replace(settings, databank=bank), where))
    assert planned[0].plan.counts == {"problems read": 46}
    assert planned[0].plan.calls == pytest.approx(2 * 46, abs=4)  # texts that are equal are asked once
    assert planned[0].plan.cost > 0
    assert [each.made for each in planned] == [False] * 8


def test_another_judge_is_asked_the_same_comparisons() -> None:
    folders, _ = built()
    games = [(each.target, game) for each in read_games(folders["judge"] / GAMES) for game in each.games]
    assert judging.second_opinion(JudgeSettings(rounds=1), folders) == (len(games), len(games))  # the same judge
    oracle = JudgeSettings("oracle")
    targets, problems = judging.read_targets_and_problems(folders)
    judge = judging.judge_of(oracle, targets, problems, "live")
    other = [round_robin(target, names, judge) for target, names in judging.candidates_of(targets).items()]
    prefers = {(each.target, g.first, g.second): g.preferred for each in other for g in each.games}
    same = sum(prefers[target, game.first, game.second] == game.preferred for target, game in games)
    assert judging.second_opinion(oracle, folders) == (len(games), same)
    assert 0 < same < len(games)


def test_targets_without_a_decision_are_left_out_and_counted(tmp_path: Path) -> None:
    folders, _ = built()
    first, *others = read_games(folders["judge"] / GAMES)
    silent = replace(first, games=tuple(replace(game, preferred=0) for game in first.games))
    step, made = rate_step(RateSettings()), tmp_path / "rate"
    write_games(tmp_path / GAMES, [silent, *others])
    made.mkdir()
    step.make({"judge": tmp_path}, made)
    assert [each.target for each in read_ratings(made / RATINGS)] == [each.target for each in others]
    assert pipeline.counts_of(made)["targets without a decision, left out"] == 1
    settings, where = pipeline.load_settings("saber-mini")
    last = pipeline.steps(settings, where)[-1]
    last.make({**folders, "rate": made}, tmp_path / "collection")
    assert pipeline.counts_of(tmp_path / "collection")["queries"] == len(others)
    page = built_report(settings, {**folders, "judge": tmp_path, "rate": made}, Beside())
    assert page.headline.startswith(f"{len(others)} targets ")
    write_games(tmp_path / GAMES, [silent])
    with pytest.raises(HarnessError, match="rate: no decision distinguishes the candidates of any target; try"):
        step.make({"judge": tmp_path}, made)


def test_a_dry_run_of_a_language_model_counts_every_comparison(conf: Callable[[str, str, str], Path]) -> None:
    conf("llm", "mine", "model: tiny\nprice_in: 1.0\nprice_out: 2.0\nparameters: {max_tokens: 64}\n")
    settings, where = pipeline.load_settings("saber-mini")
    built()
    asked = replace(settings, judge=JudgeSettings("llm", endpoint="mine", rounds=2, explain=False))
    plan = next(each for each in steps.dry(pipeline.steps(asked, where)) if each.step == "judge").plan
    assert plan.counts == {"comparisons": 24, "comparisons with cached answers": 0}
    assert "judge --pilot" in plan.basis
    assert plan.calls == pytest.approx(24)
    assert plan.tokens_in > 24 * 100
    assert plan.cost > 0


def test_a_replay_that_lacks_answers_says_how_they_are_asked_for(conf: Callable[[str, str, str], Path]) -> None:
    conf("llm", "mine", "model: tiny\nprice_in: 1.0\nprice_out: 2.0\nparameters: {max_tokens: 64}\n")
    settings, where = pipeline.load_settings("saber-mini")
    asked = replace(settings, judge=JudgeSettings("llm", endpoint="mine", rounds=2, explain=False))
    said = "12 of 12 answers are not in .*: the same command without --replay requests them"
    with pytest.raises(HarnessError, match=said):
        steps.build_steps(pipeline.steps(asked, where, "replay"))


@pytest.mark.parametrize(("line", "said"), literals("papers/builder_settings"))
def test_settings_that_are_wrong(conf: Callable[[str, str, str], Path], line: str, said: str) -> None:
    base = "databank: {sources: [{name: mini, file: {embedded: corpora/mini-problems.jsonl}, statement: problem}]}\n"
    conf("builder", "wrong", f"{base}ontology: {{embedded: corpora/mini-ontology.json}}\n{line}\n")
    with pytest.raises(HarnessError, match=said):
        pipeline.load_settings("wrong")


def test_the_builder_of_the_page_on_it_can_be_read(conf: Callable[[str, str, str], Path]) -> None:
    page = (Path(__file__).parents[4] / "docs" / "saber.md").read_text(encoding="utf-8")
    shown = [block.partition("```")[0] for block in page.split("```yaml\n")[1:]]
    assert len(shown) == 1
    conf("builder", "mine", shown[0])
    assert pipeline.load_settings("mine")[0].judge.by == "llm"


def test_vectors_of_words() -> None:
    vectors = judging.word_vectors(["roots of $x^2+1$", "roots of $x^2-1$", "a circle", "", "roots of $x^2+1$"])
    assert (vectors[0] == vectors[4]).all()
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]
    assert (vectors[3] == 1).all()


def test_queries_cut_to_formulas_and_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cut queries against the whole candidates, from the collection to the preference."""
    folders, _ = built()
    monkeypatch.setenv("HARNESS_CONF", str(folders["collection"] / "conf"))
    whole, parts = load_collection("saber-mini").topics(), {}
    runs = []
    for variant, reduce in (("formulas", analyses.formulas_only), ("words", analyses.words_only)):
        task = h.task(f"saber-mini-{variant}", "saber-mini-joined")
        parts[variant] = {topic.id: topic.body for topic in task.topics}
        assert parts[variant] == {each.id: reduce(each.body) for each in whole if each.id in parts[variant]}
        system = h.load_system("rerank-pool", system="bm25")
        runs.append(h.produce(system, task, runs=tmp_path / variant, rerank=True))
    assert parts["formulas"].keys() == parts["words"].keys()
    assert all(text for texts in parts.values() for text in texts.values())
    order = {name: place for place, name in enumerate(read_problems(folders["databank"] / PROBLEMS))}
    best = {each.target: analyses.best_rated(each, order) for each in read_ratings(folders["rate"] / RATINGS)}
    found = analyses.preference(runs[0], runs[1], best, {topic.id: topic.values("domain") for topic in whole})
    assert found["all"].queries <= len(parts["words"])
    problems = read_problems(folders["databank"] / PROBLEMS)
    joined = {each["id"]: each["text"] for each in read_lines(folders["collection"] / JOINED, dict)}
    assert joined == {name: problems[name].statement + problems[name].solution for name in joined}
