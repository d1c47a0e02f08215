"""Letters in the styled alphabets of Unicode."""

from __future__ import annotations

from collections.abc import Mapping

# Offsets of the styled alphabets of Unicode: capital A, small a, capital and small Greek alpha; 0: none.
ALPHABETS: Mapping[str, tuple[int, int, int, int]] = {
    "bold": (0x1D400, 0x1D41A, 0x1D6A8, 0x1D6C2),
    "bold-italic": (0x1D468, 0x1D482, 0x1D71C, 0x1D736),
    "italic": (0x1D434, 0x1D44E, 0, 0),
    "script": (0x1D49C, 0x1D4B6, 0, 0),
    "fraktur": (0x1D504, 0x1D51E, 0, 0),
    "double-struck": (0x1D538, 0x1D552, 0, 0),
    "sans": (0x1D5A0, 0x1D5BA, 0, 0),
    "monospace": (0x1D670, 0x1D68A, 0, 0),
    "upright": (0x41, 0x61, 0, 0),
}
_HOLES = dict(zip("𝑕𝒝𝒠𝒡𝒣𝒤𝒧𝒨𝒭𝒺𝒼𝓄𝔆𝔋𝔌𝔕𝔝𝔺𝔿𝕅𝕇𝕈𝕉𝕑", "ℎℬℰℱℋℐℒℳℛℯℊℴℭℌℑℜℨℂℍℕℙℚℝℤ", strict=True))


def styled(character: str, style: str) -> str:
    """Returns a letter in one of the alphabets of Unicode; any other character as it is."""
    capital, small, greek_capital, greek_small = ALPHABETS[style]
    for first, last, start in (
        ("A", "Z", capital),
        ("a", "z", small),
        ("Α", "Ω", greek_capital),
        ("α", "ω", greek_small),
    ):
        if first <= character <= last and start:
            letter = chr(start + ord(character) - ord(first))
            return _HOLES.get(letter, letter)
    return character
