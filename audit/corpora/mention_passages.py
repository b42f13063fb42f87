"""Patient-name patterns: mentions whose owner is known, with the five sentences that begin there.

Comes in: a note as it is in D_private and in D_public, where names were put in or taken out, who
they are. Goes out: patterns, each with its `Passage` for scenario 2. One note at a time, so that
notes can be read as a stream and by several workers.

Source: Nakamura et al., sections 3.4 and 4.2.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from audit.corpora.mention_record import Mention
from audit.corpora.mention_tokens import PLACEHOLDER
from audit.corpora.mention_truth import NotePair, Piece, TrueName
from audit.corpora.mentions import find_mentions
from audit.corpora.name_slots import find_name_slot
from audit.corpora.passages import Passage
from audit.corpora.sentences import end_of_sentences, start_of_sentence

N_SENTENCES = 5


@dataclass(frozen=True)
class NamePattern:
    """One patient-name pattern.

    Attributes
    ----------
    note_id
        Where it is.
    person
        The register's or the truth file's key; "" where the truth is not known.
    role
        "patient", "staff" ...; "" where not known.
    first, last
        As in the text.
    form
        Of the mention.
    text
        The sentences of D_private with single spaces: two patterns with the same text are one.
    passage
        The same sentences of D_public, with the place of the name.
    """

    note_id: str
    person: str
    role: str
    first: str
    last: str
    form: str
    text: str
    passage: Passage


def patterns_of(
    note: NotePair,
    *,
    n_sentences: int = N_SENTENCES,
    n_left_sentences: int = 0,
    known: Collection[str] = (),
    people: Mapping[str, tuple[str, str]] | None = None,
    mentions: Sequence[Mention] | None = None,
) -> Iterator[NamePattern]:
    """Yield the patterns of a note: its mentions with first and last name whose owner is known.

    Parameters
    ----------
    n_sentences
        Sentences from the mention on.
    n_left_sentences
        1: with the beginning of the mention's sentence (what stands before the name moves it to
        the position it had in training). 0: from the mention on, as in the paper.
    known
        As in `find_mentions`.
    people
        (first, last) of each person of the truth; the name as it is in the text where not given.
    mentions
        What `find_mentions` gives for `private`, where that is at hand already.
    """
    for mention in find_mentions(note.private, known=known) if mentions is None else mentions:
        if not mention.is_full or mention.is_placeholder:
            continue
        owner = owner_of(mention, note.names)
        if note.names is not None and owner is None:
            continue
        end = end_of_sentences(note.private, start=mention.start, n=n_sentences)
        start = mention.start
        if n_left_sentences:
            start = start_of_sentence(note.private, at=mention.start)
        places = [_public(note.pieces, at) for at in (start, mention.name_start)]
        places += [_public(note.pieces, at, is_end=True) for at in (mention.name_end, end)]
        first, last = mention.first, mention.last
        if owner is not None and people is not None and owner.person in people:
            first, last = people[owner.person]
        yield NamePattern(
            note_id=note.note_id,
            person=owner.person if owner else "",
            role=owner.role if owner else "",
            first=first,
            last=last,
            form=mention.form,
            text=" ".join(note.private[start:end].split()),
            passage=_passage(note, mention, places, owner=(first, last)),
        )


def owner_of(mention: Mention, names: Sequence[TrueName] | None) -> TrueName | None:
    """Return the true name that a mention's name overlaps; None where there is none."""
    for name in names or ():
        if name.start < mention.name_end and mention.name_start < name.end:
            return name
    return None


def _public(pieces: Sequence[Piece], at: int, *, is_end: bool = False) -> int:
    """Return the offset in D_public of an offset in D_private; of a piece its beginning or end."""
    index = bisect_right(pieces, at, key=lambda piece: piece.start) - 1
    if index >= 0 and is_end and pieces[index].start == at:
        index -= 1
    if index < 0:
        return at
    piece = pieces[index]
    if at >= piece.end:
        return piece.public_end + at - piece.end
    return piece.public_end if is_end else piece.public_start


def _passage(
    note: NotePair,
    mention: Mention,
    places: Sequence[int],
    *,
    owner: tuple[str, str] | int | None,
) -> Passage:
    start, name_start, name_end, end = places
    # What is left and right of the name is cleaned as the reader of passages does it; a name
    # placeholder on the left must not be taken for the patient's.
    left = PLACEHOLDER.sub("[**x**]", note.public[start:name_start])
    before = find_name_slot(f"{left}[NAME]")
    behind = find_name_slot(f"[NAME]{note.public[name_end:end]}")
    between = note.private[mention.name_start : mention.name_end]
    return Passage(
        left=before.left if before else "",
        slots=mention.roles,
        separator=_separator(between, mention),
        right=behind.right if behind else "",
        passage_id=note.note_id,
        owner=owner,
    )


def _separator(written: str, mention: Mention) -> str:
    if mention.roles == ("full",):
        return ""
    if "," in written:
        return ", "
    if "\u3000" in written:
        return "\u3000"
    if mention.form.startswith("ja_") and " " not in written:
        return "・" if "・" in written else ""
    return " "
