"""Formula trees."""
