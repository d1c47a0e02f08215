"""Pictures of a site and of reports for the documentation, in Debian's Chromium: a lab of the public runs of ARQMath-1
Task 1, the report of CrossMath, and that of an experiment.

    python -m docs.make.screenshots [--output docs] [--folder FOLDER] [--experiment reports/experiments/NAME/index.html]

Eight runs of participants are a lab of eight teams, Linked MSE is the baseline; a second lab is its private copy.
Submissions have the date of the repository that holds the runs. `--folder` keeps the labs and the site. Pictures are
drawn in 256 colours, which keeps them small.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from harness.cli.main import app
from harness.labs.lab import Lab, new_lab
from harness.labs.roster import BASELINE, add_team
from harness.labs.submit import Offer, submit_run
from harness.sources import catalogue
from harness.sources.fetch import fetch_resources

CHROMIUM = "/usr/bin/chromium"
WHEN = datetime(2020, 8, 19, 14, 54, tzinfo=UTC)  # of the repository's commit
TEAMS = {
    "psu-task1-auto-both-A.tsv": ("PSU", "A"),
    "prim_psu-task1-auto-both-P.tsv": ("PSU", "P"),
    "prim_psu-task1-auto-both-A2.tsv": ("PSU", "A2"),
    "prim_MathDowsers-task1-alpha05noReRank-auto-both-A.tsv": ("MathDowsers", "alpha05noReRank"),
    "prim_MIRMU-task1-Ensemble-auto-both-A.tsv": ("MIRMU", "Ensemble"),
    "prim_Approach0.tsv": ("Approach0", "P"),
    "DPRL_task1_auto_both_A3.tsv": ("DPRL", "A3"),
    "prim_zbMATH-task1-auto-both-P.tsv": ("zbMATH", "P"),
    "Linked_MSE.tsv": (BASELINE, "Linked_MSE"),
}
ABOUT = "Answer retrieval for questions of Math Stack Exchange: the public runs of ARQMath-1 (2020)."
# file -> page, width, height, colour scheme, number of the element to begin with
PICTURES: Mapping[str, tuple[str, int, int, str, str]] = {
    "site-leaderboard.png": ("arqmath-1/index.html", 1200, 1280, "light", ""),
    "site-run.png": ("arqmath-1/runs/mirmu/ensemble.v1.html", 1200, 900, "light", "#topics"),
    "site-topic.png": ("arqmath-1/topics/a.4.html", 1200, 1000, "light", "#first-documents-of-the-runs"),
    "site-pair.png": ("arqmath-1/pairs.html", 1200, 900, "dark", ""),
    "site-phone.png": ("arqmath-1/index.html", 390, 800, "light", ".listing"),
    "site-leaderboard-dark.png": ("arqmath-1/index.html", 1200, 1280, "dark", ""),
    "site-run-dark.png": ("arqmath-1/runs/mirmu/ensemble.v1.html", 1200, 900, "dark", "#topics"),
}
REPORTS: Mapping[str, tuple[str, int, int, str, str]] = {
    "crossmath-report.png": ("crossmath.html", 1200, 1000, "light", "h2:has-text('Published tables')"),
    "crossmath-report-dark.png": ("crossmath.html", 1200, 1000, "dark", "h2:has-text('Published tables')"),
}
EXPERIMENT: Mapping[str, tuple[str, int, int, str, str]] = {
    "experiment.png": ("index.html", 1200, 1000, "light", "h2:has-text('Learning curves')"),
    "experiment-dark.png": ("index.html", 1200, 1000, "dark", "h2:has-text('Learning curves')"),
}


def arqmath_labs(folder: Path) -> list[Lab]:
    """The lab of the public runs, and the same with private judgments."""
    runs = {path.name: path for path in fetch_resources(catalogue.source_files("arqmath-psu"))}
    labs = []
    for name, more in (("arqmath-1", {}), ("arqmath-1-private", {"private": True, "cap": 5, "least_results": 1})):
        title = "ARQMath-1 Task 1" + (", private judgments" if more else "")
        settings = {"title": title, "collection": "arqmath-1-task1", "baseline": f"{BASELINE} / Linked_MSE"}
        lab = new_lab(folder / name, {**settings, "about": ABOUT, **more})
        task = lab.task()
        for team in {team for team, _ in TEAMS.values()} - {BASELINE} if more else ():
            add_team(lab, team)
        for file, (team, label) in TEAMS.items():
            if more and team == "zbMATH":
                continue  # answers too few topics for a lab with private judgments
            description = "A public run of ARQMath-1 (2020)."
            submit_run(lab, Offer(runs[file], team, label, description), bench=task, now=WHEN)
        labs.append(lab)
    return labs


def built(labs: list[Lab], output: Path, *more: str) -> None:
    """Builds the site of the labs."""
    result = CliRunner().invoke(app, ["site", "build", *(str(lab.folder) for lab in labs), "-o", str(output), *more])
    assert result.exit_code == 0, result.output


def reported(folder: Path) -> None:
    """Writes the report of CrossMath, recomputed from its authors' runs."""
    from harness.papers.paper import load_paper
    from harness.papers.report.paper import paper_report
    from harness.papers.reproduce import recompute_paper
    from harness.render.html import render_html
    from harness.store.provenance import provenance

    report = paper_report(recompute_paper(load_paper("crossmath")), provenance({}))
    (folder / "crossmath.html").write_text(render_html(report), encoding="utf-8")


def taken(site: Path, output: Path, pictures: Mapping[str, tuple[str, int, int, str, str]]) -> None:
    """Takes the pictures."""
    import io

    from PIL import Image
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        for name, (path, width, height, scheme, start) in pictures.items():
            look: Any = {"viewport": {"width": width, "height": height}, "color_scheme": scheme}
            page = browser.new_page(**look, reduced_motion="reduce")
            page.goto((site / path).as_uri())
            if start:
                page.locator(start).first.evaluate("element => element.scrollIntoView()")
            page.wait_for_timeout(300)
            picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
            picture.quantize(256, dither=Image.Dither.NONE).save(output / name, optimize=True)
            print(f"{output / name}: {(output / name).stat().st_size // 1000} kB")
        browser.close()


def main() -> None:
    """Make the labs and their site, and take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("docs"))
    parser.add_argument("--folder", type=Path, help="a new folder for the labs and the site; default: temporary")
    parser.add_argument("--papers", action="store_true", help="build the pages of papers as well")
    parser.add_argument("--experiment", type=Path, help="the report of an experiment: its index.html")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = asked.folder or Path(name)
        built(arqmath_labs(folder), folder / "site", *(["--papers"] if asked.papers else []))
        taken(folder / "site", asked.output, PICTURES)
        reported(folder)
        taken(folder.resolve(), asked.output, REPORTS)
        if asked.experiment is not None:
            taken(asked.experiment.resolve().parent, asked.output, EXPERIMENT)


if __name__ == "__main__":
    main()
