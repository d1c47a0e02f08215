"""Cross-lingual retrieval: masks formulas, translates topics, restores the formulas, and runs any retriever."""
