"""Measures, protocols, scores and comparisons, as functions of plain values."""
