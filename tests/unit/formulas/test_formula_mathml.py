"""MathML read into trees, by hand-made cases, and markup that is broken or hostile."""

from __future__ import annotations

import pytest
from formula_tools import check, mutated
from hypothesis import given
from hypothesis import strategies as st

from harness.formulas.mathml.read import read_content, read_presentation
from harness.formulas.trees.reading import Counts, count
from harness.formulas.trees.tree import show


def layout(inner: str) -> str:
    reading = read_presentation(f"<math>{inner}</math>")
    assert reading.reason == ""
    check(reading.tree)
    return show(reading.tree)


def operators(inner: str) -> str:
    reading = read_content(f'<math xmlns="http://www.w3.org/1998/Math/MathML">{inner}</math>')
    assert reading.reason == ""
    check(reading.tree)
    return show(reading.tree)


X, Y, TWO = "<mi>x</mi>", "<mi>y</mi>", "<mn>2</mn>"
SUM = f"<mrow>{X}<mo>+</mo>{Y}</mrow>"


@pytest.mark.parametrize(
    ("markup", "tree"),
    [
        (f"<mrow>{X}<mo>=</mo>{TWO}</mrow>", "[V!x[=[N!2]]]"),
        (f"<semantics>{X}<annotation>x</annotation></semantics>", "[V!x]"),
        # Invisible operators and white space are left out of rows.
        (f"<mrow>{TWO}<mo>\u2062</mo><mspace/><mtext> </mtext>{X}</mrow>", "[N!2[V!x]]"),
        ("<mtext> if and  only </mtext>", "[T!if and  only]"),
        (f"<msup>{X}{TWO}</msup>", "[V!x,a[N!2]]"),
        (f"<msubsup>{X}{Y}{TWO}</msubsup>", "[V!x,a[N!2],b[V!y]]"),
        # Scripts of operators are over and under, whichever element has them.
        ("<msubsup><mo>∑</mo><mi>n</mi><mi>m</mi></msubsup>", "[∑,o[V!m],u[V!n]]"),
        ("<munderover><mo>∑</mo><mi>n</mi><mi>m</mi></munderover>", "[∑,o[V!m],u[V!n]]"),
        (f"<mover>{X}<mo>¯</mo></mover>", "[V!x,o[¯]]"),
        # A base of several symbols, or one that has such a script already, is a matrix of one cell.
        (f"<msup>{SUM}{TWO}</msup>", "[M!1x1,a[N!2],w[V!x[+[V!y]]]]"),
        (f"<msup><msup>{X}{Y}</msup>{TWO}</msup>", "[M!1x1,a[N!2],w[V!x,a[V!y]]]"),
        (f"<msup><msub>{X}{Y}</msub>{TWO}</msup>", "[V!x,a[N!2],b[V!y]]"),
        (f"<msup><mrow/>{TWO}</msup>", "[W!,a[N!2]]"),
        (f"<mfrac>{X}{TWO}</mfrac>", "[O!divide,o[V!x],u[N!2]]"),
        (f"<msqrt>{X}{TWO}</msqrt>", "[O!root,w[V!x[N!2]]]"),
        (f"<mroot>{X}<mn>3</mn></mroot>", "[O!root,c[N!3],w[V!x]]"),
        # Brackets make a matrix of what their commas separate; the comma stays with what is before it.
        (f"<mrow><mo>(</mo>{SUM}<mo>)</mo></mrow>", "[M!()1x1,w[V!x[+[V!y]]]]"),
        (f"<mrow><mo>[</mo>{X}<mo>,</mo>{Y}<mo>)</mo></mrow>", "[M!&lsqb;)1x2,w[V!x[&comma;],e[V!y]]]"),
        (f"<mrow><mo>(</mo><mrow>{X}<mo>,</mo>{Y}</mrow><mo>)</mo></mrow>", "[M!()1x2,w[V!x[&comma;],e[V!y]]]"),
        (f"<mrow><mo>(</mo><mo>,</mo>{Y}<mo>)</mo></mrow>", "[M!()1x2,w[W![&comma;],e[V!y]]]"),
        # Commas of a row within are not those of the brackets, if there is more in them.
        (f"<mrow><mo>(</mo><mrow>{X}<mo>,</mo>{Y}</mrow><mo>|</mo>{X}<mo>)</mo></mrow>",
         "[M!()1x1,w[V!x[&comma;[V!y[|[V!x]]]]]]"),
        (f"<mrow><mo>⟨</mo>{X}<mo>⟩</mo></mrow>", "[⟨[V!x[⟩]]]"),
        ("<mrow><mo>(</mo><mo>)</mo></mrow>", "[([)]]"),
        (f"<mfenced open='[' close=']' separators=','>{X}{Y}</mfenced>", "[M!&lsqb;&rsqb;1x2,w[V!x[&comma;],e[V!y]]]"),
        (f"<mtable><mtr><mtd>{X}</mtd><mtd/></mtr><mtr><mtd>{Y}</mtd><mtd>{TWO}</mtd></mtr></mtable>",
         "[M!2x2,w[V!x,e[W!,e[V!y,e[N!2]]]]]"),
        (f"<mrow><mo>(</mo><mtable><mtr><mtd>{X}</mtd></mtr></mtable><mo>)</mo></mrow>", "[M!()1x1,w[V!x]]"),
        (f"<mmultiscripts>{X}<mn>1</mn><none/><mprescripts/><none/>{TWO}</mmultiscripts>", "[V!x,b[N!1],c[N!2]]"),
        (f"<menclose notation='box'>{X}</menclose>", "[box,w[V!x]]"),
        # Scripts of a wrong number stand in a row.
        (f"<msup>{X}{Y}{TWO}</msup>", "[V!x[V!y[N!2]]]"),
        ("<mo><</mo>", "[<]"),
        ("<mo>&lt;</mo>", "[<]"),
        ("<mo>&#x2264;</mo>", "[≤]"),
        ("<m:mi xmlns:m='x'>x</m:mi>", "[V!x]"),
        (f"<!-- {Y} -->{X}", "[V!x]"),
    ],
)  # fmt: skip
def test_presentation(markup: str, tree: str) -> None:
    assert layout(markup) == tree


A, B, ONE = "<ci>a</ci>", "<ci>b</ci>", '<cn type="integer">1</cn>'


def symbol(name: str, dictionary: str = "latexml") -> str:
    return f'<csymbol cd="{dictionary}">{name}</csymbol>'


@pytest.mark.parametrize(
    ("markup", "tree"),
    [
        (f"<apply><plus/>{A}{ONE}</apply>", "[U!plus,0[V!a],1[N!1]]"),
        (f"<apply><minus/>{A}</apply>", "[O!minus,0[V!a]]"),
        (f"<apply><sin/>{A}</apply>", "[F!sin,0[V!a]]"),
        (f"<apply><determinant/>{A}</apply>", "[F!det,0[V!a]]"),
        (f"<apply><apply>{symbol('superscript', 'ambiguous')}<sin/>{ONE}</apply>{A}</apply>",
         "[+!F!sin,0[O!SUP,0[F!sin],1[N!1]],1[V!a]]"),
        (f"<apply><apply><plus/>{A}{B}</apply>{ONE}</apply>", "[+!,0[U!plus,0[V!a],1[V!b]],1[N!1]]"),
        # A variable that is applied is a function.
        (f"<apply><ci>→</ci>{A}<infinity/></apply>", "[F!→,0[V!a],1[C!infinity]]"),
        (f"<apply><root/>{A}</apply>", "[O!root,0[V!a],1[N!2]]"),
        (f"<apply><root/><degree>{B}</degree>{A}</apply>", "[O!root,0[V!a],1[V!b]]"),
        (f"<apply><int/>{A}</apply>", "[O!int,0[V!a],1[W!],2[W!]]"),
        (f"<apply>{symbol('differential-d')}{A}</apply>", "[F!d,0[V!a]]"),
        (f"<apply>{symbol('norm')}{A}</apply>", "[O!norm,0[V!a]]"),
        (f"<apply>{symbol('for-all')}{A}</apply>", "[O!forall,0[V!a]]"),
        # Tangent-S takes one character too many from what it has escaped.
        (f"<apply>{symbol('delimited-[]')}{A}</apply>", "[M!D-lsqb;&rsqb;,0[V!a]]"),
        (f"<apply>{symbol('delimited-⟨⟩')}{A}</apply>", "[M!D-⟩,0[V!a]]"),
        (symbol("absent"), "[W!]"),
        (f"<interval closure='open-closed'>{A}{B}</interval>", "[O!interval(O-C),0[V!a],1[V!b]]"),
        (f"<interval>{A}{B}</interval>", "[O!interval(C-C),0[V!a],1[V!b]]"),
        (f"<set>{A}{B}</set>", "[M!S-2,0[V!a],1[V!b]]"),
        (f"<vector>{A}</vector>", "[M!V-1,0[V!a]]"),
        (f"<list>{A}{B}</list>", "[M!L-2,0[V!a],1[V!b]]"),
        (f"<matrix><matrixrow>{A}{B}</matrixrow><matrixrow>{A}</matrixrow></matrix>",
         "[M!M-2x2,0[M!R!,0[V!a],1[V!b]],1[M!R!,0[V!a],1[E!]]]"),
        # Text is no name of a variable.
        ("<ci><mtext>if</mtext></ci>", "[W!]"),
        (f"<apply><times/><ci><mrow><mi>x</mi></mrow></ci>{A}</apply>", "[U!times,0[W!],1[V!a]]"),
        # Words of an error are put together, its numbers and operators are not.
        (f"<cerror>{symbol('fragments')}{symbol('d', 'unknown')}{symbol('X', 'unknown')}{ONE}<plus/></cerror>",
         "[E!,0[O!fragments],1[T!dx],2[N!1],3[U!plus]]"),
        # Numbers in parts are the expressions that they stand for.
        ("<cn type='rational'>1<sep/>2</cn>", "[O!divide,0[N!1],1[N!2]]"),
        ("<cn type='rational'> 1 <!-- of --> <sep/> 2 </cn>", "[O!divide,0[N!1],1[N!2]]"),
        ("<cn type='e-notation'>6.02<sep/>23</cn>", "[U!times,0[N!6.02],1[O!SUP,0[N!10],1[N!23]]]"),
        ("<cn type='complex-cartesian'>1<sep/>-2</cn>", "[U!plus,0[N!1],1[U!times,0[N!-2],1[C!imaginaryi]]]"),
        ("<cn type='complex-polar'>2<sep/>3</cn>",
         "[U!times,0[N!2],1[O!SUP,0[O!exponentiale],1[U!times,0[C!imaginaryi],1[N!3]]]]"),
        ("<cn base='16'>FF</cn>", "[N!255]"),
        ("<cn><![CDATA[12]]></cn>", "[N!12]"),
        ("<cn> <![CDATA[1]]>2</cn>", "[N!12]"),
        ("<cn type='rational'><![CDATA[1]]><sep/><![CDATA[2]]></cn>", "[O!divide,0[N!1],1[N!2]]"),
        ("<cn type='rational'>1<sep/>&#50;</cn>", "[O!divide,0[N!1],1[N!2]]"),
        ("<ci><![CDATA[<b>&lt;]]></ci>", "[V!<b>&lt;]"),
        ("<ci>x<?app of no interest?></ci>", "[V!x]"),
        ("<cn base=' 16 '>1F</cn>", "[N!31]"),
        ("<cn type='rational' base='2'>-1<sep/>101</cn>", "[O!divide,0[N!-1],1[N!5]]"),
        ("<cn><mn>5</mn></cn>", "[N!5]"),
        ("<ci><mi>x</mi></ci>", "[V!x]"),
        ("<cs>x+y</cs>", "[T!x+y]"),
        (f"<bind>{symbol('forall', 'quant1')}<bvar>{A}</bvar>{A}</bind>", "[O!forall,0[$!bvar,0[V!a]],1[V!a]]"),
        (f"<apply>{symbol('plus', 'arith1')}{A}{B}</apply>", "[U!plus,0[V!a],1[V!b]]"),
        # References by id.
        (f"<apply><and/><apply><eq/>{A}<ci id='b'>b</ci></apply><apply><lt/><ci>q</ci><ci>r</ci></apply>"
         "<apply><eq/><share href='#b'/><ci>c</ci></apply></apply>",
         "[U!and,0[U!eq,0[V!a],1[V!b]],1[O!lt,0[V!q],1[V!r]],2[U!eq,0[V!b],1[V!c]]]"),
        (f"<apply><plus/><apply xml:id='s'><sin/>{A}</apply><share href='#s'/></apply>",
         "[U!plus,0[F!sin,0[V!a]],1[F!sin,0[V!a]]]"),
        ("<apply><plus/><apply><ci id='f'>f</ci><ci>x</ci></apply><share href='#f'/></apply>",
         "[U!plus,0[F!f,0[V!x]],1[V!f]]"),
        # In a chain of relations an argument stands for the last one of the relation before.
        (f"<apply><and/><apply><eq/>{A}{B}</apply><apply><lt/><share href='#.cmml'/>{ONE}</apply></apply>",
         "[U!and,0[U!eq,0[V!a],1[V!b]],1[O!lt,0[V!b],1[N!1]]]"),
        (f"<semantics><mi>x</mi><annotation-xml encoding='MathML-Content'>{A}</annotation-xml></semantics>", "[V!a]"),
        (f"<semantics>{A}<annotation-xml encoding='MathML-Presentation'><mi>x</mi></annotation-xml></semantics>",
         "[V!a]"),
    ],
)  # fmt: skip
def test_content(markup: str, tree: str) -> None:
    assert operators(markup) == tree


def test_many_commuting_arguments_are_halved() -> None:
    assert operators(f"<apply><plus/>{A * 62}</apply>").count("U!plus") == 1
    halved = operators(f"<apply><plus/>{A * 63}</apply>")
    assert halved.startswith("[U!plus,0[U!plus,0[V!a]")
    assert halved.count("V!a") == 63
    assert halved.count("U!plus") == 3


FAULTS = [
    ("", "the markup cannot be read"),
    ("x", "the markup cannot be read"),
    ("<math><mi>x</math>", "the markup cannot be read"),
    ("<math><mi>x</mi>", "the markup cannot be read"),
    ("<math><!-- x", "the markup cannot be read"),
    ('<!DOCTYPE math [<!ENTITY a "b">]><math><mi>&a;</mi></math>', "a document type or entity is declared"),
    ("<math>" + "<mrow>" * 200 + "</mrow>" * 200 + "</math>", "deeper than 200 levels"),
    ("<math><mrow/></math>", "no formula"),
]


@pytest.mark.parametrize(("markup", "reason"), FAULTS)
def test_what_cannot_be_read_is_an_error_with_its_reason(markup: str, reason: str) -> None:
    reading = read_presentation(markup)
    assert (show(reading.tree), reading.reason) == ("[E!]", reason)


def test_faults_in_part_of_a_formula_keep_the_rest() -> None:
    reading = read_presentation(f"<math><mrow>{X}<video>{Y}</video></mrow></math>")
    assert (show(reading.tree), reading.reason) == ("[V!x[E!,w[V!y]]]", "unknown element video")
    reading = read_presentation(f"<math><mrow>{X}<merror><mtext>\\gt</mtext></merror></mrow></math>")
    assert (show(reading.tree), reading.reason) == ("[V!x[E!]]", "marked as an error by its source")
    reading = read_content(f"<math><apply><plus/>{A}<video>x</video></apply></math>")
    assert (show(reading.tree), reading.reason) == ("[U!plus,0[V!a],1[E!]]", "unknown element video")
    assert read_content(f"<math>{A}{B}</math>").reason == "more than one formula"
    assert read_content("<math></math>").reason == "no formula"
    assert read_content("<math><apply></apply></math>").reason == "an application of nothing"


@pytest.mark.parametrize(
    ("markup", "reason"),
    [
        ("<cn type='e-notation'>1<sep/></cn>", "a number of type e-notation that is not understood"),
        ("<cn type='real'>1<sep/>2</cn>", "a number of type real that is not understood"),
        ("<cn type='rational'>1<sep/>2<sep/>3</cn>", "a number of type rational that is not understood"),
        ("<cn type='hexdouble'>7FF0</cn>", "a number of type hexdouble that is not understood"),
        ("<cn base='16'>F.8</cn>", "a number of base 16 that is not understood"),
        *((f"<cn base='{base}'>{text}</cn>", f"a number of base {base} that is not understood")
          for base, text in (("0", "0x1F"), ("0", "12"), ("1", "0"), ("37", "12"), ("-2", "1"), ("b", "1"),
                             ("1_6", "1"), ("2", "2"), ("2", "1_0"), ("9" * 9, "1"), ("８", "1"), ("16", "1 F"))),
        ("<ci><msub><mi>x</mi><mn>1</mn></msub></ci>", "a name with scripts or other structure"),
        (f"<apply><plus/>{A}<share href='#x'/></apply>", "a reference to nothing"),
        (f"<apply id='x'><plus/>{A}<share href='#x'/></apply>", "a reference to nothing"),
        ("<apply><plus/><ci id='x'>x</ci><share href='a.xml#x'/></apply>", "a reference to nothing"),
        (f"<apply><and/><apply><eq/><ci id='x'>x</ci>{A}</apply><apply><eq/><share href='#y'/>{A}</apply></apply>",
         "a reference to nothing"),
        ("<semantics><mi>x</mi><annotation-xml encoding='MathML-Content'><foo/>x</annotation-xml></semantics>", ""),
    ],
)  # fmt: skip
def test_content_that_is_not_understood_says_why(markup: str, reason: str) -> None:
    assert read_content(f"<math>{markup}</math>").reason == reason


def test_entities_of_html_are_characters_and_no_others_are_known() -> None:
    assert layout("<mi>&alpha;&nosuchthing;</mi>") == "[V!α&nosuchthing;]"


def test_references_cannot_grow_without_bound() -> None:
    markup = f"<list>{A}{B}</list>"
    for _ in range(60):
        markup = f"<apply><and/>{markup}<list><share/><share/></list></apply>"
    reading = read_content(f"<math>{markup}</math>")
    assert (show(reading.tree), reading.reason) == ("[E!]", "references that repeat themselves")


def test_counts_name_every_failure() -> None:
    readings = [read_presentation(markup) for markup, _ in FAULTS] + [read_presentation(f"<math>{X}</math>")] * 3
    assert count(readings) == Counts(
        3,
        {
            "the markup cannot be read": 5,
            "a document type or entity is declared": 1,
            "deeper than 200 levels": 1,
            "no formula": 1,
        },
    )


PIECES = [
    "<mi>x</mi>",
    "<mrow>",
    "</mrow>",
    "<msup>",
    "</msup>",
    "<mo>(</mo>",
    "<mo>)</mo>",
    "<mo>,</mo>",
    "<",
    ">",
    "&",
]
PIECES += [
    "<apply>",
    "</apply>",
    "<plus/>",
    "<ci>a</ci>",
    "<share/>",
    "<math>",
    "</math>",
    "<mtr>",
    "</mtr>",
    "<mtable>",
]
PIECES += [
    "</mtable>",
    "<none/>",
    "<mprescripts/>",
    "<mmultiscripts>",
    "</mmultiscripts>",
    '"',
    "<!--",
    "-->",
    "<root/>",
]


def test_broken_markup_never_raises() -> None:
    whole = f"<math><mrow>{SUM}<msup><mo>(</mo>{X}<mo>)</mo></msup></mrow><apply><root/>{A}</apply></math>"
    for markup in mutated([whole], PIECES, 1_500, seed=1):
        for reading in (read_presentation(markup), read_content(markup), read_presentation(f"<math>{markup}</math>")):
            check(reading.tree)


@given(st.text(alphabet="<>/&;\"' =abmirow!-?[]", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    check(read_presentation(text).tree)
    check(read_content(text).tree)


@pytest.mark.slow
def test_large_input_is_read() -> None:
    big = f"<math><mrow>{X * 50_000}</mrow></math>"
    assert len(read_presentation(big).tree) == 50_000
    for piece in ("<!--", '<a b="', "<mi", "<", "&amp", "<mrow>", "</mrow>", "<mi a='"):
        assert read_presentation("<math>" + piece * 50_000).reason
