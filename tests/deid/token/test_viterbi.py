"""Tags: what a scheme allows, and the best sequence against a search through all of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.deid.network.decode import BILOU, BIO, SCHEMES, TagScheme, best_tags

LABELS = ("x", "y")
KINDS = st.sampled_from(SCHEMES)


@st.composite
def runs(draw: st.DrawFn) -> tuple[int, list[tuple[int, int, str]]]:
    found, at = [], 0
    for _ in range(draw(st.integers(0, 4))):
        first = at + draw(st.integers(0, 3))
        end = first + draw(st.integers(1, 4))
        found.append((first, end, draw(st.sampled_from(LABELS))))
        at = end
    return at + draw(st.integers(0, 3)), found


def allowed(tags: tuple[int, ...], scheme: TagScheme) -> bool:
    """What a scheme allows, said a second time: its text matches the grammar of its runs."""
    at, names = 0, [scheme.tags[tag] for tag in tags]
    while at < len(names):
        part, _, label = names[at].partition("-")
        at += 1
        if part in "OU":
            continue
        if part != "B":
            return False
        while at < len(names) and names[at] == f"I-{label}":
            at += 1
        if scheme.kind == BILOU:
            if at == len(names) or names[at] != f"L-{label}":
                return False
            at += 1
    return True


@given(runs(), KINDS)
def test_runs_come_back_from_their_tags_and_the_tags_are_allowed(given_runs, kind):
    n, wanted = given_runs
    scheme = TagScheme(LABELS, kind)
    tags = scheme.encode(wanted, n_tokens=n)
    assert scheme.decode(tags) == wanted
    assert allowed(tuple(tags.tolist()), scheme)


@pytest.mark.parametrize("kind", SCHEMES)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_tables_of_a_scheme_allow_what_its_grammar_allows(kind, n):
    scheme = TagScheme(LABELS, kind)
    for tags in itertools.product(range(len(scheme.tags)), repeat=n):
        by_tables = all(scheme.may_follow[a, b] for a, b in itertools.pairwise((0, *tags, 0)))
        assert by_tables == allowed(tags, scheme)


@settings(max_examples=60, deadline=None)
@given(st.data(), KINDS, st.floats(-2, 2))
def test_the_best_tags_are_those_of_a_search_through_all(data, kind, bias):
    scheme = TagScheme(LABELS, kind)
    n = data.draw(st.integers(1, 4))
    numbers = st.integers(-40, 40).map(lambda i: i / 4)
    rows = st.lists(numbers, min_size=len(scheme.tags), max_size=len(scheme.tags))
    scores = np.array(data.draw(st.lists(rows, min_size=n, max_size=n)), dtype=np.float32)

    def worth(tags) -> float:
        return sum(float(scores[i, tag]) + (bias if tag else 0.0) for i, tag in enumerate(tags))

    every = itertools.product(range(len(scheme.tags)), repeat=n)
    best = max(worth(tags) for tags in every if allowed(tags, scheme))
    (found,) = best_tags([scores], scheme=scheme, bias=bias)
    assert allowed(tuple(found.tolist()), scheme)
    assert worth(found.tolist()) == pytest.approx(best, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.integers(0, 1000))
def test_texts_together_have_the_tags_that_each_has_alone(lengths, seed):
    scheme = TagScheme(LABELS, BIO)
    rng = np.random.default_rng(seed)
    texts = [rng.integers(0, 3, (n, len(scheme.tags))).astype(np.float32) for n in lengths]
    together = best_tags(texts, scheme=scheme)
    for one, scores in zip(together, texts, strict=True):
        (alone,) = best_tags([scores], scheme=scheme)
        assert one.tolist() == alone.tolist() and len(one) == len(scores)


@pytest.mark.parametrize("kind", SCHEMES)
def test_a_long_text_without_a_find_stays_without_one_and_a_bias_finds_more(kind):
    scheme = TagScheme(LABELS, kind)
    scores = np.zeros((30_000, len(scheme.tags)), dtype=np.float32)
    scores[:, 0] = 1.0
    (none,) = best_tags([scores], scheme=scheme)
    (all_of_it,) = best_tags([scores], scheme=scheme, bias=1.5)
    assert not none.any() and all_of_it.all()


def test_a_scheme_needs_labels_each_once():
    for labels in ((), ("x", "x")):
        with pytest.raises(ValueError, match="labels"):
            TagScheme(labels)
