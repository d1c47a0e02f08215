"""All that is measured on a GPU, in one command: `python -m bench.gpu`."""
