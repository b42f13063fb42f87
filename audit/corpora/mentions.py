"""Mentions: where a text names a person beside an age, as in "X is a 70-year-old man".

Comes in: a text with names, with placeholders (MIMIC-III, MIMIC-IV, `[NAME]`), or in Japanese.
Goes out: mentions with offsets, and the ages that have none with the reason. Time linear in the
length of the text: only a fixed number of characters beside each age is looked at.

Source: Nakamura et al., section 3.4 ("X is a(n) Y year(s) old (fe)male"). Differs: the published
expression misses placeholders it does not list, middle initials, "Mr. LAST", "LAST, FIRST",
", a 42 year old" and line breaks, and takes "is a 3 day course of" for an age.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from audit.corpora.mention_ages import Age, find_ages, sex_of
from audit.corpora.mention_japanese import find_japanese
from audit.corpora.mention_names import has_relative_before, is_owner, name_before, name_from
from audit.corpora.mention_parts import FoundName
from audit.corpora.mention_record import Mention, Unnamed
from audit.corpora.mention_tokens import Token, may_be_name, tokens_after, tokens_before
from audit.corpora.mention_words import (
    ADVERBS,
    ARTICLES,
    AS,
    COPULAS,
    GENERIC,
    NAMED,
    RELATIVES,
    STAFF_TITLES,
    THINGS,
)

_MODIFIERS = 12  # tokens at most between "a" and the age
_ASIDE = 16  # tokens at most in brackets or between commas
_LINKS = COPULAS | {"as", "be"}
_SENTENCES = ("is_a", "is_old")
_DASHES = frozenset("-–—―")


def find_mentions(text: str, *, known: Collection[str] = ()) -> tuple[Mention, ...]:
    """Find the people who are named beside their age, in the order of the text.

    Parameters
    ----------
    text
        A note.
    known
        Parts of names, as `audit.names.fold_name` gives them, that count as names whatever their
        case, as from a register of patients; for notes without capitals.
    """
    return tuple(found for found in examine(text, known=known) if isinstance(found, Mention))


def examine(text: str, *, known: Collection[str] = ()) -> Iterator[Mention | Unnamed]:
    """Yield, for every age of a person, the mention it belongs to or why there is none."""
    found: list[Mention | Unnamed] = [_subject(text, age, known=known) for age in find_ages(text)]
    found += find_japanese(text)
    last_end = -1
    for each in sorted(found, key=lambda mention: (mention.start, -mention.end)):
        is_again = isinstance(each, Mention) and each.name_start < last_end
        if not is_again:  # "John Smith is a 70-year-old, 70 yo, man" is one mention
            yield each
        if isinstance(each, Mention):
            last_end = max(last_end, each.end)


def _subject(text: str, age: Age, *, known: Collection[str]) -> Mention | Unnamed:
    tokens = tokens_before(text, at=age.start)
    link = _link(tokens, age, known=known)
    reason, span = "none", (age.start, age.start)
    if link is not None:
        form, index, sex = link
        name, index = _name_at(tokens, index, form=form, text=text, known=known)
        sex = age.sex or sex
        if name is not None:
            reason = _refusal(text, tokens, name, form=form, age=age, sex=sex)
            if not reason:
                return _mention(name, age, form=form, sex=sex)
        elif index >= 0:
            reason, span = _no_name(tokens, index)
    if reason in ("generic", "none", "unclear"):
        after = _after(text, age, known=known)
        if after is not None:
            return after
    return Unnamed(age.start, age.description_end, *span, reason)


def _refusal(
    text: str, tokens: Sequence[Token], name: FoundName, *, form: str, age: Age, sex: str
) -> str:
    """Return why a name before an age is not its subject; "" where it is."""
    if has_relative_before(tokens, first_token=name.first_token):
        return "relative"
    if name.is_stub:
        return "stub"
    if form in _SENTENCES:
        is_others = is_owner(tokens, first_token=name.first_token)
        is_thing = not sex and _next_word(text, at=age.end) in THINGS
        if is_others or is_thing or name.last.endswith(("'s", "’s")):
            return "unclear"
    return "" if _will_do(name, form=form, age=age, sex=sex) else "unclear"


def _next_word(text: str, *, at: int) -> str:
    return re.split(r"\W", text[at : at + 30].lstrip(" -\n"), maxsplit=1)[0].lower()


def _link(
    tokens: Sequence[Token], age: Age, *, known: Collection[str]
) -> tuple[str, int, str] | None:
    """Return the form, the index of the subject's last token, and a sex said on the way."""
    index = _before_age_word(tokens, age)
    article, sex = _article(tokens, index, known=known)
    has_article = article is not None and tokens[article].folded in ARTICLES
    if article is not None:
        index = article - 1 if has_article else article
    index = _skipped(tokens, index)
    if index < 0:
        return None
    mark = tokens[index].text
    if tokens[index].folded in (_LINKS if has_article else COPULAS):
        while index >= 0 and tokens[index].folded in COPULAS | AS:
            index = _skipped(tokens, index - 1)
        while index >= 0 and (
            tokens[index].folded in ("who", "that") or tokens[index].text in _DASHES
        ):
            index -= 1
        return ("is_a" if has_article else "is_old"), index, sex
    if mark == ",":
        return ("appositive" if has_article else "comma"), index - 1, sex
    if mark == "(":
        return "bracket", index - 1, sex
    if mark in _DASHES:
        while index >= 0 and tokens[index].text in _DASHES:
            index -= 1
        return "dash", index, sex
    return None if has_article or tokens[-1].kind == "line" else ("direct", index, sex)


def _before_age_word(tokens: Sequence[Token], age: Age) -> int:
    index = len(tokens) - 1
    while age.is_aged and index >= 0 and tokens[index].folded in (":", "age", "aged"):
        index -= 1
    return index


def _article(
    tokens: Sequence[Token], index: int, *, known: Collection[str]
) -> tuple[int | None, str]:
    """Return the index of the article before an age, or of the verb where there is none."""
    sex = ""
    for back in range(index, max(-1, index - _MODIFIERS), -1):
        token = tokens[back]
        if token.kind in ("line",) or token.text in (",", "-", "'"):
            continue
        if token.kind == "initial" and token.folded == "a":  # "JOHN SMITH IS A 70 YEAR OLD"
            return back, sex
        if token.kind != "word" or may_be_name(token, known=known):
            break
        if token.folded in ARTICLES or token.folded in COPULAS:
            return back, sex
        sex = sex or sex_of(token.text)
    return None, ""


def _skipped(tokens: Sequence[Token], index: int) -> int:
    while index >= 0 and (tokens[index].kind == "line" or tokens[index].folded in ADVERBS):
        index -= 1
    return index


def _name_at(
    tokens: Sequence[Token], index: int, *, form: str, text: str, known: Collection[str]
) -> tuple[FoundName | None, int]:
    """Return the name that ends at a token, or before an aside in brackets or commas."""
    index = _skipped(tokens, index)
    if index < 0:
        return None, index
    if tokens[index].text in (")", "]"):
        opened = _back_to(tokens, index - 1, "([")
        if opened > 0:
            outer = name_before(tokens, last=opened - 1, text=text, known=known)
            inner = name_before(tokens, last=index - 1, text=text, known=known)
            is_inside = inner is not None and inner.first_token > opened and outer is None
            return (inner if is_inside else outer), opened - 1
    if tokens[index].text == ",":
        index = _skipped(tokens, index - 1)
        found = name_before(tokens, last=index, text=text, known=known) if index >= 0 else None
        comma = _back_to(tokens, index, ",") if form in _SENTENCES else -1
        is_aside = found is None or tokens[comma + 1].text.islower()
        if comma > 0 and is_aside:  # "X, a patient of Dr. Y, is", "X, MRN 12, is"
            outer = name_before(tokens, last=comma - 1, text=text, known=known)
            if outer is not None and not is_owner(tokens, first_token=outer.first_token):
                return outer, comma - 1
        return found, index
    return name_before(tokens, last=index, text=text, known=known), index


def _back_to(tokens: Sequence[Token], index: int, marks: str) -> int:
    for back in range(index, max(-1, index - _ASIDE), -1):
        if tokens[back].kind == "empty" or tokens[back].text in (".", ";"):
            return -1
        if tokens[back].kind == "mark" and tokens[back].text in marks:
            return back
    return -1


def _will_do(name: FoundName, *, form: str, age: Age, sex: str) -> bool:
    is_strong = name.n_parts == 2 or bool(name.title) or name.is_placeholder
    if form == "is_a" and not age.is_short:
        return is_strong or (bool(sex) and not (name.is_capitals and len(name.last) < 4))
    if form == "is_old" and not age.is_short:
        return is_strong or bool(sex)
    if name.title in STAFF_TITLES and form not in ("is_a", "is_old"):
        return False  # "seen by Dr. Jones, 45 yo man with"
    if form in ("dash", "direct") and name.is_capitals and not (name.title or name.is_placeholder):
        return name.roles == ("last", "first")  # headings are capitals too
    return is_strong


def _no_name(tokens: Sequence[Token], index: int) -> tuple[str, tuple[int, int]]:
    token = tokens[index]
    if token.folded.removesuffix("'s") in RELATIVES:
        return "relative", (token.start, token.start)
    if token.folded in GENERIC:
        start = index
        if start and tokens[start - 1].folded in ARTICLES and token.folded not in ("this", "that"):
            start -= 1
        return "generic", (tokens[start].start, token.end)
    is_unclear = token.kind in ("word", "initial") and token.text[0].isupper()
    return ("unclear" if is_unclear else "none"), (token.start, token.start)


def _after(text: str, age: Age, *, known: Collection[str]) -> Mention | None:
    """Find the name behind an age: "a 70-year-old man, John Smith,", "70-year-old Mr. Smith"."""
    tokens = tokens_after(text, at=age.end)
    name, _ = name_from(tokens, at=0, known=known)
    if name is not None and name.title and name.title not in STAFF_TITLES and not name.is_stub:
        sex = "" if age.description_end > name.start else age.sex
        return _mention(name, age, form="after_direct", sex=sex)
    tokens = tokens_after(text, at=age.description_end)
    form, index = _link_after(tokens)
    name, behind = name_from(tokens, at=index, known=known)
    if name is None or name.is_stub or name.title in STAFF_TITLES:
        return None
    is_strong = name.n_parts == 2 or bool(name.title) or form == "after_named"
    is_shouted = name.is_capitals and text[age.start : age.description_end].isupper()
    if not is_strong or (is_shouted and form != "after_named"):
        return None
    following = tokens[behind] if behind < len(tokens) else None
    if following is not None and not _may_follow(following, name):
        return None
    return _mention(name, age, form=form, sex=age.sex)


def _link_after(tokens: Sequence[Token]) -> tuple[str, int]:
    index, form = 0, "after_direct"
    while index < len(tokens) and tokens[index].kind == "line":
        index += 1
    if index < len(tokens) and tokens[index].text in (",", "(", *_DASHES):
        form = "after_bracket" if tokens[index].text == "(" else "after_comma"
        index += 1
    words = [token.folded for token in tokens[index : index + 4]]
    if words and words[0] in NAMED:
        return "after_named", index + 1
    if words == ["by", "the", "name", "of"]:
        return "after_named", index + 4
    return form, index


def _may_follow(token: Token, name: FoundName) -> bool:
    if token.kind in ("number", "initial", "placeholder") or token.text == "'":
        return False
    if token.kind == "word":
        return not token.text[0].isupper() or name.is_capitals
    return not name.last.endswith(("'s", "’s"))


def _mention(name: FoundName, age: Age, *, form: str, sex: str) -> Mention:
    return Mention(
        start=min(name.start, age.start),
        end=max(name.end, age.description_end),
        name_start=name.start,
        name_end=name.end,
        first=name.first,
        last=name.last,
        roles=name.roles,
        title=name.title,
        age_years=age.years,
        sex=sex,
        form=form,
        is_placeholder=name.is_placeholder,
    )
