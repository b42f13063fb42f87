"""KART Audit: may this language model leave the building?

The names of `__all__` are described in `kart_audit.audit.interface`. They are imported when they
are first asked for, so that importing this package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kart_audit.audit.interface import (
        AuditError,
        DeidentifiedText,
        GenerationSettings,
        PosteriorSettings,
        Report,
        Span,
        TaggedDocument,
        audit_pair,
        build_corpus,
        deidentify,
        draw_scores,
        measure,
        save_report,
        score,
    )

__all__ = [
    "AuditError",
    "DeidentifiedText",
    "GenerationSettings",
    "PosteriorSettings",
    "Report",
    "Span",
    "TaggedDocument",
    "audit_pair",
    "build_corpus",
    "deidentify",
    "draw_scores",
    "measure",
    "save_report",
    "score",
]


def __getattr__(name: str) -> object:
    """Import the interface when one of its names is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from kart_audit.audit import interface

    return getattr(interface, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
