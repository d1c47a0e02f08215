"""What is costly and kept: artefacts by content, digests of code, provenance, cost, side files."""
