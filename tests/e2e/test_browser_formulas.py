"""The script of the page builds the formulas that Python has converted."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
from case_tables import literals

from harness.render.formulas import to_mathml
from harness.render.html import _Formulas

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytest_plugins = ("browser_tools",)
LATEX = tuple(latex for (latex,) in literals("formulas/built_in_a_page"))
BUILD = """([source, data]) => {
    const make = new Function("data", "MATHML", `${source}; return mathml;`);
    const mathml = make(data, "http://www.w3.org/1998/Math/MathML");
    return data.formulas.map(([latex, display, tree]) => mathml(tree).outerHTML);
}"""


@pytest.mark.slow
def test_formulas(browser: Browser) -> None:
    """Also with elements without content, which are lists of one number."""
    formulas = _Formulas()
    for latex in LATEX:
        formulas.text(f"${latex}$")
    script = (files("harness.render") / "templates/explorer_base.js").read_text(encoding="utf-8")
    begin = script.index("function mathml(")
    source = script[begin : script.index("\n  }\n", begin) + 4]
    page = browser.new_page()
    expected = []
    for latex in LATEX:
        element = to_mathml(latex)
        assert element is not None
        expected.append(ElementTree.tostring(element, encoding="unicode", short_empty_elements=False))
    assert page.evaluate(BUILD, [source, {"formulas": formulas.made, "kinds": list(formulas.kinds)}]) == expected
