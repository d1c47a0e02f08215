"""The view `mathberta`: formulas between the tokens that MathBERTa's tokenizer has for them."""

from __future__ import annotations

from typing import Any

import pytest

from harness.collections.corpus import Document
from harness.data.topics import Formula, Topic
from harness.systems.dense import encoder, texts
from harness.systems.dense.bi_encoder import BiEncoder

# The special tokens of github.com/Witiko/scm-at-arqmath3, system/train_extended_tokenizer.py: blanks belong to them.
TOKENS = (" [MATH] ", " [/MATH]")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            r"If $\theta = \pi$, then $\sin(\theta)$ is",
            r"If [MATH] \theta = \pi [/MATH] , then [MATH] \sin(\theta) [/MATH] is",
        ),
        ("by $$x\n= 1$$ and\n\\(y\\)!", "by [MATH] x = 1 [/MATH] and [MATH] y [/MATH] !"),
        ("either $a$ $b$ or $c$", "either [MATH] a b [/MATH] or [MATH] c"),  # one formula; none is closed at the end
        ("$a$ is $b$ ", " [MATH] a [/MATH] is [MATH] b"),  # the token needs the blank before it
        ("  no  formula ", "no formula"),
        ("empty $ $ one", "empty one"),
        ("", ""),
    ],
)
def test_formulas_stand_between_tokens(text: str, expected: str) -> None:
    assert texts.with_math_tokens(text) == expected
    assert texts.of_document(Document("d", "", text), ["body"], "mathberta") == expected
    assert texts.of_topic(Topic("T", "", text), ["body"], "mathberta") == expected


def test_fields_are_joined_before() -> None:
    topic = Topic("T", "Roots of $x$", "$y$ or", formulas=(Formula("q", "z"),))
    assert texts.of_topic(topic, ["title", "body"], "mathberta") == "Roots of [MATH] x y [/MATH] or"
    assert texts.of_topic(topic, ["formulas"], "mathberta") == " [MATH] z"


def test_a_bi_encoder_keeps_the_blank_of_the_first_token() -> None:
    topic = Topic("T", "", "$y$ or")
    assert BiEncoder("b", "m", view="mathberta")._asked(topic) == " [MATH] y [/MATH] or"
    assert BiEncoder("b", "m", view="latex")._asked(topic) == "$y$ or"


@pytest.mark.skipif(bool(encoder.missing()), reason="sentence-transformers is not installed")
@pytest.mark.parametrize("text", ["$a$ is $b$ too", "so $a$, $b$", "let $a$ $b$ be"])
def test_the_tokenizer_finds_its_tokens(text: str) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    unknown = {"unk_token": "?"}
    made: Any = Tokenizer(models.WordLevel({"?": 0}, **unknown))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    made.add_special_tokens(list(TOKENS))
    opens, closes = (made.token_to_id(token) for token in TOKENS)
    for view, count in (("mathberta", text.count("$") // 2 - (" $b$ be" in text)), ("latex", 0)):
        found = made.encode(texts.of_topic(Topic("T", "", text), ["body"], view)).ids
        assert found.count(opens) == count
        assert found.count(closes) == max(count - text.endswith("$"), 0)
