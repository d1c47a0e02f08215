"""Formula trees: single trees, forests packed in arrays, and symbol tuples."""
