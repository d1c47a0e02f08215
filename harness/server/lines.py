"""Messages of the harness as people elsewhere may see them: without the server's folders."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

# An absolute path, but not within an address or a word; its last part stays.
_PATH = re.compile(r"(?<![\w.:/%~-])/(?:[^\s/:;,'\"]+/)*(?=[^\s/:;,'\"])")


def without_folders(lines: Iterable[str], folders: Mapping[Path, str] | None = None) -> tuple[str, ...]:
    """Replaces folders in messages by a word, and reduces other absolute paths to the name of the file.

    Examples
    --------
    >>> without_folders(["/srv/my lab/lab.yaml:3: wrong", "/home/x/.cache/a.txt: bad"], {Path("/srv/my lab"): "lab"})
    ('lab/lab.yaml:3: wrong', 'a.txt: bad')
    """
    out = []
    # The longest first, since one may be within another.
    known = sorted((folders or {}).items(), key=lambda each: -len(str(each[0])))
    for line in lines:
        said = line
        for folder, word in known:
            said = said.replace(f"{folder}/", f"{word}/" if word else "").replace(str(folder), word or ".")
        out.append(_PATH.sub("", said))
    return tuple(out)
