"""MIRMU and MSM at ARQMath 2022: its values beside those of experiments."""
