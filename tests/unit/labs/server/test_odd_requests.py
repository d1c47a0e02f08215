"""Requests of any kind: each gets an answer of its own kind, without a path, and never an error of the server."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest
from server_tools import ADDRESS, Served, served
from site_tools import Seen, build

from harness.io.files import data_root
from harness.labs.lab import new_lab
from harness.labs.server.actions import ACTIONS
from harness.labs.server.lab_snapshot import SITE
from harness.labs.server.queue import MOST_WAITING
from harness.labs.server.worker import UploadWorker
from harness.labs.submissions import submissions

RUN = (data_root() / "runs/mini/mini-task1/overlap.run").read_bytes()
SCRIPT = "<script>alert(1)</script>"
HARMLESS = (  # types of files that browsers do not run
    *("application/json", "application/x-bibtex", "application/yaml", "application/octet-stream"),
    *("text/csv", "text/plain", "text/css", "text/x-bibtex"),
)
MARKUP = "\"'><img src=x onerror=alert(1)>{{7*7}}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Served:
    texts = {"title": f"T {SCRIPT}", "about": f"A {MARKUP}", "contact": f"C {SCRIPT}", "rules": [f"R {MARKUP}"]}
    lab = new_lab(tmp_path_factory.mktemp("served") / "lab", {**texts, "collection": "mini-task1"})
    return served(lab)


def values(draw: random.Random) -> object:
    """A value that forms and JSON may have and should not."""
    texts = ["", "a", "x" * 70_000, "\0", "\ud800", "\u202e", "../../etc/passwd", "/etc/passwd", "%00", "a\r\nb"]
    texts += [SCRIPT, "' OR 1=1 --", "9999-12-31T23:59:59-23:59", "team-00000000"]
    numbers = [0, -1, 10**30, "9" * 5_000, 1.5, 1e308, True, None]
    return draw.choice([*texts, *numbers, [], {}, [[]], {"a": {}}])


@pytest.mark.slow
def test_no_request_is_an_error_of_the_server(site: Served, tmp_path_factory: pytest.TempPathFactory) -> None:
    draw = random.Random(1)
    tokens = [site.team("Fuzz"), site.organiser(), ""]
    clients = [site.client(token) for token in tokens]
    paths = ["/", "/login", "/ask", "/join/x", "/submit", "/submissions/x", "/team", "/organise", "/organise/audit"]
    paths += ["/logout", "/team/runs/a/1", "/site/x", "/do/primary"]
    paths += [f"/api/v1/{name}" for name in ("lab", "team", "submissions")]
    harmless = [name for name in ACTIONS if name not in ("freeze", "publish", "extend")]
    paths += [f"{head}/{name}" for name in harmless for head in ("/do", "/api/v1")]
    names = ["team", "label", "version", "reason", "id", "days", "contact", "name", "token", "csrf"]
    folder = str(tmp_path_factory.getbasetemp())
    for _ in range(400):
        client, path = draw.choice(clients), draw.choice(paths)
        fields = {draw.choice(names): values(draw) for _ in range(3)}
        kind = draw.randrange(4)
        method = draw.choice(["POST", "POST", "POST", "GET", "HEAD", "PUT", "OPTIONS", "DELETE", "PROPFIND"])
        if kind == 0:
            heads = {"content-type": "application/json"}
            answer = client.request(method, path, content=json.dumps(fields).encode(), headers=heads)
        elif kind == 1:
            form = "&".join(f"{name}={value}" for name, value in fields.items()).encode("utf-8", "surrogatepass")
            heads = {"content-type": "application/x-www-form-urlencoded"}
            answer = client.request(method, path, content=form, headers=heads)
        elif kind == 2:
            odd = draw.choice(
                ["%2e%2e/", "%00", "%ff", "//", "a" * 3_000, "9" * 5_000, "?next=//x", "%0d%0aset-cookie:x=y", ";", "*"]
            )
            answer = client.request(method, f"{ADDRESS}{path}{draw.choice(['', '/'])}{odd}")
        else:
            charset = draw.choice(["utf-8", "utf-16", "idna", "punycode", "undefined", "unicode_escape", "nothing"])
            body = b"".join(
                b'--x\r\ncontent-disposition: form-data; name="%s"%s\r\n\r\n%s\r\n'
                % (
                    name.encode(),
                    draw.choice([b"", b'; filename="../x"', b"; filename*=utf-8''%2e"]),
                    str(value)[:90].encode("utf-8", "replace"),
                )
                for name, value in fields.items()
            )
            heads = {"content-type": f"multipart/form-data; boundary=x; charset={charset}"}
            answer = client.request(method, path, content=body + b"--x--\r\n", headers=heads)
        what = (method, path, kind, fields)
        assert answer.status_code < 500, what
        assert folder not in answer.text and "Traceback" not in answer.text, what
        assert "set-cookie" not in answer.headers or path in ("/logout", "/join/x"), what
        if path.startswith("/api/") and method != "HEAD" and kind != 2:
            assert isinstance(answer.json(), dict | list), what


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 60_000,
        b'{"label":' * 5_000,
        b"9" * 60_000,
        b'{"version":' + b"9" * 50_000 + b',"label":"a"}',
        b"\xef\xbb\xbf{}",
        b'{"a":1,"a":2}',
        b"{" + b'"x":1,' * 5_000 + b'"y":1}',
        b"",
    ],
)
def test_json_of_any_form_gets_a_line(site: Served, body: bytes) -> None:
    token = site.service.accounts.add_organiser("json")
    answer = site.client(token).post("/api/v1/disqualify", content=body)
    assert answer.status_code == 422
    assert len(answer.json()["errors"]) == 1 and len(answer.text) < 1_000


def shown_harmlessly(page: str) -> None:
    """Checks that a page has no element, attribute or address that one of our texts made."""
    seen = Seen(page)
    assert "img" not in seen.tags
    assert not [name for _, name, _ in seen.attributes if name.startswith("on")]
    addresses = [value for _, name, value in seen.attributes if name in ("href", "src", "action")]
    assert not [value for value in addresses if re.match(r"\s*(javascript|data:text)", value)]
    scripts = re.findall(r"<script[^>]*>(.*?)</script>", page, re.DOTALL)
    assert not [each for each in scripts if "alert(1)" in each and "\\u003c" not in each]


@pytest.mark.slow
def test_no_text_becomes_markup(site: Served) -> None:
    """Texts of the lab, of runs, metadata, reasons, file names and requests, on all pages of server and site."""
    team, organiser = site.client(site.team("Markup")), site.client(site.organiser("markup"))
    metadata = (
        f"method: {{automatic: '{SCRIPT}'}}\nplatform: {{software: {{x: '{SCRIPT}'}}}}\n"
        f"implementation: {{source: {{repository: 'javascript:alert(1)'}}, executable: {{cmd: '{SCRIPT}'}}}}\n"
    )
    fields = {"label": "one", "description": f"D {SCRIPT}{MARKUP}", "external_data": f"E {SCRIPT}"}
    fields["code"] = "https://example.org/<script>alert(1)</script>"
    sent = {"run": (f"{SCRIPT}.run", RUN), "metadata": ("x.yml", metadata.encode())}
    first = team.post("/api/v1/submissions", files=sent, data=fields).headers["location"]
    second = team.post(
        "/api/v1/submissions", files={"run": (f"{MARKUP}.run", b"no run " + SCRIPT.encode())}, data={"label": SCRIPT}
    ).headers["location"]
    site.score()
    assert [team.get(each).json()["state"] for each in (first, second)] == ["done", "refused"]
    organiser.post("/api/v1/disqualify", json={"team": "Markup", "label": "one", "reason": SCRIPT})
    team.post("/api/v1/appeal", json={"label": "one", "reason": MARKUP})
    organiser.post("/api/v1/reinstate", json={"team": "Markup", "label": "one", "reason": SCRIPT})
    site.client().post("/ask", data={"team": "Asks", "contact": "'><img/src=x>@x"})
    code, said = build(site.lab.folder, "-o", site.service.state / SITE, "--quiet")
    assert code == 0, said
    uploads = [each.removeprefix("/api/v1") for each in (first, second)]
    pages = {path: team.get(path) for path in ("/", "/login", "/ask", "/submit", "/team", *uploads)}
    pages |= {path: organiser.get(path) for path in ("/organise", "/organise/audit")}
    asked = {"team": SCRIPT, "contact": MARKUP}
    pages |= {"asked": team.post("/ask", data=asked), "action": organiser.post("/do/invite", data=asked)}
    for path, answer in pages.items():
        assert "text/html" in answer.headers["content-type"], path
        policy = answer.headers["content-security-policy"]
        assert "script-src 'sha256" in policy or "script-src" not in policy
        shown_harmlessly(answer.text)
    assert SCRIPT.replace("<", "&lt;").replace(">", "&gt;") in pages["/organise/audit"].text
    root = site.service.state / SITE
    files = [path for path in root.rglob("*") if path.is_file() and not path.name.startswith(".")]
    assert len(files) > 20
    for file in files:
        answer = site.client().get(f"/site/{file.relative_to(root).as_posix()}")
        assert answer.status_code == 200
        if file.suffix == ".html":
            shown_harmlessly(answer.text)
        elif file.suffix == ".xml":
            assert SCRIPT not in answer.text and "javascript:" not in answer.text
        else:
            assert answer.headers["content-type"].partition(";")[0] in HARMLESS, file
        assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.heavy
def test_garbage_costs_no_worker(site: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """1,000 uploads of garbage by 20 teams: each is refused with a reason, and a good run is scored after them."""
    draw, worker = random.Random(2), UploadWorker(site.lab.folder, site.service.queue, site.limits)
    teams = [site.client(site.team(f"G{n}")) for n in range(20)]
    heads = [b"", b"\x1f\x8b\x08\x00", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd", b"M.1 Q0 a1 1 1 x\n", b"\xef\xbb\xbf"]
    heads += [b"PK\x03\x04", b"BZh9"]
    states: dict[str, int] = {}
    first = None
    for _ in range(1_000 // (len(teams) * MOST_WAITING)):
        sent = []
        for client in teams:
            for _ in range(MOST_WAITING):
                end = draw.choice([b"", b"\n", RUN[: draw.randrange(999)]])
                content = draw.choice(heads) + draw.randbytes(draw.randrange(3_000)) + end
                answer = client.post("/api/v1/submissions", files={"run": ("x.run", content)}, data={"label": "x"})
                assert answer.status_code == 202
                sent.append((client, answer.headers["location"]))
        while (upload := site.service.queue.claim(worker.name)) is not None:
            assert worker.score(upload)
        for client, at in sent:
            found = client.get(at).json()
            states[found["state"]] = states.get(found["state"], 0) + 1
            assert found["errors"]
        memory = int(Path("/proc/self/statm").read_text().split()[1])
        first = first or memory
        assert memory < first + (64 << 20) // 4096
    assert states == {"refused": 1_000}
    assert "an error of the harness" not in capsys.readouterr().err
    good = RUN.replace(b"a", b"b", 1) if submissions(site.lab) else RUN
    assert site.submit(site.team("Good"), good, label="g")["state"] in ("done", "refused")
    assert site.service.queue.waiting() == 0
