"""Two labs that differ in their judgments alone give the same bytes, but for the noisy means that they release.

Pages, feeds, reports, answers of the server, receipts, messages, exit codes and the lab's public files are compared,
after the same valid and invalid submissions by command and over HTTP. The noise swamps the means, so that released
numbers are the same too; the clock stands still, and secrets are counted.
"""

from __future__ import annotations

import hashlib
import secrets
import shutil
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, tzinfo
from io import BytesIO
from itertools import count
from pathlib import Path
from zipfile import ZipFile

import pytest
from lab_tools import DOCS, TOPICS, UNJUDGED, Conf, collection, files, judgments, rankings, run_text, token_of
from lab_tools import tiny_lab as made_lab
from server_tools import served
from site_tools import build
from typer.testing import CliRunner

from harness.cli.main import app
from harness.labs.downloads import write_downloads
from harness.labs.lab import Lab
from harness.labs.server.lab_snapshot import DOWNLOADS, HIDDEN, SITE

CLOCKS = (
    *("labs.names", "labs.submit", "labs.acts", "labs.roster", "labs.closing", "labs.site.lab_view"),
    *(f"labs.server.{name}" for name in ("service", "accounts", "page_drawing", "processes", "pages")),
)
# The second judges three topics, of which some runs answer none, and other documents.
WORLDS = (
    judgments(1),
    {"T.6": {"doc-100": 2, "doc-139": 0}, "T.7": dict.fromkeys(DOCS, 1), UNJUDGED: {"not-in-any-run": 2, "doc-101": 0}},
)
RUNS: Mapping[str, str] = {
    "all": run_text(rankings(1, (*TOPICS, UNJUDGED))),
    "first": run_text(rankings(2, TOPICS[:5])),  # answers no topic that the second world judges
    "last": run_text(rankings(3, (*TOPICS[3:], UNJUDGED))),
    "again": run_text(rankings(1, (*TOPICS, UNJUDGED))),
    "unjudged": run_text({topic: [f"nobody-{n}" for n in range(10)] for topic in TOPICS}),
    "best": run_text({topic: sorted(WORLDS[0][topic], key=WORLDS[0][topic].__getitem__)[::-1] for topic in TOPICS}),
    "few": run_text(rankings(4, TOPICS[:4])),
    "short": run_text(rankings(5, TOPICS, depth=3)),
    "strange": run_text(rankings(6, (*TOPICS, "T.100"))),
    "broken": "T.1 Q0 doc-100\n",
}


class Still(datetime):
    """A clock that stands still."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Still:
        return cls(2026, 7, 1, 12, tzinfo=UTC).astimezone(tz)


def swamping(key: str, _: str, *of: str) -> float:
    """Noise so large that nothing is left of a mean; the same for all judgments."""
    return 1e17 * (1 + int(hashlib.sha256("".join((key, *of)).encode()).hexdigest()[:4], 16))


@pytest.fixture(params=[{}, *(pytest.param(each, marks=pytest.mark.slow) for each in (
    {"held_out": True}, {"ladder": True}, {"feedback": "none"}, {"measures": ["P@5", "AP"]},
))])  # fmt: skip
def worlds(
    request: pytest.FixtureRequest, conf: Conf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[dict[str, bytes]]:
    """All that participants get of each world; both stand in the same folder, one after the other."""
    monkeypatch.setattr("harness.labs.shown_scores.noise", swamping)
    for module in CLOCKS:
        monkeypatch.setattr(f"harness.{module}.datetime", Still)
    out = []
    for judged in WORLDS:
        numbers = count()
        for name in ("token_hex", "token_urlsafe"):
            monkeypatch.setattr(secrets, name, lambda size, n=numbers: f"{next(n):0{2 * size}x}")
        collection(conf, tmp_path / "here" / "data", judged, private=True)
        lab = made_lab(
            tmp_path / "here" / "lab", cap=9, invalid_cap=9, noise=9.0, downloads=["topics", "rules"], **request.param
        )
        out.append(dict(seen(lab)))
        shutil.rmtree(tmp_path / "here")
    return out


def seen(lab: Lab) -> Iterator[tuple[str, bytes]]:
    """Yields the name and the content of all that participants see of a lab."""
    runner, site = CliRunner(), served(lab)
    for name, text in RUNS.items():
        path = lab.folder.parent / f"{name}.run"
        path.write_text(text)
        for team in ("A", "B") if name in ("all", "first") else ("A",):
            command = ["submit", f"{name}={path}", "--lab", str(lab.folder), "--token", token_of(team)]
            said = runner.invoke(app, command)
            yield f"submit {name} as {team}", f"{said.exit_code} {said.output}".encode()
    for name, text in RUNS.items():
        yield f"upload {name}", repr(site.submit(token_of("DPRL"), text.encode(), label=name)).encode()
        other = text.replace(" 99 ", " 98.5 ").encode()  # the same rankings with other scores: another run
        yield f"upload {name} with other scores", repr(site.submit(token_of("MIRMU"), other, label=name)).encode()
    for command in (["leaderboard", str(lab.folder)], ["leaderboard", str(lab.folder), "--json"]):
        said = runner.invoke(app, command)
        yield " ".join(command), f"{said.exit_code} {said.output}".encode()
    code, printed = build(lab.folder, "-o", site.service.state / SITE, "--quiet")
    yield "site build", f"{code} {printed}".encode()
    yield from files(lab.folder, "private").items()
    yield from ((f"site {name}", content) for name, content in files(site.service.state / SITE).items())
    yield "not offered", repr(write_downloads(lab, site.service.state / DOWNLOADS)).encode()
    yield from ((f"downloads {name}", content) for name, content in files(site.service.state / DOWNLOADS).items())
    uploads = [each.id for team in ("DPRL", "MIRMU") for each in site.service.queue.of_team(team)]
    for role, token in (("visitor", ""), ("DPRL", token_of("DPRL"))):
        client = site.client(token)
        pages = ["/", "/submit", "/team", "/api/v1/lab", "/api/v1/leaderboard", "/api/v1/team", "/api/v1/openapi.json"]
        pages += ["/downloads", "/api/v1/downloads"]
        pages += [f"{head}/{each}" for each in uploads for head in ("/submissions", "/api/v1/submissions")]
        for page in pages:
            answer = client.get(page)
            yield f"GET {page} as {role}", f"{answer.status_code} {answer.text}".encode()
    archive = site.client(site.organiser()).get("/organise/site.zip")
    if archive.headers.get("content-type") == "application/zip":
        packed = ZipFile(BytesIO(archive.content))
        built = files(site.service.state / SITE).items()
        pages_in = {name: packed.read(name) for name in packed.namelist()}
        assert pages_in == {name: content for name, content in built if not HIDDEN.search(name)}
        yield "site.zip", "\n".join(pages_in).encode()


@pytest.mark.slow
def test_only_released_numbers_depend_on_judgments(worlds: list[dict[str, bytes]]) -> None:
    first, second = worlds
    assert list(first) == list(second)
    assert {name: content for name, content in first.items() if second[name] != content} == {}
    assert len(first) > 150 and sum(name.startswith("downloads ") for name in first) == 5
    accepted = [name for name, content in first.items() if name.startswith("submit ") and content.startswith(b"0 ")]
    assert accepted == [f"submit {name} as A" for name in ("all", "first", "last", "unjudged", "best")]
