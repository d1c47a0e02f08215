"""The folder of a rehearsal: stand-ins in the form of the real resources, and configurations that point to them."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from fractions import Fraction
from multiprocessing import get_context
from pathlib import Path

import yaml

from harness.collections.corpora import load_corpus
from harness.collections.load import load_collection
from harness.errors import HarnessError
from harness.io import config, rehearsal
from harness.io.files import sha256_file, write_atomic
from harness.papers.steps import RunStep
from harness.rehearsal import data, models, services
from harness.sources.resource import Resource
from harness.systems import states
from harness.version import __version__

POSTS, DECLARATIONS, PROBLEMS = 2_400_000, 200_438, 5_000  # of the real resources, about (SABER-Math: not published)
TINY = {"posts": 2000, "declarations": 300, "problems": 200}
_WHOLE = ".whole"  # file beside a model whose files are all there
_SOURCES = ("arqmath-posts", "leansearch", "mathlib", "saber-math-data")
_SCALE = re.compile(r"[1-9]\d*(/[1-9]\d*)?")

_REPLACED = ("HF_", "OPENAI_", "GEMINI_", "SENTENCE_TRANSFORMERS_HOME", "TRANSFORMERS_CACHE", "TORCH_HOME")

Say = Callable[[str], None]


@dataclass(frozen=True)
class StandInSizes:
    """Sizes of generated resources."""

    name: str
    posts: int
    declarations: int
    problems: int


@dataclass(frozen=True)
class World:
    """A rehearsal's folder.

    Attributes
    ----------
    folder : absolute path; commands run in its subfolder `work`.
    given : source -> files, as a person gets them.
    services : whether commands need the server of stand-in services.
    """

    folder: Path
    scale: StandInSizes
    seed: int
    given: Mapping[str, tuple[Path, ...]]
    services: bool

    @property
    def work(self) -> Path:
        """Current folder of the commands."""
        return self.folder / "work"

    def environment(self, outer: Mapping[str, str]) -> dict[str, str]:
        """Returns the environment of the commands: nothing outside the folder is written."""
        inner = {name: value for name, value in outer.items() if not name.startswith(_REPLACED)}
        for name in ("HARNESS_MIRROR", "HARNESS_CONF"):  # commands run in another folder
            if inner.get(name):
                inner[name] = str(Path(inner[name]).absolute())
        path = [str(self.folder / "packages"), str(Path(__file__).parents[2])]
        path += [str(Path(each).absolute()) for each in outer.get("PYTHONPATH", "").split(os.pathsep) if each]
        return inner | {
            rehearsal.VARIABLE: str(self.folder),
            "HARNESS_CACHE": str(self.folder / "cache"),
            "HF_HOME": str(self.folder / "hub"),
            "HF_HUB_OFFLINE": "1",
            "PYTHONPATH": os.pathsep.join(path),
            **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1"),
            **dict.fromkeys(("OPENAI_API_KEY", "GEMINI_API_KEY"), "stand-in"),
            "OMP_NUM_THREADS": "1",  # matrices of stand-ins are too small for more
        }


def scale_of(name: str) -> StandInSizes:
    """Returns the sizes of a scale: `tiny`, or a fraction of the real resources such as `1/100`.

    Raises
    ------
    HarnessError
        It is neither, or above 1, or leaves nothing of a resource.

    Examples
    --------
    >>> scale_of("1/100").posts
    24000
    """
    if name == "tiny":
        return StandInSizes(name, **TINY)
    if not _SCALE.fullmatch(name) or Fraction(name) > 1:
        raise HarnessError(f"scale {name!r}: expected tiny, or a fraction of the real resources such as 1/100")
    part = Fraction(name)
    sizes = (int(POSTS * part), int(DECLARATIONS * part), int(PROBLEMS * part))
    if min(sizes) < 1:
        raise HarnessError(f"scale {name!r}: leaves none of the {PROBLEMS:,} problems; take 1/{PROBLEMS} or more")
    return StandInSizes(name, *sizes)


def make_world(
    folder: Path, steps: Sequence[RunStep], scale: StandInSizes, seed: int, real: Sequence[str], say: Say
) -> World:
    """Makes the stand-ins that steps need, in a folder of their own; keeps those that are there already.

    Parameters
    ----------
    real : models and sources that are used as they are, by name.

    Raises
    ------
    HarnessError
        The folder holds something else, or stand-ins of another scale, seed or version; a name in `real` is unknown.
    """
    about = {"made by": f"mathir-harness {__version__}", "scale": asdict(scale), "seed": seed, "real": sorted(real)}
    _check_folder(folder, about)
    parts = [part for step in steps for part in step.systems()]
    wanted = models_of(parts)
    sources = sources_of({name for step in steps for name in step.corpora()})
    for name in real:
        if name not in {*wanted, *sources}:
            known = ", ".join(sorted({*wanted, *sources}))
            raise HarnessError(f"real: {name!r} is no resource of these rows; they need {known}")
    (folder / "work").mkdir(parents=True, exist_ok=True)
    write_atomic(folder / rehearsal.ABOUT, yaml.safe_dump(about, sort_keys=False))
    given: dict[str, tuple[Path, ...]] = {}
    for source in sorted(sources - set(real)):
        say(f"stand-in for {source}")
        given[source] = _bring(source, folder / "given", scale, seed)
    if "mathlib" in given:
        _overlay(folder, "mathlib", {f"derived/{path.name}": path for path in given["mathlib"]})
    _make_models(folder, sorted(wanted - set(real)), seed, say)
    used = {str(part.get("parser", "")).partition(":")[::2] for part in parts}
    if any(name in ("transition-amr", "amrlib") for name, _ in used):
        models.make_parsers(folder / "packages", seed)
    for model in sorted(model for name, model in used if name == "amrlib"):
        models.make_parser_model(folder / "work" / model)
    asked = {str(part.get(key)) for part in parts for key in ("llm", "augment_llm", "model")}
    return World(folder, scale, seed, given, bool(asked & set(config.names("llm"))))


def _make_models(folder: Path, names: Sequence[str], seed: int, say: Say) -> None:
    """Makes stand-ins of models where the commands look for them."""
    # In a process of its own, since what it imports would count as the memory of every command.
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        for name in names:
            place = _place(folder, name)
            if not (place / _WHOLE).is_file():
                say(f"stand-in for the model {name}")
                shutil.rmtree(place, ignore_errors=True)  # the part that an interrupted call left
                pool.submit(models.make_model, name, place, seed).result()
                (place / _WHOLE).touch()
            if name in config.names("source"):
                inside = sorted(path for path in place.rglob("*") if path.is_file() and not path.name.startswith("."))
                files = {f"{name}/{path.relative_to(place).as_posix()}": path for path in inside}
                _overlay(folder, name, files, model={"engine": "transformers", "folder": name})
            elif "/" in name:
                write_atomic(place.parents[1] / "refs" / "main", place.name)


def _check_folder(folder: Path, wanted: Mapping[str, object]) -> None:
    about = folder / rehearsal.ABOUT
    if not about.is_file():
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise HarnessError(f"{folder}: is not empty and holds no rehearsal; name another folder")
        return
    noted = config.parse(about.read_bytes(), str(about))
    for key, value in wanted.items():
        if noted.get(key) != value:
            raise HarnessError(f"{about}: key {key!r} is {noted.get(key)!r}, expected {value!r}; name another folder")


def models_of(parts: Iterable[Mapping[str, object]]) -> set[str]:
    """Returns the models in files that systems read, by all keys that name one."""
    mappings = list(parts)
    names = set(states.needed_models(mappings))
    names |= {str(part[key]) for part in mappings for key in ("tokens", "teacher") if isinstance(part.get(key), str)}
    return names - set(config.names("llm"))


def sources_of(names: Iterable[str]) -> set[str]:
    """Returns the sources that a person must bring for collections and corpora."""
    paths: set[str] = set()
    for name in names:
        files = (load_corpus if name in config.names("corpus") else load_collection)(name).files()
        paths |= {file.path for file in files if isinstance(file, Resource) and file.by_hand}
    return {source for source in _SOURCES if paths & set(config.load("source", source)[0]["files"])}


def _bring(source: str, folder: Path, scale: StandInSizes, seed: int) -> tuple[Path, ...]:
    """Generates the files of a source; returns those that a person brings."""
    if source == "arqmath-posts":
        file, words = folder / "Posts.V1.3.xml", data.SHORT if scale.name == "tiny" else data.LONG
        return (file if file.is_file() else data.write_posts(file, scale.posts, seed, words),)
    if source == "saber-math-data":
        return data.write_problems(folder / "saber-math", scale.problems, seed)
    declared, asked = data.write_theorems(folder / "mathlib4", scale.declarations, seed)
    return (asked,) if source == "leansearch" else (declared,)


def _place(folder: Path, name: str) -> Path:
    """Returns the folder of a model: in the hub's cache, among the files of a source, or below the current folder."""
    if name in config.names("source"):
        return folder / "cache" / "files" / name
    if "/" not in name:
        return folder / "work" / name
    repository, _, revision = name.partition("@")
    revision = revision or hashlib.sha1(f"stand-in {name}".encode(), usedforsecurity=False).hexdigest()
    return folder / "hub" / "hub" / f"models--{repository.replace('/', '--')}" / "snapshots" / revision


def _overlay(folder: Path, name: str, files: Mapping[str, Path], **more: object) -> None:
    """Writes the configuration by which the name of a source means the stand-in."""
    about = {"title": f"stand-in for {name}", "licence": "none: generated", "by_hand": "harness rehearse makes it"}
    listed = {key: {"sha256": sha256_file(path), "size": path.stat().st_size} for key, path in files.items()}
    text = yaml.safe_dump({**about, **more, "files": listed}, sort_keys=False)
    write_atomic(folder / "conf" / "source" / f"{name}.yaml", text)


def overlay_services(world: World, url: str) -> None:
    """Writes the configurations by which the names of endpoints mean the server of stand-ins."""
    for name, text in services.overlay(url).items():
        write_atomic(world.folder / "conf" / "llm" / f"{name}.yaml", text)
