"""The commands `list` and `doctor`: what exists, and what is missing."""

from __future__ import annotations

from harness.io.console import out, out_left


def list_() -> None:
    """What exists: collections, corpora, papers, with licence and state, systems by state, and experiments."""
    from harness.collections.corpora import load_corpus
    from harness.collections.load import load_collection
    from harness.experiments.experiment import load_experiment
    from harness.io import config
    from harness.papers.paper import load_paper, paper_names
    from harness.systems.states import KINDS, system_state

    collections = [(name, load_collection(name)) for name in config.names("collection")]
    corpora = [(name, load_corpus(name)) for name in config.names("corpus")]
    papers = [(name, load_paper(name)) for name in paper_names()]
    systems = [(name, config.load("system", name)[0]) for name in config.names("system")]
    states = {name: system_state(system, name) for name, system in systems}
    experiments = [(name, load_experiment(name)) for name in config.names("experiment")]
    sources = [(name, config.load("source", name)[0]) for name in config.names("source")]
    # Everything is read before anything is printed: half a list looks like a whole one.
    tables = {
        "collections": [
            ["  name", "state", "licence", "editions"],
            *([f"  {name}", c.state(), c.licence, "/".join(c.editions)] for name, c in collections),
        ],
        "corpora": [
            ["  name", "state", "licence", "title"],
            *([f"  {name}", c.state(), c.licence, c.title] for name, c in corpora),
        ],
        "papers": [
            ["  name", "state", "licence of its runs", "published", "title"],
            *([f"  {name}", p.state(), p.licence(), f"{len(p.cells)} cells", p.title] for name, p in papers),
        ],
        **{
            f"systems: {kind}": [
                ["  name", "title", "state"],
                *([f"  {n}", str(s.get("title", "")), states[n][1]] for n, s in systems if states[n][0] == kind),
            ]
            for kind in KINDS
        },
        "experiments": [
            ["  name", "runs", "tests", "title"],
            *([f"  {name}", f"{len(e.cells())}", f"{e.tests}", e.title] for name, e in experiments),
        ],
        "sources": [
            ["  name", "licence", "title"],
            *([f"  {name}", str(s.get("licence", "")), str(s.get("title", ""))] for name, s in sources),
        ],
    }
    for heading, rows in tables.items():
        out(heading)
        out_left(rows)


def doctor() -> None:
    """What is missing on this machine, and the command that installs it."""
    from harness.cli.doctor import findings

    out_left([["check", "state", "what to do"], *findings()])
