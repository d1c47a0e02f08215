"""LaTeX to symbol layout trees."""
