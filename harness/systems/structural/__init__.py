"""Formula retrieval by the structure of operator trees and symbol layout trees."""

EXAMPLE = "collection=mini-task2 corpus=mini-formulas"  # what the systems of this family rank in examples
