"""Stand-ins for the packages of AMR parsers: `transition_amr_parser` and `amrlib`, written into a folder.

They have the calls that the harness makes, with the same arguments, messages and faults as the real packages (IBM's at
6edc0f1, amrlib 0.8.0), and need neither weights nor a GPU. Python finds them when the folder is on `sys.path`, for
instance by `PYTHONPATH`.
"""

from __future__ import annotations

from pathlib import Path

from harness.io.files import write_atomic

_HERE = Path(__file__).resolve().parent
_PACKAGES = _HERE / "packages"


def make(folder: Path, seed: int) -> Path:
    """Writes both packages into a folder, and returns it.

    Parameters
    ----------
    seed : decides the graphs.
    """
    graphs = (_HERE / "amr_text.py").read_text(encoding="utf-8")
    for name, module in (("transition_amr_parser", "parse.py"), ("amrlib", "__init__.py")):
        package = folder / name
        package.mkdir(parents=True, exist_ok=True)
        written = (_PACKAGES / f"{name}.py.txt").read_text(encoding="utf-8")
        write_atomic(package / module, written.replace("SEED = 0", f"SEED = {seed}"))
        write_atomic(package / "amr_text.py", graphs)
    write_atomic(folder / "transition_amr_parser" / "__init__.py", '"""A stand-in for the transition parser."""\n')
    return folder


def make_model(folder: Path) -> Path:
    """Writes the folder of a model for amrlib, and returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / "amrlib_meta.json", '{"model_type": "stog", "inference_module": "stand-in"}\n')
    return folder
