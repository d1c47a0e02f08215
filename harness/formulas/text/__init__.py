"""Formulas inside texts."""
