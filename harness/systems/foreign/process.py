"""Another library in a process of its own: a job in, an answer out, one line if it fails.

What the library prints, and a crash of its native code or of Java, stay in that process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.io import staging_names

_JOB, _ANSWER = "job.json", "answer.json"


def process_answer(what: str, module: str, job: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> Any:  # noqa: ANN401
    """Runs a module of ours, which calls `serve_job`, on a job; returns its answer.

    Parameters
    ----------
    what : the library, for messages.
    job : values that JSON can hold; the answer is one, too.
    environment : variables added to those of this process.

    Raises
    ------
    HarnessError
        The process fails; the message has the last line that it printed.
    """
    with staging_names.folder("foreign") as folder, tempfile.TemporaryFile() as log:
        (folder / _JOB).write_text(json.dumps(job), encoding="utf-8")
        command = [sys.executable, "-P", "-m", module, str(folder)]
        own = {**os.environ, **(environment or {})}
        status = subprocess.call(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=own)
        if status == 0:
            reply = json.loads((folder / _ANSWER).read_text(encoding="utf-8"))
            if "fault" not in reply:
                return reply["answer"]
            raise HarnessError(f"{what}: {reply['fault']}")
        log.seek(0)
        lines = [line for line in log.read().decode("utf-8", "replace").splitlines() if line.strip()]
        said = f": {lines[-1].strip()[:300]}" if lines and status > 0 else ""
        raise HarnessError(f"{what} ended with status {status}{said}")


def serve_job(work: Callable[[Mapping[str, Any]], Any]) -> None:
    """Does the job of this process and writes its answer, or the exception that `work` raised as one line."""
    folder = Path(sys.argv[1])
    job = json.loads((folder / _JOB).read_text(encoding="utf-8"))
    try:
        reply = {"answer": work(job)}
    except Exception as error:
        said = " ".join(str(error).split())[:500]
        reply = {"fault": said if isinstance(error, HarnessError) else f"{type(error).__name__}: {said}"}
    (folder / _ANSWER).write_text(json.dumps(reply), encoding="utf-8")
