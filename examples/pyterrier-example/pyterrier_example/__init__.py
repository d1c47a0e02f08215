"""An example of pipelines of PyTerrier in mathir-harness; its README explains it."""
