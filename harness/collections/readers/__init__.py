"""One reader a source of documents."""
