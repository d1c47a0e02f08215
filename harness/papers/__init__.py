"""Published numbers and their recomputation."""
