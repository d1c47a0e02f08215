"""Reads the pages of reports."""

from __future__ import annotations

import base64
import re
import zlib

_DATA = re.compile(r'<script type="text/plain" id="explorer-data">([A-Za-z0-9+/=]+)</script>')


def explored(page: str) -> str:
    """Returns the JSON of a page's explorer, which is compressed in the page."""
    (data,) = _DATA.findall(page)
    return zlib.decompress(base64.b64decode(data)).decode()
