"""Renders a report as HTML, Markdown, LaTeX, CSV and JSON. Knows no measure, run or paper."""
