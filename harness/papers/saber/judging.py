"""The tournament step: settings, judges, input and output folders."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import xxhash

from harness.errors import HarnessError
from harness.io.checks import Words, check_number, check_whole_number
from harness.papers.saber import judges, swiss
from harness.papers.saber.databank import PROBLEMS, MathProblem, problem_named, read_problems
from harness.papers.saber.judges import CandidatePair, Judge, judged_text
from harness.papers.saber.select import TARGETS, Target, read_targets
from harness.papers.saber.steps import FILL, BuilderStep, Folders, StepEstimate, spent_text, write_counts
from harness.store import prompts
from harness.store.llm import Client, Endpoint, load_endpoint, sample
from harness.store.llm.client import Mode
from harness.store.llm.estimate import ENOUGH, estimate_calls

DIMENSIONS = 1024
_WORD = re.compile(r"\\?\w+")


@dataclass(frozen=True)
class JudgeSettings:
    """Settings of the judge (key `judge`).

    Attributes
    ----------
    by : language model (`llm`), cosine of embeddings (`embedding`), or `oracle`, whose order is drawn by the seed.
    endpoint, budget : of the language model, as in `annotate`.
    explain : whether the language model writes its reasons first.
    encoder : encoder of the embeddings; None uses TF-IDF vectors of words, which need no model.
    device : where the encoder runs.
    noise : of the oracle, in standard deviations of its strengths.
    rounds : number of Swiss rounds.
    seed : of the pairings, and of `shown: drawn`.
    shown : which candidate the judge sees first: that with the smaller id (`id`), as in the authors' code, or either
        (`drawn`), so that a judge's position bias favours no ids.
    """

    by: Literal["llm", "embedding", "oracle"] = "embedding"
    endpoint: Words = ""
    budget: Annotated[float, check_number] | None = None
    explain: bool = True
    encoder: Words | None = None
    device: Literal["cpu", "cuda"] = "cpu"
    noise: Annotated[float, check_number] = 0.0
    rounds: Annotated[int, partial(check_whole_number, low=1)] = swiss.ROUNDS
    seed: Annotated[int, check_whole_number] = 0
    shown: Literal["id", "drawn"] = "id"

    def __post_init__(self) -> None:
        if self.by == "llm" and not self.endpoint:
            raise HarnessError("key 'endpoint' is missing: a language model of conf/llm/")

    def deciding(self) -> dict[str, Any]:
        """Returns the settings that affect preferences, for the fingerprint."""
        out: dict[str, Any] = {"by": self.by, "rounds": self.rounds, "seed": self.seed, "shown": self.shown}
        if self.by == "llm":
            endpoint = load_endpoint(self.endpoint)
            decides = {"model": endpoint.model, "parameters": dict(endpoint.parameters)}
            asked = [prompts.digest(name) for name in (judges.PROMPT, judges.AGAIN)]
            return {**out, **decides, "explain": self.explain, "prompts": asked}
        if self.by == "oracle":
            return {**out, "noise": self.noise}
        return {**out, "encoder": encoder_identity(self.encoder) if self.encoder else f"words {DIMENSIONS}"}

    def named(self) -> str:
        """Describes the judge in words."""
        if self.by == "llm":
            return f"language model {load_endpoint(self.endpoint).model}"
        if self.by == "oracle":
            return f"oracle of a drawn order, noise {self.noise:g}"
        return f"cosine of embeddings by {self.encoder}" if self.encoder else "cosine of TF-IDF vectors of words"


def judge_step(settings: JudgeSettings, size: tuple[int, int], mode: Mode = "live") -> BuilderStep:
    """Returns the step that plays the tournaments of all targets.

    Parameters
    ----------
    size : expected number of targets and of candidates per target, for a plan before they are selected.
    """

    def make(folders: Folders, out: Path) -> None:
        targets, problems = read_targets_and_problems(folders)
        judge = judge_of(settings, targets, problems, mode)
        played = _tournaments(settings, targets, judge)
        swiss.write_games(out / swiss.GAMES, played)
        write_counts(out, {"judge": settings.named(), **_game_counts(played)})

    def plan(folders: Folders) -> StepEstimate:
        if not {"databank", "select"} <= set(folders):
            games = size[0] * settings.rounds * (size[1] // 2)
            basis = "unknown before targets are selected" * (settings.by == "llm")
            return StepEstimate({"comparisons at most": games}, basis=basis)
        targets, problems = read_targets_and_problems(folders)
        games = sum(settings.rounds * (len(each.candidates) // 2) for each in targets)
        if settings.by != "llm":
            return StepEstimate({"comparisons at most": games})
        judge = judges.KeptModel(_language_model(settings, problems, "dry"))
        _tournaments(settings, targets, judge)
        return _planned(load_endpoint(settings.endpoint), judge)

    needs = ("databank", "select")
    return BuilderStep("judge", needs, settings.deciding(), (swiss.__name__, __name__), make, plan)


def pilot(settings: JudgeSettings, folders: Folders, count: int) -> str:
    """Asks the model a random sample of the first round's comparisons, so that a dry run can estimate the total cost.

    The answers are cached for the step `judge`. Returns a line with the cost.
    """
    if settings.by != "llm":
        raise HarnessError("--pilot: this judge is not a language model")
    targets, problems = read_targets_and_problems(folders)
    games = swiss.first_round(candidates_of(targets), settings.seed, drawn=settings.shown == "drawn")
    drawn = sample(games, count)
    model = _language_model(settings, problems, "live")
    model.prefer(drawn)
    return spent_text(f"{len(drawn)} comparisons", model.client.spent)


def second_opinion(settings: JudgeSettings, folders: Folders, mode: Mode = "live") -> tuple[int, int]:
    """Asks another judge the decided games; returns how many it decides and how many of these agree.

    The judge sees the candidates in the same order. Raises what the judge raises.
    """
    targets, problems = read_targets_and_problems(folders)
    played = swiss.read_games(folders["judge"] / swiss.GAMES)
    decided = [(each.target, game) for each in played for game in each.games if game.preferred]
    asked = [CandidatePair(target, game.first, game.second) for target, game in decided]
    answers = judge_of(settings, targets, problems, mode).prefer(asked)
    both = [(answer, game.preferred) for answer, (_, game) in zip(answers, decided, strict=True) if answer]
    return len(both), sum(answer == preferred for answer, preferred in both)


def _tournaments(settings: JudgeSettings, targets: Sequence[Target], judge: Judge) -> list[swiss.Games]:
    drawn = settings.shown == "drawn"
    return swiss.tournaments(candidates_of(targets), judge, settings.rounds, settings.seed, drawn=drawn)


def read_targets_and_problems(folders: Folders) -> tuple[list[Target], dict[str, MathProblem]]:
    """Reads the output of the steps `select` and `databank`."""
    return read_targets(folders["select"] / TARGETS), read_problems(folders["databank"] / PROBLEMS)


def candidates_of(targets: Sequence[Target]) -> dict[str, list[str]]:
    """Returns target -> ids of its candidates."""
    return {target.id: [each.id for each in target.candidates] for target in targets}


def _game_counts(played: Sequence[swiss.Games]) -> dict[str, object]:
    bias = swiss.position_bias(played)
    out = sum(len(names) for each in played for names in each.sat_out)
    counts: dict[str, object] = {"targets": len(played), "comparisons": bias.decided + bias.undecided}
    counts |= {"without a decision": bias.undecided, "sat out": out}
    if bias.decided:
        ends = {"low": round(bias.low, 4), "high": round(bias.high, 4)}
        shares = {"share of decisions for the candidate shown first": round(bias.share, 4)}
        counts |= shares | {f"95% interval, {end}": value for end, value in ends.items()}
    return counts


def _planned(endpoint: Endpoint, judge: judges.KeptModel) -> StepEstimate:
    """Estimates the calls, tokens and cost of the comparisons without cached answers."""
    counts = {"comparisons": len(judge.seen) + len(judge.open), "comparisons with cached answers": len(judge.seen)}
    made = estimate_calls(endpoint, judge.open, judge.seen, f"{len(judge.seen)} finished comparisons")
    basis = made.basis
    if judge.open and len(judge.seen) < ENOUGH:
        basis = f"a guess; run a pilot of {ENOUGH} comparisons or more (judge --pilot) to measure this model's tokens"
    tokens_in = max(made.tokens_in - sum(answer.tokens_in for answer in judge.paid), 0.0)
    tokens_out = max(made.tokens_out - sum(answer.tokens_out for answer in judge.paid), 0.0)
    calls, cost = max(made.calls - len(judge.paid), 0.0), endpoint.cost(tokens_in, tokens_out)
    return StepEstimate(counts, calls, tokens_in, tokens_out, cost, made.within, basis)


# ---- judges -----------------------------------------------------------------------------------------------------


def judge_of(
    settings: JudgeSettings, targets: Sequence[Target], problems: Mapping[str, MathProblem], mode: Mode
) -> Judge:
    """Builds the judge of the settings; raises if an encoder, an endpoint or a problem is missing."""
    if settings.by == "llm":
        return _language_model(settings, problems, mode)
    if settings.by == "oracle":
        drawn = {
            target.id: {
                each.id: judges.normal_number(
                    *(judges.draw(settings.seed, target.id, each.id, part) for part in ("radius", "angle"))
                )
                for each in target.candidates
            }
            for target in targets
        }
        return judges.Oracle(drawn, settings.noise, seed=settings.seed)
    wanted = dict.fromkeys(name for target in targets for name in (target.id, *(c.id for c in target.candidates)))
    texts = [judged_text(problem_named(problems, name)) for name in wanted]
    vectors = _encoded_texts(settings, texts) if settings.encoder else word_vectors(texts)
    return judges.Embedding(dict(zip(wanted, vectors, strict=True)))


def _language_model(settings: JudgeSettings, problems: Mapping[str, MathProblem], mode: Mode) -> judges.LanguageModel:
    client = Client(load_endpoint(settings.endpoint), mode, settings.budget if mode == "live" else None, fill=FILL)
    return judges.LanguageModel(client, problems, settings.explain)


def encoder_identity(name: str) -> dict[str, Any]:
    """Returns what affects the vectors of an encoder; its name alone if it is missing."""
    from harness.systems.dense import encoder, models
    from harness.systems.dense.engines import EncoderSettings

    if models.missing(name):  # earlier steps need no model; this step reports what is missing
        return {"missing": name}
    return encoder.identity(name, EncoderSettings())


def _encoded_texts(settings: JudgeSettings, texts: Sequence[str]) -> npt.NDArray[np.float32]:
    from harness.systems.dense import encoder

    loaded = encoder.load(str(settings.encoder), device=settings.device)
    return np.asarray(loaded.encode(list(texts), "document"), np.float32)


def word_vectors(texts: Sequence[str], dimensions: int = DIMENSIONS) -> npt.NDArray[np.float32]:
    """Computes TF-IDF vectors of words by feature hashing with signs; float32, shape (texts, dimensions).

    Replaces embeddings where no model is available. A text without words has a vector of ones.

    >>> a, b, c = word_vectors(["roots of unity", "the roots of unity", "angles"])
    >>> bool(a @ b > a @ c)
    True
    """
    counted = [Counter(_WORD.findall(text.lower())) for text in texts]
    frequency = Counter(word for counts in counted for word in counts)
    out = np.zeros((len(texts), dimensions), np.float32)
    for row, counts in zip(out, counted, strict=True):
        for word, count in counts.items():
            code = xxhash.xxh3_64_intdigest(word.encode("utf-8", "surrogatepass"))
            weight = (1 + math.log(count)) * math.log(1 + len(texts) / frequency[word])
            row[code % dimensions] += weight if code >> 63 else -weight
        if not row.any():
            row[:] = 1.0
    return out
