"""Apertium as a translator: rules and dictionaries, in a process of its own for each batch."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.io.files import sha256_file
from harness.systems.crosslingual.scripts import name_of

PACKAGES = {"spa-eng": "apertium-eng-spa", "hbs-eng": "apertium-hbs-eng"}  # direction -> package of Debian
LANGUAGES = {"hrv": "hbs-eng", "spa": "spa-eng"}  # language of CrossMath -> direction
_CODES = {"hrv": "hbs", "bos": "hbs", "srp": "hbs"}  # one direction reads them all; others have their ISO 639-3 codes
# Between texts, as a paragraph: sentences end there, and the sign comes back as it was.
_MARK = "\x1e"
_BETWEEN = f"\n\n{_MARK}\n\n"


@dataclass(frozen=True)
class Apertium:
    """The program `apertium` with the directions that are installed.

    Parameters
    ----------
    name : of the translator.

    Examples
    --------
    >>> Apertium().direction("hrv", "eng")
    'hbs-eng'
    """

    name: str = "apertium"

    whole = True

    @property
    def languages(self) -> Mapping[str, str]:
        """The languages that can be translated into English here, and their codes in its directions."""
        sources = [name.partition("-")[0] for name in _directions() if name.endswith("-eng")]
        codes = {code: code for code in sources}
        return codes | {language: code for language, code in _CODES.items() if code in codes}

    def direction(self, source: str, target: str) -> str:
        """Returns what it calls a direction."""
        return f"{_CODES.get(source, source)}-{_CODES.get(target, target)}"

    def missing(self) -> list[str]:
        """Returns what it lacks for the languages of CrossMath."""
        return missing()

    def identity(self, source: str = "", target: str = "") -> Mapping[str, Any]:
        """The files of a direction, or of all that are installed, and the programs that they name; by content."""
        known = _directions()
        modes = [self._installed(source, target)] if source else [*known.values()]
        commands = [Path(mode).read_text(encoding="utf-8") for mode in modes]
        named = {path for command in commands for path in re.findall(r"'(/[^']+)'", command)}
        files = {path: sha256_file(Path(path)) for path in sorted(named) if Path(path).is_file()}
        words = {part.split()[0] for command in commands for part in command.split("|") if part.strip()}
        named_here = {"apertium", "apertium-destxt", "apertium-retxt", *words}  # the two that read and write plain text
        programs = {name: place for name in sorted(named_here) if (place := shutil.which(name)) is not None}
        return {
            "files": {"/".join(Path(path).parts[-2:]): checksum for path, checksum in files.items()},
            "programs": {name: sha256_file(Path(place)) for name, place in programs.items()},
        }

    def notes(self) -> tuple[str, ...]:
        """That words may be left."""
        return ("Words that Apertium does not know are left in the topics' language.",)

    def translate(self, texts: Sequence[str], source: str, target: str) -> list[str]:
        """Returns the translations, one for one; words that it does not know stay as they are.

        Raises
        ------
        HarnessError
            It or the direction is not installed, it fails, or it gives another number of texts.
        """
        self._installed(source, target)
        if not texts:
            return []
        direction = self.direction(source, target)
        # A sign after the last text, too: a program of the chain may die, or stop early, without a status.
        sent = "".join(f"{text.replace(_MARK, ' ')}{_BETWEEN}" for text in texts)
        done = subprocess.run(
            ["apertium", "-u", direction],
            input=f"{sent}\n".encode("utf-8", "replace"),
            capture_output=True,
            check=False,
            # What decides a translation stands in the identity: no setting of the environment does.
            env={name: x for name, x in os.environ.items() if not name.startswith("AP")} | {"LC_ALL": "C.UTF-8"},
        )
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        if done.returncode:
            why = said[0] if said else "it says nothing"
            raise HarnessError(f"apertium {direction}: ended with status {done.returncode}: {why:.200}")
        *found, rest = done.stdout.decode("utf-8", "replace").split(_BETWEEN)
        if len(found) != len(texts) or rest.strip():
            more = f": {said[0]:.200}" if said else ""
            raise HarnessError(f"apertium {direction}: gave {len(found)} whole texts for {len(texts)}{more}")
        return found

    def _installed(self, source: str, target: str) -> str:
        """Returns the file that says what a direction does."""
        name = self.direction(source, target)
        if shutil.which("apertium") is None:
            raise HarnessError(f"apertium is not installed: apt install apertium {PACKAGES.get(name, '')}".rstrip())
        known = _directions()
        if name not in known:
            way = f": apt install {PACKAGES[name]}" if name in PACKAGES else f"; here are {', '.join(sorted(known))}"
            raise HarnessError(f"apertium has no direction {name} for language {source!r}{way}")
        return known[name]


def missing() -> list[str]:
    """Returns what it lacks to translate from any language of CrossMath: the program, or all directions."""
    if shutil.which("apertium") is None:
        return [f"apertium is not installed: apt install apertium {' '.join(PACKAGES.values())}"]
    if any(not lacking for lacking in by_language().values()):
        return []
    return [f"apertium lacks languages: apt install {' '.join(sorted(PACKAGES.values()))}"]


def by_language() -> dict[str, str]:
    """Returns language of CrossMath, of those that have a package -> what topics in it need here; empty if nothing."""
    known = _directions()
    found = {}
    for language, direction in LANGUAGES.items():
        package = PACKAGES[direction]
        needs = f"needs {package} for {name_of(language)}: apt install {package}"
        found[language] = "" if direction in known else needs
    return found


def _directions() -> dict[str, str]:
    """Returns direction -> the file that says what it does."""
    program = shutil.which("apertium")
    if program is None:
        return {}
    folder = Path(program).resolve().parent.parent / "share" / "apertium" / "modes"
    return {path.stem: str(path) for path in sorted(folder.glob("*.mode"))}
