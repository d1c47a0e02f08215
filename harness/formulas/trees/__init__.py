"""Trees, sets of trees, tuples."""
