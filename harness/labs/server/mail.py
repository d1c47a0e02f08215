"""An outbox: messages to teams as `.eml` files, for any mailer to send; without a folder nothing is written."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from email.errors import MessageError
from email.message import EmailMessage
from pathlib import Path

from harness.io.console import log_line
from harness.io.files import write_atomic


@dataclass(frozen=True)
class Outbox:
    """A folder of messages; None for no messages."""

    folder: Path | None = None

    def send(self, to: str, subject: str, text: str) -> None:
        """Writes a message; nothing without an address.

        Examples
        --------
        >>> Outbox(Path("outbox")).send("a@example.org", "Accepted", "Your team was accepted.")
        >>> len(list(Path("outbox").glob("*.eml")))
        1
        """
        if self.folder is None or not to:
            return
        message = EmailMessage()  # refuses headers of several lines
        try:
            message["To"], message["Subject"] = to, " ".join(subject.split())
            message.set_content(text)
            data = message.as_bytes()
        except (ValueError, IndexError, AttributeError, MessageError) as error:  # the parser of addresses is fragile
            log_line(f"{self.folder}: a message to {to} could not be made: {error}")
            return
        name = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{secrets.token_hex(6)}.eml"
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomic(self.folder / name, data)
        except OSError as error:
            log_line(f"{self.folder}: cannot be written: {error.strerror or error}; a message was not kept")
