"""A name to a collection or a corpus."""
