"""Search for theorems and definitions of a proof library."""

EXAMPLE = "collection=mini-theorems corpus=mini-theorems"  # what the systems of this family rank in examples
