"""Published numbers and what becomes of them when recomputed."""
