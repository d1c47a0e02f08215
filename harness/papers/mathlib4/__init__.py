"""A Semantic Search Engine for Mathlib4: the reader of its benchmark and its sections."""
