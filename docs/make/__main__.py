"""`python -m docs.make FOLDER` writes the pages that MkDocs or Zensical make the site from."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

MARK = "reference/commands.md"  # a page that every site has


def main(folder: str) -> None:
    """Writes all pages into a folder, whose old pages are removed; another folder that has files is left alone."""
    out = Path(folder)
    if out.exists() and not out.is_dir():
        raise SystemExit(f"{out}: is a file; name a folder")
    if out.exists() and any(out.iterdir()) and not (out / MARK).is_file():
        raise SystemExit(f"{out}: has files that are no pages of the site; name a new folder")
    shutil.rmtree(out, ignore_errors=True)
    # First, so that a folder is known the next time, even if an error ends this program before all pages are written.
    (out / MARK).parent.mkdir(parents=True, exist_ok=True)
    (out / MARK).touch()
    with tempfile.TemporaryDirectory() as cache:
        # The states of entries are those of a machine that has nothing yet.
        os.environ |= {"HARNESS_CACHE": cache, "HARNESS_OFFLINE": "1"}
        os.environ.pop("HARNESS_MIRROR", None)
        from docs.make import architecture, commands, configuration, files, keys, python, search, staging

        staging.stage(out)
        shutil.copytree(files.SCHEMAS, out / "reference/schemas")
        made = {MARK: commands.page(), "reference/schemas.md": files.page()}
        made["reference/keys.md"] = keys.page()
        made |= {"reference/python.md": python.page(), **dict(configuration.pages()), **architecture.pages()}
        for name, text in made.items():
            place = out / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
        search.add_keywords(out)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("python -m docs.make FOLDER")
    main(sys.argv[1])
