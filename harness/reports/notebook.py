"""Evaluations and comparisons as HTML tables for notebooks."""

from __future__ import annotations

from harness.experiments.evaluate import Evaluation
from harness.experiments.evaluation import JointEvaluation
from harness.render.html import render_html_table
from harness.reports.joint import joint_means_table
from harness.reports.means import comparison_means_table
from harness.reports.pair_tests import tests_table
from harness.scoring.compare import Comparison


def table_html(value: Evaluation | JointEvaluation | Comparison) -> str:
    """Returns the means of runs, or the tests between them, as an HTML table."""
    if isinstance(value, JointEvaluation):
        return "".join(render_html_table(joint_means_table(value, measure)) for measure in value.measures)
    return render_html_table(
        comparison_means_table(value, None) if isinstance(value, Evaluation) else tests_table(value)
    )
