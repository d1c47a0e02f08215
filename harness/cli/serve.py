"""The command `serve`: a lab over HTTP. Thin, as all commands are."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal

import typer

from harness.cli.main import TASKS, in_panel
from harness.cli.options import to_path
from harness.cli.organiser_commands import lab_with_readers
from harness.errors import HarnessError
from harness.io.console import print_line

Part = Literal["all", "web", "worker", "pages"]


@in_panel(TASKS)
def serve(
    lab: Annotated[Path, typer.Argument(parser=to_path, metavar="LAB", help="Folder of the lab.")],
    host: Annotated[str, typer.Option(help="Address to listen on; behind a reverse proxy, leave it.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 for any free one.")] = 8000,
    url: Annotated[
        str, typer.Option(help="Address at which people reach the server, such as https://lab.example.org.")
    ] = "",
    state: Annotated[
        Path | None,
        typer.Option(
            parser=to_path, metavar="FOLDER", help="The server's own files; default: LAB.server beside the lab."
        ),
    ] = None,
    database: Annotated[
        str,
        typer.Option(
            envvar="HARNESS_DATABASE", help="postgresql://... for workers on several machines; default: SQLite."
        ),
    ] = "",
    workers: Annotated[int, typer.Option(min=0, help="Number of processes that score runs.")] = 1,
    seconds: Annotated[float, typer.Option(min=1, help="Most seconds that scoring a run may take.")] = 300.0,
    memory: Annotated[int, typer.Option(min=64, help="Most memory that scoring a run may take, in MiB.")] = 4096,
    most_upload: Annotated[int, typer.Option(min=1, help="Largest upload, in MiB.")] = 256,
    rate: Annotated[int, typer.Option(min=1, help="Most requests per minute and address.")] = 600,
    uploads: Annotated[int, typer.Option(min=1, help="Most uploads per minute and team.")] = 30,
    outbox: Annotated[
        Path | None, typer.Option(parser=to_path, metavar="FOLDER", help="Write messages to teams as .eml files.")
    ] = None,
    asking: Annotated[bool, typer.Option("--asking/--no-asking", help="Whether teams may ask to join.")] = True,
    organiser: Annotated[
        str | None, typer.Option(metavar="NAME", help="Print a new token for this organiser, and exit.")
    ] = None,
    only: Annotated[
        Part, typer.Option(help="Part to run: all, web, worker (scores runs) or pages (builds the site).")
    ] = "all",
) -> None:
    """Serve a lab over HTTP: pages, forms and an API to submit runs, with workers that score them."""
    from harness.labs.names import is_address

    if url and not is_address(url):
        raise HarnessError(f"--url {url}: expected an address such as https://lab.example.org")
    lab_with_readers(lab)
    try:
        for name in ("msgspec", "python_multipart", "starlette", "uvicorn"):
            import_module(name)
    except ImportError as error:
        raise HarnessError(
            f"serve: the package {error.name} is missing; pip install 'mathir-harness[server]'"
        ) from None
    from harness.labs.server.lab_snapshot import state_folder
    from harness.labs.server.processes import Place, run_publisher, run_server, run_worker, service
    from harness.labs.server.service import ServerSettings
    from harness.labs.server.worker import Limits

    place = Place(lab, (state or state_folder(lab)).resolve(), database)
    if only == "worker":
        run_worker(place, Limits(seconds, memory))
        return
    if only == "pages":
        run_publisher(place, url.rstrip("/"))
        return
    settings = ServerSettings(url.rstrip("/"), most_upload << 20, rate, uploads, asking=asking)
    made = service(place, settings, outbox)
    if organiser is not None:
        token = made.accounts.add_organiser(organiser)
        made.accounts.record("command", "add-organiser", {"name": organiser})
        print_line(f"organiser {organiser}: log in with the token {token}")
        return
    if not made.accounts.organisers():
        token = made.accounts.add_organiser("organiser")
        print_line(f"organiser: log in with the token {token}")
    common = [str(lab), "--state", str(place.state)]
    limits = ["--seconds", str(seconds), "--memory", str(memory)]

    def commands(address: str) -> list[list[str]]:
        """Returns the commands of the other processes of the server at an address."""
        if only == "web":
            return []
        # What listens on all addresses of the machine does not know the one at which people reach it.
        known = url or host not in ("0.0.0.0", "::")  # noqa: S104
        pages = ["serve", *common, "--only", "pages", *(["--url", address] if known else [])]
        return [pages, *[["serve", *common, *limits, "--only", "worker"]] * workers]

    run_server(made, place, host, port, commands, lambda address: print_line(f"{lab}: served at {address}"))
