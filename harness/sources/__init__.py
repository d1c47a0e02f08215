"""Public files and folders by checksum: cache, mirror, network."""
