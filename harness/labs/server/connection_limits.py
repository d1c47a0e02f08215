"""Limits of connections: slow clients, and many connections of one address."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import struct
from typing import Any

from h11 import DONE, IDLE, SEND_BODY
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_OF_ADDRESS = 100  # open connections


def patient(idle: float, most: int = MOST_OF_ADDRESS) -> type[H11Protocol]:
    """Returns uvicorn's protocol with limits on what it waits for, each of which a client could draw out forever.

    A connection is ended when for `idle` seconds its client does not complete the headers of a request, goes on with a
    body that was refused or that nobody reads, or does not take the answer. The body of an upload has limits of its
    own, in `guard`.

    Parameters
    ----------
    most : open connections of one address; proxies that uvicorn trusts (`FORWARDED_ALLOW_IPS`, by default this machine)
        may have any number.
    """

    class Patient(H11Protocol):
        _look_again: asyncio.TimerHandle | None = None
        _owed: tuple[str, int] | None = None  # what the client owes us, and the number of answers or pauses before
        _since = 0.0
        _answers = 0
        _resumed = 0

        def connection_made(self, transport: Any) -> None:  # noqa: ANN401
            super().connection_made(transport)
            if self._crowded():
                transport.abort()
                return
            self._since = self.loop.time()
            self._look()

        def _crowded(self) -> bool:
            if self.client is None or _is_trusted(self.client[0], self.config.forwarded_allow_ips):
                return False
            clients: list[tuple[str, int] | None] = [getattr(each, "client", None) for each in self.connections]
            return len([each for each in clients if each is not None and each[0] == self.client[0]]) > most

        def _owes(self) -> tuple[str, int] | None:
            """Returns what the client must do next; None if it is the server's turn."""
            if self.transport.is_closing() or self.transport.get_write_buffer_size():
                return "take", self._resumed
            if self.conn.their_state is IDLE and (self._answers == 0 or self.conn.trailing_data[0]):
                return "ask", self._answers
            if self.conn.their_state is SEND_BODY and self.conn.our_state is DONE:
                return "end", self._answers
            return None

        def _look(self) -> None:
            now, owed = self.loop.time(), self._owes()
            if owed is None or owed != self._owed:
                self._owed, self._since = owed, now
            elif now - self._since >= idle:
                if owed[0] == "take":
                    self._drop()
                else:
                    self.transport.close()
            self._look_again = self.loop.call_later(idle / 4, self._look)

        def _drop(self) -> None:
            """Ends the connection with all that waits in it; `close` would wait until the client has taken the rest."""
            if (connection := self.transport.get_extra_info("socket")) is not None:
                # So that the system forgets the rest as well.
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()

        def on_response_complete(self) -> None:
            self._answers += 1
            super().on_response_complete()

        def resume_writing(self) -> None:
            self._resumed += 1
            super().resume_writing()

        def connection_lost(self, exc: Exception | None) -> None:
            if self._look_again is not None:
                self._look_again.cancel()
            super().connection_lost(exc)

    return Patient


def _is_trusted(address: str, named: str | list[str] | None) -> bool:
    """Returns whether uvicorn trusts a proxy's address."""
    listed = os.environ.get("FORWARDED_ALLOW_IPS", "127.0.0.1") if named is None else named
    for each in listed.split(",") if isinstance(listed, str) else listed:
        try:
            if each.strip() == "*" or ipaddress.ip_address(address) in ipaddress.ip_network(each.strip()):
                return True
        except ValueError:  # a name, such as that of a socket
            continue
    return False
