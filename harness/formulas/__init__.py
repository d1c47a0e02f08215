"""Formulas as symbol layout trees (SLT) and operator trees (OPT): what they are read from, and stores of them."""
