"""A lab over HTTP: pages, an API, a queue of submissions, and workers that score them."""
