"""Steps as artefacts: what is made again and what is not, and interruption at each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import HarnessError
from harness.papers.saber import steps
from harness.papers.saber.steps import BuilderStep, Folders, PlannedBuild, StepEstimate, build_steps, dry, total, upto


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))


class Line:
    """Four steps in a line; each notes that it was made, and one may be interrupted."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.text = "one two"
        self.interrupted = ""
        self.setting = {"read": 0, "lower": 0, "count": 0, "report": 0}

    def steps(self) -> tuple[BuilderStep, ...]:
        return (
            self.step("read", (), lambda _: self.text, free=True),
            self.step("lower", ("read",), lambda folders: taken(folders, "read").lower()),
            self.step("count", ("lower",), lambda folders: str(len(taken(folders, "lower").split()))),
            self.step("report", ("read", "count"), lambda f: taken(f, "read") + taken(f, "count")),
        )

    def step(self, name: str, needs: tuple[str, ...], says: Callable[..., str], free: bool = False) -> BuilderStep:
        def make(folders: Folders, out: Path) -> None:
            self.made.append(name)
            (out / "half").write_text("half")
            if name == self.interrupted:
                raise KeyboardInterrupt
            (out / "half").unlink()
            (out / "text").write_text(says(folders))

        settings = {"setting": self.setting[name], **({"text": self.text} if name == "read" else {})}
        return BuilderStep(name, needs, settings, ("harness.errors",), make, estimate, free)


def estimate(folders: Folders) -> StepEstimate:
    return StepEstimate({"inputs": len(folders)}, 2, 3, 4, 5.0, 0.1)


def taken(folders: Folders, name: str) -> str:
    return (folders[name] / "text").read_text()


def test_a_change_makes_what_depends_on_its_content_and_nothing_else() -> None:
    line = Line()
    first = build_steps(line.steps())
    assert line.made == ["read", "lower", "count", "report"]
    assert (first["report"] / "text").read_text() == "one two2"
    line.made.clear()
    assert build_steps(line.steps()) == first
    assert line.made == []
    line.text = "ONE two"  # the second step gives the same content as before
    again = build_steps(line.steps())
    assert line.made == ["read", "lower", "report"]
    assert again["count"] == first["count"]
    line.made.clear()
    line.setting["count"] = 1
    build_steps(line.steps())
    assert line.made == ["count"]  # whose content did not change
    line.made.clear()
    line.text = "one two"
    line.setting["count"] = 0
    assert build_steps(line.steps()) == first
    assert line.made == []


@pytest.mark.parametrize("at", ["read", "lower", "count", "report"])
def test_interrupted_at_any_step_it_goes_on_there(at: str) -> None:
    line = Line()
    line.interrupted = at
    with pytest.raises(KeyboardInterrupt):
        build_steps(line.steps())
    done = line.made[:-1]
    assert line.made[-1] == at
    line.made.clear()
    line.interrupted = ""
    folders = build_steps(line.steps())
    assert [*done, *line.made] == ["read", "lower", "count", "report"]
    assert (folders["report"] / "text").read_text() == "one two2"
    assert not list((folders["report"]).glob("half"))


def test_damage_is_made_anew_and_what_depends_on_it_is_not() -> None:
    line = Line()
    folders = build_steps(line.steps())
    before = steps.artefact_hash(folders["lower"])
    (folders["lower"] / "text").write_text("other")
    line.made.clear()
    build_steps(line.steps())
    assert line.made == ["lower"]
    assert steps.artefact_hash(folders["lower"]) == before


def test_a_dry_run_makes_free_steps_only_and_says_what_is_made() -> None:
    line = Line()
    planned = dry(line.steps())
    assert line.made == ["read"]
    assert [each.made for each in planned] == [False] * 4
    assert [each.plan.counts["inputs"] for each in planned] == [0, 1, 0, 1]
    build_steps(line.steps()[:2])
    line.made.clear()
    assert [each.made for each in dry(line.steps())] == [True, True, False, False]
    assert line.made == []


def test_totals_and_steps_up_to_one() -> None:
    planned = [
        PlannedBuild("a", False, StepEstimate({}, 1, 10, 20, 3.0, 0.1)),
        PlannedBuild("b", False, StepEstimate({}, 2, 30, 40, 4.0, 0.1)),
    ]
    assert total(planned) == StepEstimate({}, 3, 40, 60, 7.0, total(planned).within)
    assert total(planned).within == pytest.approx(0.5 / 7)
    line = Line()
    assert [step.name for step in upto(line.steps(), "count")] == ["read", "lower", "count"]
    assert [step.name for step in upto(line.steps(), None)] == ["read", "lower", "count", "report"]
    with pytest.raises(HarnessError, match="step 'cuont' is unknown; did you mean 'count'"):
        upto(line.steps(), "cuont")


def test_the_text_of_what_makes_a_step_is_part_of_its_key(tmp_path: Path) -> None:
    def one(folders: Folders, out: Path) -> None:
        (out / "text").write_text("one")

    def two(folders: Folders, out: Path) -> None:
        (out / "text").write_text("two")

    one_step, two_step = (BuilderStep("s", (), {}, ("harness.errors",), make, estimate) for make in (one, two))
    for step, said in ((one_step, "one"), (two_step, "two"), (one_step, "one")):
        assert (build_steps([step])["s"] / "text").read_text() == said
    assert one_step.spec({}) == replace(two_step, make=one).spec({})
