"""LaTeX to operator trees."""
