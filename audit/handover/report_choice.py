"""What an auditor chooses for a report: language, form of the names, sections, and the sign-off."""

from __future__ import annotations

from dataclasses import dataclass, field

from audit.errors import AuditError
from audit.handover.name_forms import NAME_FORMS, NameForm
from audit.handover.report_language import LANGUAGES

RECOMMENDATIONS = ("release", "release_inside", "retrain", "no_release")
OPTIONAL_SECTIONS = ("results", "names", "diagnostics", "reproduction", "glossary")
"""What may be left out; verdict, scope, attacker, method, limits and sign-off never."""
MAX_NAME_CHARS = 200
MAX_REASONS_CHARS = 10_000


@dataclass(frozen=True)
class SignOff:
    """The auditor's own words.

    Attributes
    ----------
    recommendation
        One of `RECOMMENDATIONS`, or "" where it is not chosen.
    reasons
        Free text.
    auditor, officer
        Names to be printed beside the lines for signatures.
    """

    recommendation: str = ""
    reasons: str = ""
    auditor: str = ""
    officer: str = ""

    def __post_init__(self) -> None:
        """Refuse what no report can hold."""
        if self.recommendation not in ("", *RECOMMENDATIONS):
            raise AuditError("is unknown.", where="recommendation")
        if max(len(self.auditor), len(self.officer)) > MAX_NAME_CHARS:
            raise AuditError(f"is longer than {MAX_NAME_CHARS} characters.", where="sign-off")
        if len(self.reasons) > MAX_REASONS_CHARS:
            raise AuditError(f"are longer than {MAX_REASONS_CHARS:,} characters.", where="reasons")


@dataclass(frozen=True)
class ReportChoice:
    """How one report is to look; `is_demo` says on it that everything is invented."""

    language: str = "en"
    names: NameForm = "masked"
    sections: tuple[str, ...] = OPTIONAL_SECTIONS
    sign_off: SignOff = field(default_factory=SignOff)
    is_demo: bool = False

    def __post_init__(self) -> None:
        """Refuse what no report can have."""
        if self.language not in LANGUAGES:
            raise AuditError("is not a language of reports.", where="language")
        if self.names not in NAME_FORMS:
            raise AuditError("is unknown.", where="names", do=f"Choose one of {NAME_FORMS}.")
        if not set(self.sections) <= set(OPTIONAL_SECTIONS):
            raise AuditError("is unknown.", where="sections")
