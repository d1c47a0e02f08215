"""Runs as TIRA and TIREx keep them: `run.txt` with `ir-metadata.yml`, in a folder or an archive (zip, tar).

Archives are known by their content. Members are read in memory; nothing is extracted, so that no name in it can lead
anywhere.
"""

from __future__ import annotations

from pathlib import Path

from harness.errors import format_error
from harness.io.files import read_bytes, read_member

RUNS = ("run.txt", "run.txt.gz")
METADATA = "ir-metadata.yml"
_METADATA = (METADATA, "ir_metadata.yml", ".ir-metadata.yml", "ir-metadata.yaml", "ir_metadata.yaml")
MOST_METADATA = 1 << 26  # bytes


def run_content(path: Path, most: int | None = None) -> bytes:
    """Returns the bytes of a run file, or of the run in a folder or archive, unpacked.

    An archive with a single file may name it as it likes.

    Parameters
    ----------
    most : maximum size of the content in bytes; default: as in `read_bytes`.

    Raises
    ------
    HarnessError
        There is no run or several, the archive is damaged or unsafe, or the content is too large.
    """
    return read_bytes(files_in(path)[0] if path.is_dir() else path, most=most, members=RUNS)


def metadata_content(path: Path, most: int = MOST_METADATA) -> bytes | None:
    """Returns the bytes of the metadata file in a folder or archive; None if there is none. Raises as `run_content`."""
    if path.is_dir():
        path_of_metadata = _file_in(path, _METADATA)
        return None if path_of_metadata is None else read_bytes(path_of_metadata, most=most)
    return None if path.is_fifo() or not path.exists() else read_member(path, _METADATA, most)


def files_in(folder: Path) -> tuple[Path, Path | None]:
    """Returns the run file and the metadata file in a folder, None without one. Raises as `run_content`."""
    if (run := _file_in(folder, RUNS)) is None:
        what = f"is a folder without {' or '.join(RUNS)}, expected a file, or a folder of TIRA"
        raise format_error(folder, 0, what)
    return run, _file_in(folder, _METADATA)


def _file_in(folder: Path, names: tuple[str, ...]) -> Path | None:
    present = [each for part in (folder, folder / "output") for name in names if (each := part / name).is_file()]
    if len(present) > 1:
        first, second = (each.relative_to(folder) for each in present[:2])
        raise format_error(folder, 0, f"has {first} and {second}; expected one of them")
    return present[0] if present else None
