"""Formula trees: one, many in arrays, and the tuples of their symbols."""
