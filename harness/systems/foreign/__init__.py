"""Run producers of other libraries: PyTerrier, Pyserini and ranx; one module an adapter."""
