"""Faults of an experiment, in its file or name: told before the first cell is run, a line each, and not left behind."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from case_tables import refusals
from tools import Place

SHARED = ["collection=mini-task1", "corpus=mini-answers"]


def faults(place: Place, **changes: Any) -> list[str]:  # noqa: ANN401
    """What is said of an experiment that has faults; nothing of it has been run."""
    mapping = {"title": "t", "shared": SHARED, "measures": ["nDCG"], **changes}
    place.write("conf/experiment/mine.yaml", yaml.safe_dump(mapping, sort_keys=False))
    for words in ((), ("--dry-run",)):
        done = place.run("run", "experiment=mine", *words)
        assert done.code == 2, done.err
        assert "running " not in done.err
        assert not (place.here / "runs").exists()
        assert not (place.here / "reports").exists()
    return [line for line in done.err.splitlines() if line.startswith("harness: ")]


@pytest.mark.slow
def test_what_a_system_would_refuse(place: Place) -> None:
    """Hours later, when its turn came: a value, a key below another one, a corpus, judgments, posts it trained on."""
    place.write(
        "posts.py",
        "class Posts:\n    def trains_without(self):\n        return {'mini-task2'}\n\n"
        "    def __call__(self, request):\n        raise ValueError\n",
    )
    place.write("conf/system/posts.yaml", "title: P\n_target_: posts.Posts\n")
    said = faults(
        place,
        conditions={
            "good": {"overrides": ["system=overlap"]},
            "value": {"overrides": ["system=bm25", "system.k1=-1", "system.name=low"]},
            "inner": {"overrides": ["system=mathamr-dependency", "system.training.rat=1"]},
            "corpus": {"overrides": ["system=mathamr-dependency", "system.pairs.mse-page=null"]},
            "judgments": {"overrides": ["system=bm25", "training=[mini-task9]", "system.name=learnt"]},
            "posts": {"overrides": ["system=posts"]},
        },
    )
    assert said[0] == "harness: value: run: system: key 'k1' is -1, expected a number from 0 up"
    assert said[1].startswith("harness: inner: ")
    assert said[1].endswith("system mathamr-dependency: key 'training.rat' is unknown; did you mean 'rate'?")
    assert said[2].endswith("key 'pairs': corpus 'mse-page' is unknown; did you mean 'mse-pages'?")
    assert said[3].startswith("harness: judgments: collection 'mini-task9' is unknown; did you mean ")
    assert said[4].startswith(
        "harness: posts: system posts: trains on posts without leaving out those judged in mini-task1; "
    )
    assert len(said) == 5


@pytest.mark.slow
def test_settings_are_not_chosen_on_the_reported_topics(place: Place) -> None:
    """Two sets of one collection's topics are no other topics, whatever their names."""
    experiment = {
        "title": "t",
        "shared": ["corpus=mini-answers", "system=bm25"],
        "axes": {"language": {"one": ["collection=mini-task1"], "other": ["collection=mini-task1", "system.b=0"]}},
        "conditions": {"tuned": {"overrides": [], "tune": {"system.k1": [1, 2]}}},
        "pool": "language",
        "measures": ["nDCG"],
    }
    place.write("conf/experiment/same.yaml", yaml.safe_dump(experiment))
    done = place.run("run", "experiment=same")
    said = "settings or seeds of 'one' are chosen on 'other', which has topic 'M.1' (42 such topics)"
    assert (done.code, said in done.err, (place.here / "runs").exists()) == (2, True, False)


@pytest.mark.slow
def test_a_name_that_is_read_as_a_number_must_be_quoted(place: Place) -> None:
    text = (Path(__file__).parents[2] / "conf/experiment/mini.yaml").read_text(encoding="utf-8")
    for name in ("nan", "17"):
        place.write(f"conf/experiment/{name}.yaml", text)
        said = f"harness: experiment={name}: Hydra reads {name} as a number; give the experiment another name\n"
        done = place.run("run", f"experiment={name}", "--dry-run")
        assert (done.code, done.err) == (2, said)
        assert place.good("run", f'experiment="{name}"', "--dry-run").startswith(f"experiment {name}, scale full: ")


@pytest.mark.heavy
def test_names_that_hydra_reads_in_quotes_only(place: Place) -> None:
    text = (Path(__file__).parents[2] / "conf/experiment/mini.yaml").read_text(encoding="utf-8")
    for name in ("été", "a=b"):
        place.write(f"conf/experiment/{name}.yaml", text)
        done = place.run("run", f"experiment={name}", "--dry-run")
        assert (done.code, len(done.err.splitlines())) == (2, 1), done.err
        assert place.good("run", f"experiment='{name}'", "--dry-run").startswith(f"experiment {name}, scale full: ")


@pytest.mark.parametrize(("words", "said"), refusals("experiments"))
def test_faults_of_the_command_line(place: Place, words: str, said: str) -> None:
    done = place.run("run", *shlex.split(words))
    assert (done.code, done.err) == (2, f"harness: {said}\n")
    assert not (place.here / "runs").exists()
