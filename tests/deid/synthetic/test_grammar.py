"""Grammars: how alternatives are read, what is refused, and that the shipped ones are whole."""

from __future__ import annotations

import re

import pytest

from audit.deid.synthetic.grammar import (
    Choice,
    Dice,
    Number,
    Piece,
    Reference,
    Value,
    Writer,
    grammar,
    grammar_of,
    rules_of,
    template_of,
)


def test_an_alternative_is_read_in_pieces() -> None:
    template = template_of("体温{#35.8-39.9}℃<、{vital}||{@age}>{*lab 2-5}")
    assert template == (
        "体温",
        Number(358, 399, 1),
        "℃",
        Choice((("、", Reference("vital", 1, 1)), (), (Value("age"),))),
        Reference("lab", 2, 5),
    )


def test_choices_may_stand_in_choices() -> None:
    assert template_of("<a|<b|c>>") == (Choice((("a",), (Choice((("b",), ("c",))),))),)


@pytest.mark.parametrize("text", ["<a|b", "a>b", "{a", "a}b", "{a b}", "{*a}", "{#1-}"])
def test_a_broken_alternative_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"bracket|braces|slot"):
        template_of(text)


def test_the_three_kinds_of_rules() -> None:
    text = "# words\n~ a\nx y\nz\n= b\none two\n# no\nthree\\nfour\n== c\nfirst\nline\n--\nsecond\n"
    assert dict(rules_of(text)) == {
        "a": ("x", "y", "z"),
        "b": ("one two", "three\nfour"),
        "c": ("first\nline", "second"),
    }


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        (["= a\nx", "= a\ny"], "twice"),
        (["= a\n= b\nx"], "no alternatives"),
    ],
)
def test_a_broken_grammar_is_refused(texts: list[str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        grammar_of(texts)


def _written(text: str, *, seed: int = 0, field: str = "", joiner: str = "") -> str:
    rules = grammar_of([text])
    dice = Dice(seed, "test")
    writer = Writer(rules, dice=dice, value_of=Piece, field=field, joiner=joiner)
    writer.write("a")
    return "".join(piece.text for piece in writer.pieces)


def test_numbers_reach_both_ends_and_no_further() -> None:
    found = {_written("= a\n{#8-11}", seed=seed) for seed in range(200)}
    assert found == {"8", "9", "10", "11"}
    decimals = {_written("= a\n{#0.9-1.1}", seed=seed) for seed in range(200)}
    assert decimals == {"0.9", "1.0", "1.1"}


def test_a_series_says_nothing_twice_while_others_are_left() -> None:
    for seed in range(50):
        words = _written("= a\n{*b 2-2}\n= b\np\nq", seed=seed, joiner=" ").split()
        assert sorted(words) in (["p", "q"], ["p", "p"], ["q", "q"])
    both = sum(
        len(set(_written("= a\n{*b 2-2}\n= b\np\nq", seed=seed, joiner=" ").split())) == 2
        for seed in range(300)
    )
    assert both > 280  # six tries: one in 64 fails


def test_a_field_has_its_own_words() -> None:
    text = "= a\n{b}{c}\n= b\nanything\n= b.heart\npain\n= c\n!"
    assert _written(text, field="heart") == "pain!"
    assert _written(text, field="skin") == "anything!"


def test_rules_without_an_end_are_noticed() -> None:
    with pytest.raises(ValueError, match="without an end"):
        _written("= a\n{a}")


@pytest.mark.parametrize("language", ["ja", "en"])
def test_every_rule_that_is_named_is_there(language: str) -> None:
    rules = grammar(language)
    text = "\n".join(str(templates) for templates in rules.values())
    assert set(re.findall("rule='([^']+)'", text)) <= rules.keys()


@pytest.mark.parametrize("language", ["ja", "en"])
def test_every_rule_can_be_reached(language: str) -> None:
    rules = grammar(language)
    text = "\n".join(str(templates) for templates in rules.values())
    starts = ("style.", "held_out.")
    unused = [
        name
        for name in rules
        if not name.startswith(starts)
        and f"rule='{name}'" not in text
        and f"rule='{name.rpartition('.')[0]}'" not in text
    ]
    assert unused == []
