"""Formula retrieval by the structure of operator trees and symbol layout trees."""
