"""Tokens, sessions and invitations: how they are compared, and where they are not."""

from __future__ import annotations

import hmac
from pathlib import Path

import pytest
from guard_tools import without
from server_tools import Served, served

from harness.labs.lab import new_lab
from harness.labs.roster import roster
from harness.labs.server.accounts import Accounts


@pytest.fixture
def site(tmp_path: Path) -> Served:
    return served(new_lab(tmp_path / "lab", {"title": "Lab", "collection": "mini-task1"}))


def test_every_hash_is_compared_in_constant_time(site: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """As often for a token that is known as for one that is not; and nothing compares secrets otherwise."""
    a, organiser = site.team("A"), site.organiser()
    site.team("B"), site.organiser("second")
    compared: list[tuple[str, str]] = []
    equal = hmac.compare_digest

    def noting(one: str, other: str) -> bool:
        compared.append((one, other))
        return equal(one, other)

    monkeypatch.setattr(hmac, "compare_digest", noting)
    counts = set()
    for token in (organiser, a, "unknown", "", "\udcff"):
        compared.clear()
        site.service.by_token(token)
        counts.add(len(compared))
    teams = len(roster(site.service.live.events()))
    assert counts == {teams + len(site.service.accounts.organisers())}
    with without(Accounts.holder, "hmac.compare_digest(hash_, digest)", "hash_ == digest"):
        compared.clear()
        site.service.by_token(a)
        assert len(compared) == teams


def test_no_secret_is_stored(site: Served) -> None:
    """Neither tokens nor sessions, invitations nor what they give access to, in any file of the server or the lab."""
    a, organiser, browser = site.team("A"), site.organiser(), site.client()
    browser.post("/login", data={"token": a})
    link = site.client(organiser).post("/api/v1/invite", json={}).json()["secret"]
    secrets = [a, organiser, browser.cookies["session"], link.rpartition("/")[2]]
    for folder in (site.lab.folder, site.service.state):
        for path in folder.rglob("*"):
            if path.is_file():
                content = path.read_bytes()
                assert not [each for each in secrets if each.encode() in content], path
    assert site.service.state.stat().st_mode & 0o077 == 0
