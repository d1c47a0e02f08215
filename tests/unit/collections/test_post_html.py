"""LaTeX put back into the form that people type, and the HTML of posts."""

from __future__ import annotations

import html
import re

import pytest
from case_tables import literals
from corpora_tools import mathml, span
from hypothesis import given
from hypothesis import strategies as st

from harness.collections.readers.mse import HTML5, as_typed, post_html


@pytest.mark.parametrize(("latexml", "typed"), literals("collections/post_html_latex_as_it_is_typed"))
def test_latex_as_it_is_typed(latexml: str, typed: str) -> None:
    assert as_typed(latexml) == typed


@given(st.text(alphabet="ab1^_{}\\ &;'p", max_size=30))
def test_nothing_but_braces_and_blanks_of_scripts_goes(latex: str) -> None:
    """Letters, digits and signs stay as they are and in their order, where no other rule applies."""
    if not re.search(r"&|%|\\p|prime", latex):
        assert re.sub(r"[{} ]", "", as_typed(latex)) == re.sub(r"[{} ]", "", latex)


@given(st.text(alphabet="ab<>&\"'x ^{}", max_size=30))
def test_a_formula_is_text_of_the_html(latex: str) -> None:
    made = post_html(span(mathml(html.escape(latex)), "7", "9"), HTML5)
    found = re.fullmatch(r'<span class="math-container" id=7>([^<>]*)</span>', made)
    assert found is not None
    assert html.unescape(found[1]) == as_typed(latex)


def test_what_is_no_formula_stays() -> None:
    post = '<p>&lt;b&gt; "x" &amp;</p>\n<ul><li><a href="/q?a=1&amp;b" title="t">é</a></li></ul><pre> a\n b</pre>'
    assert post_html(f"\n{post}\n", HTML5) == post
    assert post_html("", HTML5) == ""


@pytest.mark.parametrize(("post", "end"), [(HTML5, ">"), (HTML5 - 1, " />")])
def test_empty_elements_end_as_in_posts_of_their_age(post: int, end: str) -> None:
    made = post_html('a<br/>b<hr/><img alt="x" src="/y"/></br>', post)
    assert made == f'a<br{end}b<hr{end}<img src="/y" alt="x"{end}'


def test_a_formula_without_latex_is_an_empty_span() -> None:
    assert post_html('<span class="math-container" id="1"><math><mi>x</mi></math></span>!', HTML5) == (
        '<span class="math-container" id="1"></span>!'
    )
