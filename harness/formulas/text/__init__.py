"""Formulas in texts: their positions, and placeholders for them."""
