"""Formulas inside texts: where they stand, and placeholders for them."""
