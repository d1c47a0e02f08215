"""What changed, reused? Each row of the table in the documentation is a run, a change, and the same command again."""

from __future__ import annotations

import gzip
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tools import CODE, Place

PAGE = Path(CODE) / "docs" / "explanation" / "fingerprints-and-store.md"
MINE = '''
"""Ranks by common words, as notes.txt says; prints out."""
import os
import sys
from pathlib import Path

sys.path.append(os.environ["LIBS"])
import app_lib  # and not remark.txt
import helper
from harness.systems.baselines import Overlap

HERE = Path(__file__).parent
TABLE = (HERE / "data" / "table.tsv").read_text()
LISTED = sorted(path.read_text() for path in HERE.joinpath("listed").glob("*.txt"))
SCALE = os.environ.get("SCALE")
print("ran out", file=sys.stderr)


class Mine(Overlap):
    def __init__(self, depth=5, k=1.5, seed=1, model="", plug="", object=""):
        super().__init__(depth)


class Reading(Mine):
    def reads(self):
        return {"weights": (HERE / self.weights()).read_text()}

    def weights(self):
        return "weights" + ".bin"
'''
BLIND = """
import os
from harness.systems.baselines import Overlap

class Blind(Overlap):
    scale = [os.environ.get(name) for name in ("A" + "B",)]
    found = list(os.scandir(os.path.dirname(os.path.abspath(__file__))))
"""
FILES = {
    "mine.py": MINE,
    "blind.py": BLIND,
    "helper.py": "X = 1\n",
    "plug.py": "WEIGHT = 1\n",
    "other_plug.py": "WEIGHT = 1\n",
    "data/table.tsv": "1\n",
    "listed/one.txt": "1\n",
    "model/config.json": "{}\n",
    "model/layer/weights": "1\n",
    "weights.bin": "1",
    "notes.txt": "1\n",
    "remark.txt": "1\n",
    "conf/system/mine.yaml": (
        "title: A title\n_target_: mine.Mine\nk: 2\nmodel: model\nplug: plug\nobject: 'other_plug:WEIGHT'\n"
    ),
    "conf/system/reading.yaml": "title: x\n_target_: mine.Reading\n",
    "conf/system/blind.yaml": "title: x\n_target_: blind.Blind\n",
    "site-packages/app_lib/__init__.py": "import base_lib\n",
    "site-packages/app_lib-1.0.dist-info/METADATA": "Name: app-lib\nVersion: 1.0\nRequires-Dist: base-lib (>=1)\n",
    "site-packages/app_lib-1.0.dist-info/RECORD": "app_lib/__init__.py,,\n",
    "site-packages/base_lib/__init__.py": "X = 1\n",
    "site-packages/base_lib-1.0.dist-info/METADATA": "Name: base-lib\nVersion: 1.0\n",
    "site-packages/base_lib-1.0.dist-info/RECORD": "base_lib/__init__.py,,\n",
}
RUN = ("run", "collection=ours", "corpus=ours", "formats=[json]")
MINE_RUN = (*RUN, "system=mine")
POOL = (*MINE_RUN, "rerank=true", "system.name=pool")
TRAINED = (*MINE_RUN, "training=[other]", "system.name=trained")
READING = (*RUN, "system=reading")
BLIND_RUN = (*RUN, "system=blind")
BASES = (MINE_RUN, POOL, TRAINED, READING, BLIND_RUN)

Change = Callable[[Place], object]


def edit(path: str, old: str, new: str) -> Change:
    def change(place: Place) -> None:
        text = (place.here / path).read_text()
        assert old in text, (path, old)
        place.write(path, text.replace(old, new, 1))

    return change


def reverse(path: str) -> Change:
    return lambda place: place.write(path, b"".join((place.here / path).read_bytes().splitlines(keepends=True)[::-1]))


def write(path: str, content: str = "2\n") -> Change:
    return lambda place: place.write(path, content)


def compress(place: Place) -> None:
    file = place.here / CORPUS
    place.write(f"{CORPUS}.gz", gzip.compress(file.read_bytes()))
    file.unlink()
    edit("conf/corpus/ours.yaml", "ours.jsonl", "ours.jsonl.gz")(place)


def touch(place: Place) -> None:
    os.utime(place.here / CORPUS)


def say(*words: str) -> Change:
    """Words after those of the command."""
    return lambda _: words


def set_variable(**variables: str) -> Change:
    return lambda _: variables


def other_machine(place: Place) -> tuple[str, ...]:
    """Another cache folder, more threads, other resources."""
    place.environment |= {"HARNESS_CACHE": str(place.here / "other cache"), "OMP_NUM_THREADS": "2"}
    return ("+system.resources={cpus: 2}",)


def move(place: Place) -> None:
    shutil.copytree(place.here, place.here.parent / "moved", symlinks=True)
    place.here = place.here.parent / "moved"


def upgrade(name: str) -> Change:
    def change(place: Place) -> None:
        site = place.here.parent / "site-packages"
        (site / f"{name}-1.0.dist-info").rename(site / f"{name}-1.1.dist-info")

    return change


LIBRARY = "../site-packages/app_lib/__init__.py"
LIBRARIES = {"LIBS": "../site-packages"}
CORPUS = "conf/corpus/ours.jsonl"
TOPICS = "conf/collection/ours.topics.jsonl"
QRELS = "conf/collection/ours.qrels"
# As in the documentation: what changes, what else the command had, how to change it.
ROWS: tuple[tuple[str, tuple[str, ...], Change], ...] = (
    ("nothing", MINE_RUN, say()),
    ("the text of a document", MINE_RUN, edit(CORPUS, "induction", "deduction")),
    ("the order of the documents", MINE_RUN, reverse(CORPUS)),
    ("the corpus is compressed, its content is the same", MINE_RUN, compress),
    ("the date of a file", MINE_RUN, touch),
    ("the text of a topic", MINE_RUN, edit(TOPICS, "first n odd", "first m odd")),
    ("the order of the topics", MINE_RUN, reverse(TOPICS)),
    ("the judgments that score the run", MINE_RUN, edit(QRELS, "T.1 0 d01 3", "T.1 0 d01 1")),
    ("the protocol", MINE_RUN, say("protocol=trec_eval")),
    ("judged documents that are re-ranked: a grade", POOL, edit(QRELS, "T.1 0 d01 3", "T.1 0 d01 1")),
    ("judged documents that are re-ranked: another document", POOL, edit(QRELS, "T.1 0 d12 0\n", "")),
    ("training judgments", TRAINED, edit("conf/collection/other.qrels", "U.1 0 d01 1", "U.1 0 d01 2")),
    ("the value of a key, such as a seed", MINE_RUN, say("system.seed=2")),
    ("a key is written with its default", MINE_RUN, say("system.seed=1")),
    ("a number is written otherwise: `2.0` for `2`", MINE_RUN, say("system.k=2.0")),
    ("comments and titles in a configuration", MINE_RUN, edit("conf/system/mine.yaml", "A title", "Another  # why")),
    ("the title of the collection or the corpus", MINE_RUN, edit("conf/corpus/ours.yaml", "documents", "other words")),
    ("resources, threads, the cache folder", MINE_RUN, other_machine),
    ("the class of the system", MINE_RUN, edit("mine.py", "depth=5", "depth=6")),
    ("a module that it imports", MINE_RUN, write("helper.py")),
    ("a module that a key names, as `module`", MINE_RUN, write("plug.py", "WEIGHT = 2\n")),
    ("a module that a key names, as `module:name`", MINE_RUN, write("other_plug.py", "WEIGHT = 2\n")),
    ("a file that strings of its code name", MINE_RUN, write("data/table.tsv")),
    ("a file that only its comments or docstrings name", MINE_RUN, write("remark.txt")),
    ("a file whose name is a word in a message: `out` of `... >> out`", MINE_RUN, write("out")),
    ("a file in a folder that its code names and lists", MINE_RUN, write("listed/two.txt")),
    ("a file in a folder that a key names, such as a model", MINE_RUN, write("model/layer/weights")),
    ("what its method `reads()` returns", READING, write("weights.bin", "12")),
    ("an environment variable that its code names", MINE_RUN, set_variable(SCALE="2")),
    ("another environment variable", MINE_RUN, set_variable(OTHER_SCALE="2")),
    ("a file or variable whose name its code computes, without `reads()`", BLIND_RUN, set_variable(AB="2")),
    ("the version of an installed library", MINE_RUN, upgrade("app_lib")),
    ("the version of a library that this one requires", MINE_RUN, upgrade("base_lib")),
    ("files of an installed library, at the same version", MINE_RUN, write(LIBRARY, "import base_lib\nX = 2\n")),
    ("the project is moved to another folder", MINE_RUN, move),
)


def rows_of_page() -> dict[str, str]:
    found = re.findall(r"^\| ([^|]+) \| (yes|no|yes, with a warning) \|$", PAGE.read_text(), re.M)
    return dict(found)


def test_the_table_of_the_page_has_the_rows_of_this_test() -> None:
    assert list(rows_of_page()) == [title for title, _, _ in ROWS]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A project with the runs of all commands."""
    place = Place(tmp_path_factory.mktemp("reuse"))
    place.good("new", "collection", "ours")
    place.lay(FILES)
    (place.here / "site-packages").rename(place.here.parent / "site-packages")
    text = (place.here / "conf/collection/ours.yaml").read_text()
    text = text.replace("topics: 6", "topics: 0").replace("judgments: 72", "judgments: 0")
    place.write("conf/collection/ours.yaml", text)
    place.write("conf/collection/other.yaml", text.replace("ours", "other").replace("corpus: other", "corpus: ours"))
    for name in ("topics.jsonl", "qrels"):
        other = (place.here / f"conf/collection/ours.{name}").read_text().replace("T.", "U.").replace("d01 3", "d01 1")
        if name == "qrels":  # other texts and other relevant documents: other topics
            other += "".join(f"U.{number} 0 other{number} 3\n" for number in range(1, 7))
        place.write(f"conf/collection/other.{name}", other.replace('"title": "', '"title": "Another: '))
    for command in BASES:
        done = place.run(*command, environment=LIBRARIES)
        assert (done.code, "running" in done.err) == (0, True), done.err
    return place


@pytest.mark.heavy
@pytest.mark.parametrize(("title", "command", "change"), ROWS, ids=[title for title, *_ in ROWS])
def test_what_changed_reused(made: Place, tmp_path: Path, title: str, command: tuple[str, ...], change: Change) -> None:
    place = Place(tmp_path)
    for name in ("here", "site-packages"):
        shutil.copytree(made.here.parent / name, tmp_path / name, dirs_exist_ok=True)
    said = change(place)
    words, variables = said if isinstance(said, tuple) else (), said if isinstance(said, dict) else {}
    done = place.run(*command, *words, environment=LIBRARIES | variables)
    assert done.code == 0, done.err
    reused = "yes" if "reused, same configuration" in done.err else "no"
    warned = ", with a warning" if re.search(r"^warning: .*blind\.py:\d+: (lists|reads)", done.err, re.M) else ""
    assert reused + warned == rows_of_page()[title], done.err


# ---- inputs that change while an experiment runs -------------------------------------------------------------------

EDITING = {
    "first.py": '''
from pathlib import Path
from harness.systems.baselines import Overlap

class First(Overlap):
    """Edits a file while it runs, as a user does whose other runs are queued."""

    def __call__(self, request):
        Path("edit").exists() and Path(Path("edit").read_text()).write_text(Path("new").read_text())
        return super().__call__(request)
''',
    "second.py": """
from harness.systems.baselines import Overlap

class Second(Overlap):
    def __call__(self, request):
        import lazy
        return super().__call__(request)
""",
    "lazy.py": "X = 1\n",
    "conf/system/first.yaml": "title: x\n_target_: first.First\n",
    "conf/system/second.yaml": "title: x\n_target_: second.Second\n",
    "conf/experiment/two.yaml": (
        "title: Two\nshared: [collection=ours, corpus=ours]\nmeasures: [nDCG]\n"
        "conditions: {first: {overrides: [system=first]}, second: {overrides: [system=second]}}\n"
    ),
}


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("edited", "launcher", "what"),
    [
        (CORPUS, (), "the corpus"),
        ("lazy.py", (), "code or libraries"),
        ("second.py", ("hydra/launcher=joblib", "hydra.launcher.n_jobs=1"), "code or libraries"),
    ],
)
def test_a_run_whose_inputs_change_after_it_was_planned_is_not_made(
    tmp_path: Path, edited: str, launcher: tuple[str, ...], what: str
) -> None:
    for name in launcher[:1]:
        pytest.importorskip(f"hydra_plugins.hydra_{name.partition('=')[2].partition('_')[0]}_launcher")
    place = Place(tmp_path)
    place.good("new", "collection", "ours")
    place.lay({**EDITING, "edit": edited})
    place.write("new", (place.here / edited).read_text().replace("induction", "deduction") + "\n")
    done = place.run("run", "experiment=two", "formats=[json]", *launcher)
    assert done.code == 2
    assert f"not run: second: second: {what} changed since it was planned or begun" in done.err
    (place.here / "edit").unlink()
    place.good("run", "experiment=two", "formats=[json]", *launcher)
