"""Addresses of sites and of servers."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_HOST = r"[A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+(?:%[A-Za-z0-9._~-]+)?\]"  # a name, or a number of IPv4 or IPv6
_WEB = re.compile(rf"https?://(?:{_HOST})(?::[0-9]{{1,5}})?(?:/[A-Za-z0-9._~/-]*)?")
_FORM = "/submit"  # page of a server on which runs are submitted


def is_address(text: str) -> bool:
    """Returns whether a text is an address of the web, without a query.

    Examples
    --------
    >>> is_address("https://example.org/lab/"), is_address("http://127.0.0.1:99999"), is_address("example.org")
    (True, False, False)
    """
    if not _WEB.fullmatch(text):
        return False
    try:
        return urlsplit(text).port != 0
    except ValueError:  # the port is above 65535, or the address of IPv6 is none
        return False


def server_of(address: str) -> str:
    """Returns the address of a server, given that address or the one of its form.

    Examples
    --------
    >>> server_of("https://lab.example.org/"), server_of("https://example.org/lab/submit/")
    ('https://lab.example.org', 'https://example.org/lab')
    """
    return address.rstrip("/").removesuffix(_FORM).rstrip("/")


def form_of(server: str) -> str:
    """Returns the address of a server's form.

    Examples
    --------
    >>> form_of("https://lab.example.org")
    'https://lab.example.org/submit'
    """
    return f"{server}{_FORM}"
