"""Coverage: what the mention finder found in a corpus, by form, and what it left.

Comes in: notes, one by one. Goes out: counts that add up, to be shown before any GPU time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from audit.corpora.mention_passages import owner_of
from audit.corpora.mention_record import FORMS, REASONS, Mention, Unnamed
from audit.corpora.mention_truth import NotePair
from audit.corpora.mentions import examine


@dataclass(frozen=True)
class MentionCoverage:
    """Counts over notes; two of them add up with +.

    Attributes
    ----------
    n_notes, n_notes_with_mention
        Notes read, and those with a mention at least.
    forms
        Mentions for each of `FORMS`.
    reasons
        Ages without a mention for each of `REASONS`.
    n_full
        Mentions with first and last name, or a placeholder for the whole name.
    n_placeholder
        Mentions whose name is a placeholder.
    n_by_role
        (role, mentions) of people that the truth knows, sorted; empty where it is not known.
    n_of_nobody
        Mentions that are no name of the truth.
    n_true_names, n_true_names_mentioned
        Names of patients in the notes according to the truth, and those that are a mention's: the
        others stand elsewhere.
    """

    n_notes: int
    n_notes_with_mention: int
    forms: tuple[int, ...]
    reasons: tuple[int, ...]
    n_full: int
    n_placeholder: int
    n_by_role: tuple[tuple[str, int], ...]
    n_of_nobody: int
    n_true_names: int
    n_true_names_mentioned: int

    def __post_init__(self) -> None:
        """Check the columns against the lists."""
        if len(self.forms) != len(FORMS) or len(self.reasons) != len(REASONS):
            raise ValueError("one count for each form and reason")
        if self.n_true_names_mentioned > self.n_true_names or self.n_full > self.n_mentions:
            raise ValueError("a part is larger than the whole")

    @property
    def n_mentions(self) -> int:
        """Mentions of all forms."""
        return sum(self.forms)

    @property
    def n_elsewhere(self) -> int:
        """Patients' names that stand elsewhere than in a mention."""
        return self.n_true_names - self.n_true_names_mentioned

    @property
    def by_form(self) -> tuple[tuple[str, int], ...]:
        """(form, mentions), forms that do not occur left out."""
        return tuple((form, n) for form, n in zip(FORMS, self.forms, strict=True) if n)

    @property
    def by_reason(self) -> tuple[tuple[str, int], ...]:
        """(reason, ages without a mention)."""
        return tuple(zip(REASONS, self.reasons, strict=True))

    def __add__(self, other: MentionCoverage) -> MentionCoverage:
        roles = Counter(dict(self.n_by_role)) + Counter(dict(other.n_by_role))
        return MentionCoverage(
            n_notes=self.n_notes + other.n_notes,
            n_notes_with_mention=self.n_notes_with_mention + other.n_notes_with_mention,
            forms=tuple(map(sum, zip(self.forms, other.forms, strict=True))),
            reasons=tuple(map(sum, zip(self.reasons, other.reasons, strict=True))),
            n_full=self.n_full + other.n_full,
            n_placeholder=self.n_placeholder + other.n_placeholder,
            n_by_role=tuple(sorted(roles.items())),
            n_of_nobody=self.n_of_nobody + other.n_of_nobody,
            n_true_names=self.n_true_names + other.n_true_names,
            n_true_names_mentioned=self.n_true_names_mentioned + other.n_true_names_mentioned,
        )


NO_NOTES = MentionCoverage(0, 0, (0,) * len(FORMS), (0,) * len(REASONS), 0, 0, (), 0, 0, 0)
"""The coverage of no notes, to begin a sum with."""


def coverage_of(
    note: NotePair,
    *,
    known: Collection[str] = (),
    examined: Sequence[Mention | Unnamed] | None = None,
) -> MentionCoverage:
    """Return the coverage of one note; mentions are looked for in `private`.

    `examined` is what `examine` gives for it, where that is at hand already.
    """
    forms: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    roles: Counter[str] = Counter()
    mentioned: set[tuple[int, int]] = set()
    n_full = n_placeholder = n_of_nobody = 0
    for found in examine(note.private, known=known) if examined is None else examined:
        if not isinstance(found, Mention):
            reasons[found.reason] += 1
            continue
        forms[found.form] += 1
        n_full += found.is_full
        n_placeholder += found.is_placeholder
        owner = owner_of(found, note.names)
        if owner is not None:
            roles[owner.role] += 1
            mentioned.add((owner.start, owner.end))
        elif note.names is not None:
            n_of_nobody += 1
    patients = [name for name in note.names or () if name.role in ("patient", "")]
    return MentionCoverage(
        n_notes=1,
        n_notes_with_mention=int(bool(forms)),
        forms=tuple(forms[form] for form in FORMS),
        reasons=tuple(reasons[reason] for reason in REASONS),
        n_full=n_full,
        n_placeholder=n_placeholder,
        n_by_role=tuple(sorted(roles.items())),
        n_of_nobody=n_of_nobody,
        n_true_names=len(patients),
        n_true_names_mentioned=sum((n.start, n.end) in mentioned for n in patients),
    )


def coverage(notes: Iterable[NotePair], *, known: Collection[str] = ()) -> MentionCoverage:
    """Return the coverage of a corpus, read once."""
    total = NO_NOTES
    for note in notes:
        total += coverage_of(note, known=known)
    return total
