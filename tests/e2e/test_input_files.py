"""Files as the field has them: pipes in place of every file argument, runs whose tags have any characters."""

from __future__ import annotations

import gzip
import json
import os
import threading

import pytest
from tools import Place, table

RUN = "q1 Q0 d1 1 3 {tag}\nq1 Q0 d3 2 2 {tag}\nq1 Q0 d2 3 1 {tag}\nq2 Q0 d1 1 1 {tag}\n"
QRELS = "q1 0 d1 1\nq1 0 d2 2\nq1 0 d3 0\nq2 0 d1 1\nq2 0 d9 0\n"
TOPICS = '[{"id": "q1", "title": "one"},\n {"id": "q2", "title": "two"}]\n'
KEYS = "d1\tv1\nd2\tv2\nd3\tv3\n"
KEYED = "q1 0 v1 1\nq1 0 v2 2\nq1 0 v3 0\nq2 0 v1 1\n"
TAGS = (
    "intfloat/e5-base", "a:b", "it's", "x&y", "[x]", "x|y", "50%", "<b>x</b>", "-x", ".x", "../../x",
    "$x_1^2#{}~\\", "Česká",
)  # fmt: skip


COMMANDS = {
    "score": ("score", "a.pipe", "--qrels", "q.pipe", "--topics", "t.pipe", "--measures", "AP", "-o", "out"),
    "keys": ("score", "a.pipe", "--qrels", "k.pipe", "--keys", "keys.pipe", "--protocol", "arqmath-task2"),
    "compare": ("compare", "a.pipe", "x=b.pipe", "--qrels", "q.pipe", "--measures", "AP"),
    "check": ("check", "a.pipe", "x=b.pipe", "--qrels", "q.pipe"),
    "leaderboard": ("leaderboard", "a.pipe", "x=b.pipe", "--qrels", "q.pipe", "--measures", "AP"),
    "pool": ("organise", "pool", "a.pipe", "x=b.pipe", "--depth", "2", "--judged", "q.pipe", "-o", "out"),
    "kappa": ("organise", "kappa", "one=q.pipe", "two=q2.pipe"),
}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_pipes_are_read_as_files_are(command: str, place: Place) -> None:
    texts = {"a": RUN.format(tag="a"), "q": QRELS, "q2": QRELS, "t": TOPICS, "k": KEYED, "keys": KEYS}
    contents = {name: text.encode() for name, text in texts.items()}
    contents["b"] = gzip.compress(RUN.replace("3 {tag}", "1.5 {tag}").format(tag="b").encode())
    place.lay(contents)
    files = place.good(*(part.removesuffix(".pipe") for part in COMMANDS[command]))
    used = {part.partition("=")[2] or part for part in COMMANDS[command] if part.endswith(".pipe")}
    for name in used:
        os.mkfifo(place.here / name)
        content = contents[name.removesuffix(".pipe")]
        threading.Thread(target=(place.here / name).write_bytes, args=(content,), daemon=True).start()
    assert place.good(*COMMANDS[command]).replace(".pipe", "") == files


def test_tags_are_labels(place: Place) -> None:
    """They are shown as they are, and name no file."""
    place.write("q.qrels", QRELS)
    for number, tag in enumerate(TAGS):
        place.write(f"{number}.run", RUN.format(tag=tag))
    runs = [f"{number}.run" for number in range(len(TAGS))]
    before = {path for path in place.here.parent.rglob("*") if path.is_file()}
    printed = place.good("score", *runs, "--qrels", "q.qrels", "--measures", "nDCG", "-o", "out", "--latex", "t.tex")
    assert sorted(row[0] for row in table(printed)[1 : len(TAGS) + 1]) == sorted(TAGS)
    assert "0.8801" in printed
    found = json.loads((place.here / "out/report.json").read_text("utf-8"))["data"]["scores"]
    assert [each["run"] for each in found] == [*TAGS]
    page, latex = ((place.here / name).read_text("utf-8") for name in ("out/index.html", "t.tex"))
    assert "&lt;b&gt;x&lt;/b&gt;" in page and "<b>x</b>" not in page
    assert r"x\&y" in latex and r"50\%" in latex
    made = {path for path in place.here.parent.rglob("*") if path.is_file()} - before - {place.here / "t.tex"}
    assert all(path.is_relative_to(place.here / "out") or path.is_relative_to(place.cache) for path in made)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["new/x", "a: b"])
def test_runs_are_named_by_every_command(place: Place, name: str) -> None:
    """With a name of any characters, given as NAME=FILE; `test_tags_are_labels` has tags."""
    place.write("q.qrels", QRELS)
    place.write("a.run", RUN.format(tag="t"))
    place.write("b.run", RUN.format(tag="other"))
    place.write("said.yml", "implementation: {source: {lang: [python]}}")
    given, judged = f"{name}=a.run", ("--qrels", "q.qrels", "--measures", "nDCG")
    for command in (
        ("score", given, *judged, "-o", "s"),
        ("compare", given, "b.run", *judged, "-b", name, "-o", "c"),
        ("leaderboard", given, "b.run", *judged, "-b", name, "-o", "l"),
        ("organise", "pool", given, "--depth", "1", "-o", "pool"),
    ):
        assert name in place.good(*command) or command[0] == "organise", command
    assert place.run("check", given, "--qrels", "q.qrels").code == 0
    assert place.good("export", "run", given, "-o", "e.zip", "--metadata", "said.yml").startswith("e.zip: run ")
    assert "_".join(name.split()) in place.good("score", "e.zip", *judged)
