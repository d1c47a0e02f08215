"""Public files and folders, verified by checksum: from the cache, a mirror or the network."""
