"""Tests; a package, since some installed package has one of this name."""
