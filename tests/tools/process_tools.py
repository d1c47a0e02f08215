"""Other processes that find what this one finds."""

from __future__ import annotations

import os
import sys


def same_paths() -> dict[str, str]:
    """The environment, in which a new Python imports the modules of the tests as this one does."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
