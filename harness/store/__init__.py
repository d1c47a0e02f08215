"""Storage of costly results: artifacts by content, digests of code, provenance, cost, metadata files."""
