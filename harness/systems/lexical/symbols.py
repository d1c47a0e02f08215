"""Tables of the text views: LaTeX commands as Unicode, layout commands, function words, and Mathlib's abbreviations."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from functools import cache

# LaTeX command (without the backslash) -> the character used in Lean sources.
_COMMANDS = """
alpha α beta β gamma γ delta δ epsilon ε varepsilon ε zeta ζ eta η theta θ vartheta θ iota ι kappa κ lambda λ mu μ nu ν
xi ξ pi π rho ρ varrho ρ sigma σ tau τ upsilon υ phi φ varphi φ chi χ psi ψ omega ω
Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Phi Φ Psi Ψ Omega Ω
le ≤ leq ≤ leqslant ≤ ge ≥ geq ≥ geqslant ≥ ne ≠ neq ≠ lt < gt > ll ≪ gg ≫ equiv ≡ approx ≈ sim ∼ simeq ≃ cong ≅ prec ≺
in ∈ notin ∉ ni ∋ subset ⊂ subseteq ⊆ subsetneq ⊂ supset ⊃ supseteq ⊇ cup ∪ cap ∩ bigcup ⋃ bigcap ⋂ setminus \\
emptyset ∅ varnothing ∅ sqcup ⊔ sqcap ⊓ bigsqcup ⨆ bigsqcap ⨅ sup ⨆ inf ⨅ top ⊤ bot ⊥ vee ∨ lor ∨ wedge ∧ land ∧
bigvee ⨆ bigwedge ⨅ neg ¬ lnot ¬ forall ∀ exists ∃ nexists ∄ iff ↔ Leftrightarrow ↔ leftrightarrow ↔ implies →
Rightarrow → to → rightarrow → longrightarrow → Longrightarrow → mapsto ↦ longmapsto ↦ leftarrow ← hookrightarrow ↪
twoheadrightarrow ↠ uparrow ↑ downarrow ↓ times × cdot * ast * star ⋆ circ ∘ bullet • otimes ⊗ oplus ⊕ bigoplus ⨁
bigotimes ⨂ sum ∑ prod ∏ coprod ∐ int ∫ iint ∫ oint ∮ partial ∂ nabla ∇ sqrt √ infty ∞ aleph ℵ ell ℓ mid ∣ nmid ∤
perp ⟂ parallel ∥ angle ∠ triangle ∆ langle ⟨ rangle ⟩ lfloor ⌊ rfloor ⌋ lceil ⌈ rceil ⌉ Vert ‖ lVert ‖ rVert ‖ | ‖
vdash ⊢ models ⊨ dagger † prime ′ hbar ℏ Re ℜ Im ℑ wp ℘ square □ lhd ◁ rhd ▷ rtimes ⋊ ltimes ⋉ pm ± mp ∓
"""
_pairs = _COMMANDS.split()
UNICODE: Mapping[str, str] = dict(zip(_pairs[::2], _pairs[1::2], strict=True))

# Alphabets such as `\mathbb{N}`; Mathlib uses script capitals for some names, such as the neighbourhood filter.
_DOUBLE = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ1", "𝔸𝔹ℂ𝔻𝔼𝔽𝔾ℍ𝕀𝕁𝕂𝕃𝕄ℕ𝕆ℙℚℝ𝕊𝕋𝕌𝕍𝕎𝕏𝕐ℤ𝟙", strict=True)) | {"k": "𝕜"}
_SCRIPT = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "𝒜ℬ𝒞𝒟ℰℱ𝒢ℋℐ𝒥𝒦ℒℳ𝓝𝒪𝒫𝒬ℛ𝒮𝒯𝒰𝒱𝒲𝒳𝒴𝒵", strict=True))
ALPHABETS: Mapping[str, Mapping[str, str]] = {"mathbb": _DOUBLE, "Bbb": _DOUBLE, "mathcal": _SCRIPT, "mathscr": _SCRIPT}

# LaTeX that changes the layout but not the meaning, including commands that only set the size of delimiters.
_LAYOUT = r"""
\left \right \middle \big \Big \bigg \Bigg \bigl \bigr \Bigl \Bigr \biggl \biggr \Biggl \Biggr \, \; \: \! \> \\
\quad \qquad \displaystyle \textstyle \scriptstyle \scriptscriptstyle \limits \nolimits \hspace \vspace \phantom
\hphantom \vphantom \large \Large \small \normalsize \tiny \huge \nonumber \notag \label \begin \end \hline \cr \rm
\hfill \hfil \vfill \allowbreak \newline \strut \mathstrut \smash \enspace \thinspace \negthinspace \break \par
\bf \it \cal \mathrm \mathbf \mathit \boldsymbol \bm \mathop \mathrel \mathbin \/ \- & ~
"""
LAYOUT = frozenset(_LAYOUT.split()) | {"\\"}

# Synonyms of LaTeX tokens.
SAME: Mapping[str, str] = {
    "\\leq": "\\le",
    "\\leqslant": "\\le",
    "\\leqq": "\\le",
    "\\geq": "\\ge",
    "\\geqq": "\\ge",
    "\\geqslant": "\\ge",
    "\\neq": "\\ne",
    "\\lt": "<",
    "\\gt": ">",
    "\\ast": "*",
    "\\colon": ":",
    "\\vert": "|",
    "\\lvert": "|",
    "\\rvert": "|",
    "\\mid": "|",
    "\\|": "\\Vert",
    "\\lVert": "\\Vert",
    "\\rVert": "\\Vert",
    "\\lbrack": "[",
    "\\rbrack": "]",
    "\\gets": "\\leftarrow",
    "\\surd": "\\sqrt",
    "\\centerdot": "\\cdot",
    "\\dotsc": "\\ldots",
    "\\dotsb": "\\ldots",
    "\\dotsm": "\\ldots",
    "\\dotsi": "\\ldots",
    "\\dotso": "\\ldots",
    "\\dfrac": "\\frac",
    "\\tfrac": "\\frac",
    "\\cfrac": "\\frac",
    "\\dbinom": "\\binom",
    "\\tbinom": "\\binom",
    "\\choose": "\\binom",
    "\\rightarrow": "\\to",
    "\\longrightarrow": "\\to",
    "\\Rightarrow": "\\implies",
    "\\Longrightarrow": "\\implies",
    "\\Leftrightarrow": "\\iff",
    "\\Longleftrightarrow": "\\iff",
    "\\varepsilon": "\\epsilon",
    "\\varphi": "\\phi",
    "\\vartheta": "\\theta",
    "\\emptyset": "\\varnothing",
    "\\lbrace": "\\{",
    "\\rbrace": "\\}",
    "\\land": "\\wedge",
    "\\lor": "\\vee",
    "\\lnot": "\\neg",
    "\\Bbb": "\\mathbb",
    "\\dots": "\\ldots",
    "\\cdots": "\\ldots",
}

_WITH_ONE = """
sqrt pmod pod overline underline hat widehat bar vec tilde widetilde dot ddot mathbf mathbb Bbb mathit mathcal mathfrak
mathscr boldsymbol bm boxed cancel overbrace underbrace
"""
# Commands -> the number of their arguments; a digit that is one of them is a number of its own.
ARGUMENTS: Mapping[str, int] = {
    **dict.fromkeys(("\\frac", "\\dfrac", "\\tfrac", "\\cfrac", "\\binom", "\\dbinom", "\\tbinom"), 2),
    **dict.fromkeys(("\\overset", "\\underset", "\\stackrel"), 2),
    **{f"\\{name}": 1 for name in _WITH_ONE.split()},
}

# Latin letters that have no decomposition into a letter and its accent.
_LETTERS = "ø o Ø O ł l Ł L đ d Đ D ð d Ð D þ th Þ Th ß ss æ ae Æ AE œ oe Œ OE ı i ħ h Ħ H"
_pairs = _LETTERS.split()
_PLAIN = dict(zip(_pairs[::2], _pairs[1::2], strict=True))


@cache
def without_accents() -> Mapping[int, str]:
    """Returns Latin letters -> the letters without accent, for `str.translate`: `é` -> e, `ø` -> o, `ß` -> ss."""
    letters = map(chr, (*range(0xC0, 0x250), *range(0x1E00, 0x1F00)))
    plain = {each: unicodedata.normalize("NFD", each)[0] for each in letters}
    plain = {each: letter for each, letter in plain.items() if letter.isascii()} | _PLAIN
    return {ord(each): letter for each, letter in plain.items()}


# English function words: articles, pronouns, prepositions, conjunctions, auxiliaries, the particles of contractions.
_ENGLISH = """
a about above after again against all also am an and any are as at be because been before being below between both but
by can could did do does doing down during each few for from further had has have having he her here hers herself him
himself his how i if in into is it its itself just may me might more most must my myself no nor not now of off on once
only or other our ours ourselves out over own same shall she should so some such than that the their theirs them
themselves then there these they this those through to too under until up upon us very was we were what when where
which while who whom whose why will with would you your yours yourself yourselves s t d ll m re ve
"""
ENGLISH = frozenset(_ENGLISH.split())

# Words of prose -> their abbreviations in Mathlib's naming conventions; words with equal stems need no entry.
_SHORT = """
commutative comm commutativity comm commute comm associative assoc associativity assoc distributive distrib
distributivity distrib reflexive refl reflexivity refl symmetry symm symmetric symm transitive trans transitivity
trans antisymmetric antisymm irreflexive irrefl injective inj injectivity inj injection inj surjective surj
surjectivity surj surjection surj bijective bij bijection bij monotone mono nonnegative nonneg positive pos negative
neg negation neg square sq squared sq cardinality card continuous cont continuity cont derivative deriv neighborhood
nhds neighborhoods nhds neighbourhood nhds neighbourhoods nhds distance dist homomorphism hom morphism hom isomorphism
iso isomorphic iso equivalence equiv equivalent equiv function fun polynomial poly determinant det characteristic char
exponential exp logarithm log absolute abs orthogonal ortho product prod summation sum inverse inv power pow
multiplication mul multiply mul addition add subtraction sub division div divides dvd divisible dvd divisor dvd
complement compl intersection inter composition comp composite comp membership mem member mem equal eq equality eq
unequal ne less lt converge tendsto converges tendsto convergence tendsto supremum sup infimum inf maximum max minimum
min integer int natural nat rational rat bounded bdd noncommutative noncomm
"""
_pairs = _SHORT.split()
ABBREVIATIONS: Mapping[str, str] = dict(zip(_pairs[::2], _pairs[1::2], strict=True))
