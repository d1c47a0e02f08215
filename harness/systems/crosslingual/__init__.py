"""Topics in other languages: formulas masked, words translated, formulas put back, and then any retriever."""
