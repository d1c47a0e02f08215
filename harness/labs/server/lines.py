"""Messages of the harness as people elsewhere may see them: without the server's folders."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

# An absolute path, but not within an address or a word; its last part stays. What is quoted is not a path of ours.
_PATH = re.compile(r"(?<![\w.:/%~-])/(?:[^\s/:;,'\"]+/)*(?=[^\s/:;,'\"])")
_QUOTED = re.compile(r"""((?<!\w)'(?:[^'\\]|\\.)*'(?!\w)|"(?:[^"\\]|\\.)*"(?!\w))""")


def without_folders(
    lines: Iterable[str], folders: Mapping[Path, str] | None = None, others: bool = True
) -> tuple[str, ...]:
    """Replaces folders in messages by a word, and reduces other absolute paths to the name of the file.

    Texts in quotation marks are names that people gave, and stay whole.

    Parameters
    ----------
    others : False to leave other paths, in messages that name no file of the server but those in the folders.

    Examples
    --------
    >>> without_folders(["/srv/my lab/lab.yaml:3: wrong", "/home/x/.cache/a.txt: bad"], {Path("/srv/my lab"): "lab"})
    ('lab/lab.yaml:3: wrong', 'a.txt: bad')
    >>> without_folders(["label '/a/b': expected letters"])
    ("label '/a/b': expected letters",)
    """
    out = []
    # The longest first, since one may be within another.
    known = sorted((folders or {}).items(), key=lambda each: -len(str(each[0])))
    for line in lines:
        said = line
        for folder, word in known:
            said = said.replace(f"{folder}/", f"{word}/" if word else "").replace(str(folder), word or ".")
        if others:
            # Every second part is quoted; what the system says quotes paths as well.
            parts = [said] if "[Errno " in said else _QUOTED.split(said)
            said = "".join(part if at % 2 else _PATH.sub("", part) for at, part in enumerate(parts))
        out.append(said)
    return tuple(out)
