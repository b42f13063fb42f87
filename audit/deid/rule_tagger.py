"""The tagger by rule: dates, ages, numbers, contacts, addresses, hospitals, names behind a cue.

It needs no model and no training; what it misses is counted by `deid score`, never assumed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from audit.corpora import mentions
from audit.deid import rules_contact, rules_dates, rules_hospitals, rules_names, rules_numbers
from audit.deid.labels import TYPES
from audit.deid.rule import LOOSE, Found, Rule, folded_text, strongest
from audit.deid.rules_clinical import without_clinical
from audit.deid.tagger import Tags

GROUPS: dict[str, tuple[Rule, ...]] = {
    "dates": rules_dates.RULES,
    "numbers": rules_numbers.RULES,
    "contact": rules_contact.RULES,
    "hospitals": rules_hospitals.RULES,
    "names": (),
}
"""Rules by group; those for names are no plain patterns and stand in `rules_names`."""


@dataclass(frozen=True)
class RuleTagger:
    """Finds spans by rule.

    Parameters
    ----------
    groups
        Names out of `GROUPS`.

    Raises
    ------
    ValueError
        If there is no such group, or none is given.
    """

    groups: tuple[str, ...] = tuple(GROUPS)

    def __post_init__(self) -> None:
        """Check the groups, once."""
        if not self.groups or not set(self.groups) <= set(GROUPS):
            raise ValueError("no such group of rules")

    @property
    def name(self) -> str:
        """What to call it."""
        return "rules"

    @property
    def labels(self) -> tuple[str, ...]:
        """The five types."""
        return TYPES

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the source of all that decides, and of the groups in use."""
        known = hashlib.sha256(" ".join(self.groups).encode())
        here, corpora = Path(__file__).parent, Path(str(mentions.__file__)).parent
        rules = (*here.glob("rule*.py"), here / "identity_numbers.py")
        for path in sorted((*rules, *corpora.glob("mention*.py"))):
            known.update(path.read_bytes())
        return known.hexdigest()

    def tag(self, texts: Sequence[str]) -> tuple[Tags, ...]:
        """Return the spans of each text."""
        return tuple(self._tags(folded_text(text)) for text in texts)

    def _tags(self, folded: str) -> Tags:
        found = [each for _, each in self.found(folded)]
        guessed = [each.span for each in found if each.weight == LOOSE]
        accepted = set(without_clinical(folded, guessed))
        return strongest(each for each in found if each.weight != LOOSE or each.span in accepted)

    def found(self, folded: str) -> Iterator[tuple[str, Found]]:
        """Yield all finds in a folded text, also those that share characters, with their group."""
        for group in self.groups:
            for each in GROUPS[group]:
                yield from ((group, one) for one in each.find(folded))
        if "names" in self.groups:
            yield from (("names", one) for one in rules_names.find_names(folded))
