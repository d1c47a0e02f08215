"""Translator by Apertium (rule-based), with one process per batch."""

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
_CODES = {"hrv": "hbs", "bos": "hbs", "srp": "hbs"}  # one direction reads all three; others use ISO 639-3 codes
# Separator paragraph between texts: it ends sentences, and Apertium returns it unchanged.
_MARK = "\x1e"
_BETWEEN = f"\n\n{_MARK}\n\n"


@dataclass(frozen=True)
class Apertium:
    """Translator that calls the program `apertium` with its installed directions.

    Parameters
    ----------
    name : name of the translator.

    Examples
    --------
    >>> Apertium().direction("hrv", "eng")
    'hbs-eng'
    """

    name: str = "apertium"

    whole = True

    @property
    def languages(self) -> Mapping[str, str]:
        """Languages with an installed direction to English, and their codes in Apertium."""
        sources = [name.partition("-")[0] for name in _directions() if name.endswith("-eng")]
        codes = {code: code for code in sources}
        return codes | {language: code for language, code in _CODES.items() if code in codes}

    def direction(self, source: str, target: str) -> str:
        """Returns Apertium's name of a direction."""
        return f"{_CODES.get(source, source)}-{_CODES.get(target, target)}"

    def missing(self) -> list[str]:
        """Returns what is not installed for the languages of CrossMath."""
        return missing()

    def identity(self, source: str = "", target: str = "") -> Mapping[str, Any]:
        """Returns checksums of the files and programs used by a direction, or by all installed directions."""
        known = _directions()
        modes = [self._installed(source, target)] if source else [*known.values()]
        commands = [Path(mode).read_text(encoding="utf-8") for mode in modes]
        named = {path for command in commands for path in re.findall(r"'(/[^']+)'", command)}
        files = {path: sha256_file(Path(path)) for path in sorted(named) if Path(path).is_file()}
        words = {part.split()[0] for command in commands for part in command.split("|") if part.strip()}
        named_here = {"apertium", "apertium-destxt", "apertium-retxt", *words}  # these process plain text
        programs = {name: place for name in sorted(named_here) if (place := shutil.which(name)) is not None}
        return {
            "files": {"/".join(Path(path).parts[-2:]): checksum for path, checksum in files.items()},
            "programs": {name: sha256_file(Path(place)) for name, place in programs.items()},
        }

    def notes(self) -> tuple[str, ...]:
        """Returns the note that untranslated words may remain."""
        return ("Words that Apertium does not know are left in the topics' language.",)

    def translate(self, texts: Sequence[str], source: str, target: str) -> list[str]:
        """Returns the translations in order; unknown words are left untranslated.

        Raises
        ------
        HarnessError
            Apertium or the direction is not installed, it fails, or it returns a different number of texts.
        """
        self._installed(source, target)
        if not texts:
            return []
        direction = self.direction(source, target)
        # A separator after the last text as well, to detect output truncated by a program that dies silently.
        sent = "".join(f"{text.replace(_MARK, ' ')}{_BETWEEN}" for text in texts)
        done = subprocess.run(
            ["apertium", "-u", direction],
            input=f"{sent}\n".encode("utf-8", "replace"),
            capture_output=True,
            check=False,
            # No environment variable may influence a translation, because `identity` does not include them.
            env={name: x for name, x in os.environ.items() if not name.startswith("AP")} | {"LC_ALL": "C.UTF-8"},
        )
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        if done.returncode:
            why = said[0] if said else "it says nothing"
            raise HarnessError(f"apertium {direction}: ended with status {done.returncode}: {why:.200}")
        *translations, rest = done.stdout.decode("utf-8", "replace").split(_BETWEEN)
        if len(translations) != len(texts) or rest.strip():
            more = f": {said[0]:.200}" if said else ""
            raise HarnessError(f"apertium {direction}: gave {len(translations)} whole texts for {len(texts)}{more}")
        return translations

    def _installed(self, source: str, target: str) -> str:
        """Returns the mode file of an installed direction."""
        name = self.direction(source, target)
        if shutil.which("apertium") is None:
            raise HarnessError(f"apertium is not installed: apt install apertium {PACKAGES.get(name, '')}".rstrip())
        known = _directions()
        if name not in known:
            way = f": apt install {PACKAGES[name]}" if name in PACKAGES else f"; here are {', '.join(sorted(known))}"
            raise HarnessError(f"apertium has no direction {name} for language {source!r}{way}")
        return known[name]


def missing() -> list[str]:
    """Returns what is missing if no language of CrossMath can be translated: the program, or all directions."""
    if shutil.which("apertium") is None:
        return [f"apertium is not installed: apt install apertium {' '.join(PACKAGES.values())}"]
    if any(not lacking for lacking in by_language().values()):
        return []
    return [f"apertium lacks languages: apt install {' '.join(sorted(PACKAGES.values()))}"]


def by_language() -> dict[str, str]:
    """Returns language of CrossMath with a package -> install instruction, or "" if it is installed."""
    known = _directions()
    missing_in = {}
    for language, direction in LANGUAGES.items():
        package = PACKAGES[direction]
        needs = f"needs {package} for {name_of(language)}: apt install {package}"
        missing_in[language] = "" if direction in known else needs
    return missing_in


def _directions() -> dict[str, str]:
    """Returns direction -> its mode file, for all installed directions."""
    program = shutil.which("apertium")
    if program is None:
        return {}
    folder = Path(program).resolve().parent.parent / "share" / "apertium" / "modes"
    return {path.stem: str(path) for path in sorted(folder.glob("*.mode"))}
