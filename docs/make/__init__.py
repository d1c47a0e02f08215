"""Makes the pages of the documentation site that MkDocs or Zensical build: `python -m docs.make`."""
