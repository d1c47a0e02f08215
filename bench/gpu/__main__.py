"""All that is measured on a GPU, in one command of ten minutes: writes results/gpu.md and gpu.json.

    python -m bench.gpu                                         on a GPU
    python -m bench.gpu --parts maxsim resume --out FOLDER      some parts of it
    python -m bench.gpu --device cpu --small --out FOLDER       a trial without a GPU; its figures mean nothing

Each part runs in a process of its own with a time limit, so that an error of one does not touch the others. What does
not fit is left out, with a line that says so. Models have the sizes of published ones and random weights, on which no
time depends. Only all parts at full size on a GPU are written to bench/results without `--out`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from bench.gpu.parts import FULL, PARTS, SMALL, Line, Sizes
from bench.table import RESULTS, ROOT, commit, machine, processor, save, show
from harness.systems import hardware

TOTAL = 600.0  # seconds of all parts
LEAST = 10.0  # a part with less time than this is not started
NOTES = """
Throughput includes the tokenizer and the copy of the results; it is the median of three runs after one that is not
counted. A step of fine-tuning is that of the second epoch, with tokenised texts, clipping and AdamW. "Stopped and
resumed" is the largest difference of any weight between an uninterrupted training and one that was stopped between two
checkpoints and resumed; "repeated" is that of two uninterrupted trainings. The default algorithms of PyTorch sum in an
order that varies on a GPU.
"""


def lines(part: str, device: str, sizes: Sizes) -> Iterator[Line]:
    """The lines of a part, in this process; an error becomes the last one."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            yield from PARTS[part][0](device, sizes, Path(folder))
        except Exception as error:
            first = (str(error).strip().splitlines() or [""])[0]
            yield Line(part, "the rest of this part", note=f"failed: {type(error).__name__}: {first}")


def isolated(part: str, device: str, sizes: Sizes, seconds: float) -> list[Line]:
    """The lines of a part in a process of its own, which is ended after so many seconds."""
    if seconds < LEAST:
        return [Line(part, "the whole part", note=f"left out: the other parts took the {TOTAL:.0f} s")]
    command = [sys.executable, "-m", "bench.gpu", "--only", part, "--device", device]
    command += ["--small"] * (sizes is SMALL)
    why = ""
    with (
        tempfile.TemporaryDirectory() as folder,  # a process that is ended leaves its files in it
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as errors,
    ):
        # cuBLAS sums in the same order only with this workspace.
        environment = os.environ | {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "TMPDIR": folder}
        with subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=errors, env=environment) as process:
            try:
                if code := process.wait(seconds):
                    errors.seek(0)
                    why = f"failed: exit code {code}: {(errors.read().strip().splitlines() or ['no message'])[-1]}"
            except subprocess.TimeoutExpired:
                process.kill()
                why = f"left out: the part has {seconds:.0f} s"
        out.seek(0)
        found = [Line(**json.loads(line)) for line in out if line.startswith("{") and line.endswith("}\n")]
    return [*found, Line(part, "the rest of this part", note=why)] if why else found


def described(device: str) -> str:
    """The device in words."""
    if device == "cpu":
        return processor()
    import torch

    memory = torch.cuda.get_device_properties(0).total_memory / 2**30
    return f"{torch.cuda.get_device_name()} of {memory:.0f} GiB, CUDA {torch.version.cuda}"


def installed() -> list[str]:
    """Packages whose versions are stated."""
    found = []
    for name in ("torch", "transformers", "sentence-transformers", "torch_geometric"):
        with contextlib.suppress(PackageNotFoundError):
            found.append(name if version(name) else "")
    return found


def page(found: Sequence[Line], device: str) -> str:
    """The page of results, in Markdown."""
    with contextlib.redirect_stdout(io.StringIO()) as table:
        show(
            [("part", "work", "measured", "beside", "goal", "notes"), *(line.cells() for line in found)], markdown=True
        )
    head = f"# Work on a GPU\n\n`python -m bench.gpu` at {commit() or 'no commit'} on {described(device)}; host: "
    return f"{head}{machine(installed())}.\n\n{table.getvalue()}{NOTES}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; return the exit code: 1 if a part failed, 2 without the device."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("auto", "cuda", "cpu"), default="auto")
    parser.add_argument("--small", action="store_true", help="tiny sizes, in one process")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--out", type=Path, help="folder of gpu.md and gpu.json")
    parser.add_argument("--only", choices=list(PARTS), help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if not find_spec("torch"):
        print("bench.gpu: torch is not installed: pip install 'mathir-harness[sentences,graphs]'", file=sys.stderr)
        return 2
    if asked.device != "cpu" and not hardware.gpu():
        trial = "python -m bench.gpu --device cpu --small"
        print(
            f"bench.gpu: torch finds no GPU on this machine; nothing is measured; for a trial: {trial}", file=sys.stderr
        )
        return 2
    device, sizes = hardware.device(asked.device), SMALL if asked.small else FULL
    if asked.only:
        for line in lines(asked.only, device, sizes):
            print(json.dumps(asdict(line)), flush=True)
        return 0
    if asked.small:
        import torch

        torch.set_num_threads(1)  # steps are so short that threads would only wait for each other
    found, end = list[Line](), time.monotonic() + TOTAL
    for part in asked.parts:
        print(f"bench.gpu: {part}", file=sys.stderr, flush=True)
        left = min(PARTS[part][1], end - time.monotonic())
        found += lines(part, device, sizes) if asked.small else isolated(part, device, sizes, left)
    text = page(found, device)
    print(text)
    whole = device == "cuda" and sizes is FULL and set(asked.parts) == set(PARTS)
    if folder := asked.out or (RESULTS if whole else None):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "gpu.md").write_text(text, encoding="utf-8")
        named = described(device)
        save(folder / "gpu.json", [ratio for line in found if (ratio := line.ratio(named))], installed())
    return 1 if any(line.note.startswith("failed") for line in found) else 0


if __name__ == "__main__":
    sys.exit(main())
