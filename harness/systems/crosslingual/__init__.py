"""Cross-lingual retrieval: masks formulas, translates topics, restores the formulas, and runs any retriever."""

EXAMPLE = "collection=mini-task1-spa corpus=mini-answers"  # what the systems of this family rank in examples
