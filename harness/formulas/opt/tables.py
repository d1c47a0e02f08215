r"""Tables of LaTeX symbols in operator trees: the grammatical role and the label of each.

The roles, and their assignment to symbols, follow LaTeXML's grammar of mathematics; the labels are Tangent's (see
`harness.formulas.mathml.content`). A symbol without a meaning of its own is a variable named by its character (`V!⋅`).
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import TypeAlias

Node: TypeAlias = "tuple[str, Sequence[Node]]"  # label and arguments
Item: TypeAlias = tuple[int, Node]  # grammatical role, and the node of a symbol or parsed part
Rows: TypeAlias = list[Item]


class Role(IntEnum):
    """Grammatical role of an item in a row. Roles up to `FLOAT` can begin a factor."""

    ATOM = 0  # letters, constants, fractions, groups
    NUMBER = 1
    FENCED = 2  # content of brackets
    FUNCTION = 3  # takes the factors that follow, up to a bracket
    TRIGONOMETRIC = 4  # like FUNCTION, but takes no other trigonometric function
    OPERATOR = 5
    BIG = 6  # sums, limits, quantifiers: take the rest of the term
    INTEGRAL = 7  # like BIG, and `d x` in it is a differential
    DIFFERENTIAL = 8  # takes one factor
    ARGUMENTS = 9  # brackets after a function
    BAR = 10
    FLOAT = 11  # a script before its base
    ADD = 12
    MULTIPLY = 13
    RELATION = 14
    META = 15  # relation between formulas
    PUNCTUATION = 16
    PERIOD = 17
    MODIFIER = 18
    MODIFY = 19
    OPEN = 20
    CLOSE = 21
    POSTFIX = 22
    PRIME = 23
    OVER = 24  # the items before `\over`


FACTORS = frozenset(range(Role.FLOAT + 1)) - {Role.ARGUMENTS.value}  # what may begin a factor
TAKERS = frozenset(range(Role.FUNCTION, Role.DIFFERENTIAL + 1))
# Roles that may begin a factor, by the role of the function that takes it without brackets; -1: in a term.
ARGUMENT = FACTORS & {Role.ATOM, Role.NUMBER, Role.FUNCTION, Role.TRIGONOMETRIC, Role.BAR, Role.FLOAT}
TAKES: Mapping[int, frozenset[int]] = {
    -1: FACTORS,
    **dict.fromkeys((Role.BIG, Role.INTEGRAL, Role.DIFFERENTIAL), FACTORS),
    **dict.fromkeys((Role.FUNCTION, Role.OPERATOR), ARGUMENT),
    Role.TRIGONOMETRIC: ARGUMENT - {Role.TRIGONOMETRIC},
}


_SYMBOLS: Mapping[Role, str] = {
    Role.ATOM: """
        Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Upsilon Υ Phi Φ Psi Ψ Omega Ω alpha 𝛼 beta 𝛽 gamma 𝛾
        delta 𝛿 varepsilon 𝜀 zeta 𝜁 eta 𝜂 theta 𝜃 iota 𝜄 kappa 𝜅 lambda 𝜆 mu 𝜇 nu 𝜈 xi 𝜉 pi 𝜋 rho 𝜌 varsigma 𝜍
        sigma 𝜎 tau 𝜏 upsilon 𝜐 varphi 𝜑 chi 𝜒 psi 𝜓 omega 𝜔 omicron 𝜊 epsilon italic-ϵ phi italic-ϕ vartheta
        italic-ϑ varrho italic-ϱ varpi italic-ϖ varkappa italic-ϰ imath italic-ı jmath italic-ȷ digamma italic-ϝ
        ell ℓ aleph ℵ beth ℶ gimel ℷ daleth ℸ hbar C!hbar hslash ℏ wp O!weierstrass-p mho ℧ eth ð Finv Ⅎ
        complement O!complement infty C!infinity emptyset C!emptyset varnothing C!emptyset angle ∠ measuredangle
        ∡ sphericalangle ∢ triangle △ Box □ square □ Diamond ◇ lozenge ◊ blacksquare ■ bigstar ★ clubsuit ♣
        diamondsuit ♢ heartsuit ♡ spadesuit ♠ flat ♭ natural ♮ sharp ♯ ldots … dots … dotsc … dotso … cdots ⋯
        dotsb ⋯ dotsm ⋯ dotsi ⋯ vdots ⋮ ddots ⋱ iddots ⋰ degree ° \\& & \\$ $ \\# # \\% O!percent \\_ _
        checkmark ✓ dag † ddag ‡ S § P ¶ vartriangle △ triangledown ▽ varGamma 𝛤 varDelta 𝛥 varTheta 𝛩 varLambda
        𝛬 varXi 𝛯 varPi 𝛱 varSigma 𝛴 varPhi 𝛷 varPsi 𝛹 varOmega 𝛺 blacktriangle ▲ blacktriangledown ▼
        blacklozenge ◆ Bbbk 𝕜 backprime ‵ copyright © pounds £ circledS Ⓢ circledR ®
    """,
    Role.FUNCTION: """
        arccos F!arccos arcsin F!arcsin arctan F!arctan arg F!arg deg O!degree exp F!exp gcd F!gcd hom hom ker O!kernel
        lg lg ln F!ln log F!log max F!max min F!min Pr Pr Re F!real Im F!imaginary nexists O!not-exists
        arccot arccot arccsc arccsc arcsec arcsec sgn sgn tr tr rank rank
    """,
    Role.TRIGONOMETRIC: """
        cos F!cos cosh F!cosh cot F!cot coth F!coth csc F!csc sec F!sec sin F!sin sinh F!sinh tan F!tan tanh F!tanh
    """,
    Role.OPERATOR: "nabla ∇ surd O!root",
    Role.BIG: """
        sum O!sum prod O!product coprod O!coproduct bigcap U!intersect bigcup U!union bigsqcup O!square-union
        bigvee U!or bigwedge U!and bigodot ⨀ bigotimes O!tensor-product bigoplus O!direct-sum
        biguplus O!symmetric-difference forall O!forall exists O!exists
        lim O!limit liminf O!limit-infimum limsup O!limit-supremum inf O!infimum sup O!supremum
        det F!det dim O!dimension injlim O!injective-limit projlim O!projective-limit
        varlimsup O!limit-supremum varliminf O!limit-infimum varinjlim O!injective-limit
        varprojlim O!projective-limit
    """,
    Role.INTEGRAL: """
        int O!int oint O!contour-integral iint O!double-integral iiint O!triple-integral iiiint O!quadruple-integral
        smallint O!int
    """,
    Role.DIFFERENTIAL: "partial O!partialdiff",
    Role.ADD: """
        + U!plus - O!minus pm O!plus-or-minus mp O!minus-or-plus cap U!intersect cup U!union uplus ⊎
        sqcap O!square-intersection sqcup O!square-union vee U!or lor U!or wedge U!and land U!and setminus O!setdiff
        smallsetminus O!setdiff diamond ⋄ bigtriangleup △ bigtriangledown ▽ triangleleft ⊲ triangleright ⊳ oplus
        O!direct-sum ominus O!symmetric-difference top O!top bot O!bottom dotplus ∔ Cap O!double-intersection
        Cup O!double-union barwedge O!not-and veebar O!exclusive-or boxminus ⊟ boxplus ⊞ curlywedge U!and curlyvee U!or
        circleddash ⊝ intercal ⊺ lhd O!subgroup-of rhd O!contains-as-subgroup unlhd O!subgroup-of-or-equals
        unrhd O!contains-as-subgroup-or-equals
    """,
    Role.MULTIPLY: """
        * U!times / O!divide times U!times div O!divide ast ∗ star ⋆ circ O!compose bullet ∙ cdot ⋅ wr ≀
        otimes O!tensor-product oslash ⊘ odot O!direct-product bigcirc ○ dagger † ddagger ‡ amalg O!coproduct
        backslash \\ boxtimes ⊠ boxdot ⊡ divideontimes ⋇ ltimes O!left-normal-factor-semidirect-product
        rtimes O!right-normal-factor-semidirect-product leftthreetimes O!left-semidirect-product
        rightthreetimes O!right-semidirect-product circledast ⊛ circledcirc ⊚ centerdot ∙
    """,
    Role.RELATION: """
        = U!eq < O!lt > O!gt lt O!lt gt O!gt := O!assign le O!leq leq O!leq ge O!geq geq O!geq leqslant O!leq
        geqslant O!geq leqq O!leq geqq O!geq ne U!neq neq U!neq ll O!much-less-than gg O!much-greater-than
        prec O!precedes preceq O!precedes-or-equals preccurlyeq O!precedes-or-equals succ O!succeeds
        succeq O!succeeds-or-equals succcurlyeq O!succeeds-or-equals precsim O!precedes-or-equivalent-to
        succsim O!succeeds-or-equivalent-to subset O!subset subseteq O!subset subseteqq O!subset
        subsetneq O!prsubset varsubsetneq O!prsubset subsetneqq O!prsubset supset O!superset-of
        supseteq O!superset-of-or-equals supsetneq O!superset-of-and-not-equals supseteqq O!superset-of-or-equals
        Subset O!double-subset-of Supset O!double-superset-of sqsubset O!square-image-of
        sqsubseteq O!square-image-of-or-equals sqsupset O!square-original-of sqsupseteq O!square-original-of-or-equals
        in O!in notin O!notin ni O!contains owns O!contains equiv U!equivalent sim O!similar-to
        simeq O!similar-to-or-equals asymp O!asymptotically-equals approx U!approx
        approxeq O!approximately-equals-or-equals cong U!approx doteq O!approaches-limit
        thicksim O!similar-to thickapprox U!approx models O!models
        perp O!perpendicular-to bowtie ⋈ Join O!join smile ⌣ frown ⌢ propto O!proportional-to varpropto
        O!proportional-to lesssim O!less-than-or-similar-to gtrsim O!greater-than-or-equivalent-to
        lessapprox O!less-than-or-approximately-equals gtrapprox O!greater-than-or-approximately-equals
        lessgtr O!less-than-or-greater-than gtrless O!greater-than-or-less-than lll O!very-much-less-than
        ggg O!very-much-greater-than triangleq ≜ eqcirc ≖ circeq ≗ coloneqq O!assign eqqcolon ≕
        doteqdot O!geometrically-equals
        vDash ⊨ Vdash O!forces Vvdash ⊪ between O!between pitchfork ⋔ bumpeq O!difference-between
        Bumpeq O!geometrically-equals multimap ⊸ lesseqgtr O!less-than-or-equals-or-greater-than
        varsubsetneqq O!prsubset
        backsim ∽ backsimeq ⋍
        trianglelefteq O!subgroup-of-or-equals vartriangleleft O!subgroup-of vartriangleright O!contains-as-subgroup
        trianglerighteq O!contains-as-subgroup-or-equals shortmid O!divides nmid O!not-divides nshortmid O!not-divides
        shortparallel O!parallel-to nparallel O!not-parallel-to nless O!not-less-than ngtr O!not-greater-than
        nleq O!not-less-than-nor-greater-than ngeq O!not-greater-than-nor-equals nleqslant O!not-less-than-or-equals
        ngeqslant O!not-greater-than-or-equals lneq O!less-than-and-not-equals gneq O!greater-than-and-not-equals
        lneqq O!less-than-and-not-equals gneqq O!greater-than-and-not-equals nsim O!not-similar-to
        ncong O!not-approximately-equals nprec O!not-precedes nsucc O!not-succeeds nsubseteq O!not-subset-of-or-equals
        nsupseteq O!not-superset-of-or-equals nvdash O!not-proves nvDash ⊭ ntrianglelefteq O!not-subgroup-of-or-equals
        to → rightarrow → leftarrow ← gets ← Rightarrow ⇒ Leftarrow ⇐ longrightarrow ⟶ longleftarrow ⟵
        Longrightarrow ⟹ Longleftarrow ⟸ mapsto O!maps-to longmapsto ⟼ hookrightarrow ↪ hookleftarrow ↩
        rightharpoonup ⇀ rightharpoondown ⇁ leftharpoonup ↼ leftharpoondown ↽ leadsto O!leads-to rightsquigarrow ⇝
        uparrow ↑ Uparrow ⇑ downarrow ↓ Downarrow ⇓ updownarrow ↕ Updownarrow ⇕ nearrow ↗ searrow ↘ swarrow ↙ nwarrow ↖
        twoheadrightarrow ↠ twoheadleftarrow ↞ rightarrowtail ↣ rightrightarrows ⇉ rightleftarrows ⇄ dashrightarrow ⇢
        upharpoonright ↾ restriction ↾ curvearrowright ↷ nleftarrow ↚ nLeftarrow ⇍ nrightarrow ↛ nRightarrow ⇏
        implies O!implies impliedby O!implied-by
    """,
    Role.META: """
        : : colon : vdash O!proves dashv O!does-not-prove leftrightarrow ↔ Leftrightarrow ⇔ iff O!iff
        longleftrightarrow ⟷ Longleftrightarrow ⟺ rightleftharpoons ⇌ leftrightharpoons ⇋ therefore O!therefore
        because O!because nleftrightarrow ↮ nLeftrightarrow ⇎
    """,
    Role.PUNCTUATION: ", , ; ;",
    Role.PERIOD: ". .",
    Role.MODIFY: "bmod O!rem mod O!rem",
    Role.BAR: "| | vert | ∥ ∥ \\| ∥ Vert ∥ parallel ∥ mid ∣",
    Role.OPEN: """
        ( ( [ [ \\{ { lbrace { lbrack [ lparen ( lfloor ⌊ lceil ⌈ langle ⟨ lvert | lVert ∥ lgroup ⟮
        ulcorner ⌜ llcorner ⌞ lmoustache ⎰ llbracket ⟦
    """,
    Role.CLOSE: """
        ) ) ] ] \\} } rbrace } rbrack ] rparen ) rfloor ⌋ rceil ⌉ rangle ⟩ rvert | rVert ∥ rgroup ⟯
        urcorner ⌝ lrcorner ⌟ rmoustache ⎱ rrbracket ⟧
    """,
    Role.POSTFIX: "! O!factorial",
    Role.PRIME: "prime ′",
}

# Names of negated relations and quantifiers, where these are not `not-` and the name of the relation.
NEGATED: Mapping[str, str] = {
    "U!eq": "U!neq",
    "O!in": "O!notin",
    "O!lt": "O!not-less-than",
    "O!gt": "O!not-greater-than",
    "O!leq": "O!not-less-than-or-equals",
    "O!geq": "O!not-greater-than-or-equals",
    "O!subset": "O!not-subset-of",
    "U!equivalent": "O!not-equivalent-to",
    "U!approx": "O!not-approximately-equals",
    "O!contains": "O!not-contains",
}
# Relations whose sides are swapped in Content MathML.
REVERSED: Mapping[str, str] = {
    "O!superset-of": "O!subset",
    "O!superset-of-or-equals": "O!subset",
    "O!superset-of-and-not-equals": "O!prsubset",
    "O!contains": "O!in",
    "O!not-contains": "O!notin",
}
_ACCENTS = """
hat ^ widehat ^ check ˇ breve ˘ acute ´ grave ` tilde ~ widetilde ~ bar ¯ overline ¯ vec → dot ˙ ddot ¨ dddot ⃛
mathring ˚ overbrace ⏞ underbrace ⏟ underline ¯ underbar ¯ overrightarrow → overleftarrow ← overleftrightarrow ↔
underrightarrow → underleftarrow ←
"""
# Widths of spaces in points; spaces of ten points or more separate like a comma.
SPACES: Mapping[str, float] = {
    "\\,": 1.67,
    "\\:": 2.22,
    "\\>": 2.22,
    "\\;": 2.78,
    "\\!": -1.67,
    "\\ ": 3.33,
    "\\\n": 3.33,
    "\\\t": 3.33,
    "~": 3.33,
    "\\space": 3.33,
    "\\thinspace": 1.67,
    "\\medspace": 2.22,
    "\\thickspace": 2.78,
    "\\enspace": 5.0,
    "\\enskip": 5.0,
    "\\quad": 10.0,
    "\\qquad": 20.0,
}
# Offsets of the styled alphabets of Unicode: capital A, small a, capital and small Greek alpha; 0: none.
_ALPHABETS: Mapping[str, tuple[int, int, int, int]] = {
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
STYLES: Mapping[str, str] = {
    **dict.fromkeys(("\\mathbb", "\\Bbb", "\\mathds"), "double-struck"),
    **dict.fromkeys(("\\mathcal", "\\mathscr", "\\cal", "\\scr", "\\EuScript"), "script"),
    **dict.fromkeys(("\\mathfrak", "\\frak", "\\goth"), "fraktur"),
    **dict.fromkeys(("\\mathbf", "\\bf"), "bold"),
    **dict.fromkeys(("\\boldsymbol", "\\bm", "\\pmb"), "bold-italic"),
    **dict.fromkeys(("\\mathrm", "\\rm", "\\mathup", "\\mathnormal", "\\roman"), "upright"),
    **dict.fromkeys(("\\mathsf", "\\sf"), "sans"),
    **dict.fromkeys(("\\mathtt", "\\tt"), "monospace"),
    **dict.fromkeys(("\\mathit", "\\it"), "italic"),
}
# Commands that set the alphabet up to the end of the group.
SWITCHES = frozenset(("\\cal", "\\scr", "\\frak", "\\goth", "\\bf", "\\rm", "\\sf", "\\tt", "\\it"))
WORDS = frozenset(("upright", "bold", "sans", "monospace", "italic"))  # adjacent letters form one name


def styled(character: str, style: str) -> str:
    """Returns a letter in one of the alphabets of Unicode; any other character as it is."""
    capital, small, greek_capital, greek_small = _ALPHABETS[style]
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


def leaf(label: str) -> Node:
    """Returns a node without arguments."""
    return (label, ())


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    entries = text.split()
    return zip(entries[::2], entries[1::2], strict=True)


def _items() -> dict[str, Item]:
    found: dict[str, Item] = {}
    for role, text in _SYMBOLS.items():
        for name, label in _pairs(text):
            command = "\\" + name if name.isalpha() and name.isascii() else name
            item = (role.value, leaf(label if label[1:2] == "!" else "V!" + label))
            found[command] = item
    for letter in string.ascii_letters:
        found[letter] = (Role.ATOM.value, leaf("V!" + styled(letter, "italic")))
    return found


ITEMS: Mapping[str, Item] = _items()
ACCENTS: Mapping[str, str] = {"\\" + name: "F!" + sign for name, sign in _pairs(_ACCENTS)}

# Commands that affect only the layout, or set the size of the following bracket.
_IGNORED = r"""
\displaystyle \textstyle \scriptstyle \scriptscriptstyle \limits \nolimits \displaylimits \nonumber \notag
\hline \big \Big \bigg \Bigg \bigl \Bigl \biggl \Biggl \bigr \Bigr \biggr \Biggr \bigm \Bigm \biggm \Biggm \middle
\mathstrut \strut \relax \protect \allowbreak \nobreak \break \noindent \tiny \small \normalsize \large \Large
\LARGE \huge \Huge \scriptsize \footnotesize \/ \- \mathopen \mathclose \mathpunct \mathinner \mathord \null
\negthinspace \negmedspace \negthickspace \hfill \hfil \smash \ensuremath \displaybreak \newline \par \centering
\qedhere \qed $
"""
IGNORED = frozenset(_IGNORED.split())
# Infix fractions, written between numerator and denominator.
OVERS = {"\\over": "O!divide", "\\choose": "O!binomial", "\\atop": "F!FRACOP", "\\brace": "F!FRACOP"}
