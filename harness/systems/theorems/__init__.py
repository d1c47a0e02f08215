"""Search for theorems and definitions of a proof library."""
