"""The version, so that no module imports the face of the package for it."""

__version__ = "0.2.0"
