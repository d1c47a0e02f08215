"""The documentation, and `docs.make`, which makes its site."""
