"""People as judges: a comparison tool for the terminal, and the agreement of people with an order."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import combinations
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.io.files import read_bytes
from harness.papers.saber.databank import MathProblem, problem_named
from harness.papers.saber.judges import CandidatePair, draw
from harness.papers.saber.lines import read_lines
from harness.papers.saber.swiss import wilson

# The instructions of the paper's appendix F.6, in our words.
INSTRUCTIONS = """\
Two candidates are compared with a target by the mathematics of their solutions. Choose the one that is closer.

1. Techniques: which do a candidate and the target share, and do these carry the solutions, or are they mentioned only?
   The same theorems, transformations and strategies count when they do the main work.
2. Differences: which important technique has only one of them? Problems of one subject may rest on other ideas.
3. Structure: do the solutions have the same shape (construction, theorem, chase; recurrence and induction; counting
   twice ...)? This counts less than the techniques.

Judge what the solutions do. Difficulty does not count, nor do names, stories and notation that look alike.
"""
QUESTION = "Closer to the target [1, 2; s: skip, i: instructions, q: quit]: "


@dataclass(frozen=True)
class Choice:
    """Choice of a person between two candidates: 1 or 2 in the order shown; 0 if the person skipped the pair."""

    person: str
    target: str
    first: str
    second: str
    preferred: int

    def __post_init__(self) -> None:
        for key in ("person", "target", "first", "second"):
            if not isinstance(getattr(self, key), str):
                raise HarnessError(f"{key} is {getattr(self, key)!r:.40}, expected text")
        if type(self.preferred) is not int or self.preferred not in (0, 1, 2):
            raise HarnessError(f"preferred is {self.preferred!r:.40}, expected 0, 1 or 2")


def pairs_to_judge(
    ratings: Mapping[str, Mapping[str, float]],
    number: int,
    seed: int = 0,
    other: Mapping[str, Mapping[str, float]] | None = None,
) -> list[CandidatePair]:
    """Draws comparisons for people; which candidate is shown first is also drawn.

    Parameters
    ----------
    ratings : target -> candidate -> value.
    number : of comparisons.
    other : a second order; only pairs that the two orders rank in opposite order are drawn.

    Raises
    ------
    HarnessError
        There are fewer than `number` pairs.
    """
    numbered = []
    for target, values in ratings.items():
        for a, b in combinations(sorted(values), 2):
            ahead = values[a] - values[b]
            if other is None or ahead * (other[target][a] - other[target][b]) < 0:
                numbered.append((draw(seed, "people", target, a, b), target, a, b))
    if len(numbered) < number:
        raise HarnessError(f"comparison: {number} pairs requested, but there are only {len(numbered)}")
    out = []
    for luck, target, a, b in sorted(numbered)[:number]:
        swapped = draw(seed, "swap people", luck) < 0.5
        out.append(CandidatePair(target, b, a) if swapped else CandidatePair(target, a, b))
    return out


def ask(
    comparisons: Sequence[CandidatePair],
    problems: Mapping[str, MathProblem],
    person: str,
    path: Path,
    read: Callable[[str], str],
    show: Callable[[str], None],
) -> int:
    """Asks a person; appends each choice to a file at once and returns the number of new choices.

    Pairs that this person chose or skipped before are not asked again, so that the person can quit and resume.

    Parameters
    ----------
    read : shows a question and returns the answer, such as `input`; end of input quits.
    show : shows a text.
    """
    known = {(c.target, frozenset((c.first, c.second))) for c in read_choices(path) if c.person == person}
    waiting = [c for c in comparisons if (c.target, frozenset((c.first, c.second))) not in known]
    show(INSTRUCTIONS)
    made = 0
    for number, each in enumerate(waiting, 1):
        show(f"\n==== {number} of {len(waiting)} ====")
        for title, name in (("TARGET", each.target), ("CANDIDATE 1", each.first), ("CANDIDATE 2", each.second)):
            problem = problem_named(problems, name, "comparison: ")
            show(f"\n---- {title} ----\n{problem.statement}\n\nSolution: {problem.solution}")
        try:
            answer = read(QUESTION).strip().lower()
            while answer not in ("1", "2", "s", "q"):
                if answer == "i":
                    show(INSTRUCTIONS)
                answer = read(QUESTION).strip().lower()
        except EOFError:
            answer = "q"
        if answer == "q":
            break
        preferred = int(answer) if answer in "12" else 0
        _append_choice(path, Choice(person, each.target, each.first, each.second, preferred))
        made += 1
    return made


def _append_choice(path: Path, choice: Choice) -> None:
    """Appends a line to the file of choices, after its last complete line."""
    line = json.dumps(asdict(choice)).encode() + b"\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as stream:
            stream.seek(0)
            before = stream.read()
            whole = _complete_lines(before)
            stream.truncate(len(whole))
            stream.write(line if whole.endswith(b"\n") or not whole else b"\n" + line)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise HarnessError(f"{path}: cannot be written: {error.strerror or error}") from None


def _complete_lines(data: bytes) -> bytes:
    """Removes a last line that was only partly written when the machine stopped."""
    lines, _, last = data.rpartition(b"\n")
    try:
        json.loads(last or b"{}")
    except ValueError:
        return lines + b"\n" if lines else b""
    return data


def read_choices(path: Path) -> list[Choice]:
    """Reads choices; a missing file has none. Ignores a last line that was only partly written.

    Raises
    ------
    FormatError
        A line is not a choice.
    """

    def choice(row: dict[str, Any]) -> Choice:
        return Choice(*(row[each.name] for each in fields(Choice)))

    return list(read_lines(path, choice, _complete_lines(read_bytes(path)))) if path.exists() else []


@dataclass(frozen=True)
class PeopleAgreement:
    """Agreement of people's choices with an order.

    Attributes
    ----------
    choices : number of choices, without skipped pairs and pairs that the order ties.
    agreed : number of choices for the candidate that is higher in the order.
    low, high : Wilson's 95 % interval of the share `agreed` / `choices`.
    unknown : number of choices with a target or candidate that the order lacks; not counted in `choices`.
    """

    choices: int
    agreed: int
    low: float
    high: float
    unknown: int = 0


def people_agreement(choices: Sequence[Choice], order: Mapping[str, Mapping[str, float]]) -> PeopleAgreement:
    """Computes the agreement of choices with an order (target -> candidate -> value), such as Swiss ratings.

    >>> people_agreement([Choice("me", "t", "a", "b", 1), Choice("me", "t", "b", "c", 2)], {"t": dict(a=3, b=2, c=1)})
    PeopleAgreement(choices=2, agreed=1, low=0.09453120573423074, high=0.9054687942657693, unknown=0)
    """
    known = [each for each in choices if {each.first, each.second} <= order.get(each.target, {}).keys()]
    ahead = [
        (order[each.target][each.first] - order[each.target][each.second]) * (1 if each.preferred == 1 else -1)
        for each in known
        if each.preferred
    ]
    counted = [value for value in ahead if value]
    agreed = sum(value > 0 for value in counted)
    return PeopleAgreement(len(counted), agreed, *wilson(agreed, len(counted)), len(choices) - len(known))
