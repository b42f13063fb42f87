"""The report as one HTML file that is read, printed and signed without the program.

Comes in: a report, and what the auditor chose. Goes out: HTML without a script and without any
address to fetch, with its pictures in it, for light and dark screens and for A4 paper. Numbers come
from the report only. Everything that is not ours is escaped, and the file's own content security
policy lets nothing run and nothing be fetched, even if something were not.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from audit.errors import AuditError
from audit.names.controls import MIN_CONTROLS
from audit.report.names import NAME_EVIDENCE, KindScores, name_kinds, number
from audit.report.reading import (
    ExposureGroup,
    ExposureView,
    MentionBin,
    Overview,
    ReferenceView,
    ScoreExposure,
    StratumFigures,
    estimate,
    exposure_view,
    overview_of,
    role_lines,
)
from audit.report.report import AuditReport, name_labels
from audit.stats import Rate
from audit.tables import (
    UNDEFINED,
    decimal,
    decimal_interval,
    moment,
    percent,
    percent_interval,
    raised,
    small,
)
from audit.text import is_unspaced, written_name
from audit.words import in_language

LANGUAGES = ("en", "ja")
_FOLDER = Path(__file__).resolve().parent / "words"


@dataclass(frozen=True)
class ReportWords:
    """One language's catalogue: key -> sentence with {named} places."""

    language: str
    sentences: Mapping[str, str]

    def text(self, key: str, **values: object) -> str:
        """Return a sentence, its places filled; not escaped.

        Raises
        ------
        KeyError
            If there is no such sentence, or a place stays empty.
        """
        return self.sentences[key].format(**values)

    def text_or(self, key: str, otherwise: str) -> str:
        """Return a sentence without places, or something else where there is none."""
        return self.sentences.get(key, otherwise)


@cache
def report_words(language: str) -> ReportWords:
    """Return the catalogue of a language.

    Raises
    ------
    AuditError
        If there is none.
    """
    if language not in LANGUAGES:
        raise AuditError("is not a language of reports.", where="language", do="Choose en or ja.")
    text = (_FOLDER / f"{language}.json").read_text(encoding="utf-8")
    return ReportWords(language, MappingProxyType(json.loads(text)))


NameForm = Literal["masked", "pseudonyms", "full"]
NAME_FORMS: tuple[NameForm, ...] = ("masked", "pseudonyms", "full")
_HIDDEN = "***"


def masked_name(first: str, last: str) -> str:
    """Return a name of which only the initials are left, in the order in which it is written."""
    parts = (masked_part(first), masked_part(last))
    if is_unspaced(first + last):
        return " ".join(part for part in reversed(parts) if part)
    return written_name(*parts)


def masked_part(part: str) -> str:
    """Return a part's initial and stars; a part of one character is hidden whole."""
    if not part:
        return ""
    return part[0] + _HIDDEN if len(part) > 1 else _HIDDEN


def shown_name(label: str, first: str, last: str, *, form: NameForm) -> str:
    """Return one name in a form; not escaped. `label` is its pseudonym."""
    if form == "full":
        return written_name(first, last)
    return masked_name(first, last) if form == "masked" else label


def with_names_as(report: AuditReport, *, form: NameForm) -> AuditReport:
    """Return the report with its names in a form, which `made` then states as `names`."""
    made = {**report.made, "names": form}
    if form == "full":
        return AuditReport(**{**vars(report), "made": made})
    names = dict(report.names)
    if form == "masked":
        names["first_name"] = [masked_part(part) for part in names["first_name"]]
        names["last_name"] = [masked_part(part) for part in names["last_name"]]
    else:
        names["first_name"] = list(name_labels(names))
        names["last_name"] = [""] * len(names["name_id"])
    names["popularity"] = [None] * len(names["name_id"])
    details = _without_passage_ids(report.details)
    return AuditReport(**{**vars(report), "names": names, "made": made, "details": details})


def _without_passage_ids(details: Mapping[str, Any]) -> dict[str, Any]:
    # They are the hospital's own text: a chart's number, or a name.
    linking = details.get("linking")
    if not linking:
        return dict(details)
    ranks = [{**rank, "passage_id": ""} for rank in linking.get("rank_by_passage", ())]
    return {**details, "linking": {**linking, "rank_by_passage": ranks}}


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


Cell = str | tuple[str, str]
"""A cell's text, or its text and a smaller one under it."""


def heading(text: str, *, level: int = 2) -> str:
    """Return a heading."""
    return f"<h{level}>{escape(text)}</h{level}>"


def paragraph(text: str, *, tone: str = "") -> str:
    """Return a paragraph; `tone` is a class of the style sheet."""
    return f'<p class="{tone}">{escape(text)}</p>' if tone else f"<p>{escape(text)}</p>"


def free_text(text: str) -> str:
    """Return text that somebody typed, its line breaks kept."""
    lines = "<br>".join(escape(line) for line in text.splitlines())
    return f'<p class="free">{lines}</p>'


def bullets(lines: Iterable[str]) -> str:
    """Return sentences as a list."""
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Return names and values as a table of two columns."""
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td class="fact">{escape(value)}</td></tr>'
        for name, value in pairs
    )
    return f'<table class="facts"><tbody>{rows}</tbody></table>'


def table(
    header: Sequence[str], rows: Iterable[Sequence[Cell]], *, caption: str = "", n_text: int = 1
) -> str:
    """Return a table whose first `n_text` columns are words, the others numbers."""
    head = "".join(
        f'<th scope="col" class="{_column(place, n_text)}">{escape(name)}</th>'
        for place, name in enumerate(header)
    )
    body = "".join(
        "<tr>" + "".join(_cell(cell, place, n_text) for place, cell in enumerate(row)) + "</tr>"
        for row in rows
    )
    below = f"<caption>{escape(caption)}</caption>" if caption else ""
    return (
        f'<div class="wide"><table>{below}<thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def figure(title: str, *, below: str, svg: str, table_title: str, as_table: str) -> str:
    """Return a picture with its title, what it shows, and its numbers as a table."""
    return (
        f"<figure>{heading(title, level=3)}<figcaption>{escape(below)}</figcaption>{svg}"
        f"<details><summary>{escape(table_title)}</summary>{as_table}</details></figure>"
    )


def _cell(cell: Cell, place: int, n_text: int) -> str:
    text, below = (cell, "") if isinstance(cell, str) else cell
    small = f"<small>{escape(below)}</small>" if below else ""
    return f'<td class="{_column(place, n_text)}">{escape(text)}{small}</td>'


def _column(place: int, n_text: int) -> str:
    return "text" if place < n_text else "number"


@dataclass(frozen=True)
class Scale:
    """A straight line from values (`low` to `high`) to places (`start` to `end`), in pixels."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the place of a value; values outside are drawn at the border."""
        if self.high == self.low:
            return (self.start + self.end) / 2
        share = (value - self.low) / (self.high - self.low)
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)


def picture(parts: Iterable[str], *, width: int, height: int, alt: str) -> str:
    """Return a whole picture; `alt` is what a screen reader says of it."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width} {height}" '
        f'aria-label="{escape(alt)}">{"".join(parts)}</svg>'
    )


def line(x1: float, y1: float, x2: float, y2: float, *, tone: str = "soft", width: int = 1) -> str:
    """Return a straight line."""
    return (
        f'<line class="{tone}" x1="{_n(x1)}" y1="{_n(y1)}" x2="{_n(x2)}" y2="{_n(y2)}" '
        f'stroke-width="{width}"/>'
    )


def dot(x: float, y: float, *, tone: str, radius: float = 3) -> str:
    """Return a dot."""
    return f'<circle class="{tone}" cx="{_n(x)}" cy="{_n(y)}" r="{_n(radius)}"/>'


def band(x1: float, y1: float, x2: float, y2: float, *, tone: str) -> str:
    """Return a filled rectangle between two corners, whatever their order."""
    left, top = min(x1, x2), min(y1, y2)
    return (
        f'<rect class="{tone}" x="{_n(left)}" y="{_n(top)}" width="{_n(abs(x2 - x1))}" '
        f'height="{_n(abs(y2 - y1))}"/>'
    )


def label(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12) -> str:
    """Return a text; `anchor` is "start", "middle" or "end"."""
    return (
        f'<text x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}" font-size="{size}">'
        f"{escape(text)}</text>"
    )


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


MAX_DOTS = 400
_WIDTH, _LEFT, _RIGHT = 720, 170, 700
_ROW = 46
_GOLDEN = 0.618033988749895


def scores_figure(view: Overview, *, words: ReportWords) -> str:
    """Return the scores of each kind of names: dots, the middle half, the median."""
    kinds = [kind for kind in view.kinds if kind.scores]
    if not kinds:
        return ""
    places = _Axis.of(kinds, is_log=view.is_log)
    bottom = 14 + _ROW * len(kinds)
    parts = places.drawn(bottom)
    for row, kind in enumerate(kinds):
        parts += _score_row(kind, words=words, axis=places, middle=14 + _ROW * (row + 0.5))
    axis = words.text(f"axis_{view.fixed_score}")
    parts.append(label((_LEFT + _RIGHT) / 2, bottom + 36, axis, anchor="middle"))
    title = words.text("figure_scores")
    columns = ("kind", "n", "missing", "q1", "median", "q3")
    rows = [
        (
            words.text(f"kind_{kind.kind}"),
            str(len(kind.scores)),
            str(kind.n_not_scored),
            *(small(value) for value in kind.quartiles),
        )
        for kind in view.kinds
    ]
    return figure(
        title,
        below=words.text("figure_scores_below", n=MAX_DOTS),
        svg=picture(parts, width=_WIDTH, height=bottom + 46, alt=title),
        table_title=words.text("as_table"),
        as_table=table([words.text(f"column_{c}") for c in columns], rows, caption=axis),
    )


def aucs_figure(view: Overview, *, words: ReportWords) -> str:
    """Return the AUC of the attack and of the general model alone against each kind of controls."""
    if not view.strata:
        return ""
    scale = Scale(0.0, 1.0, _LEFT, _RIGHT)
    bottom = 14 + _ROW * len(view.strata)
    parts = [line(scale(0.5), 10, scale(0.5), bottom, tone="dash")]
    rows = []
    for row, stratum in enumerate(view.strata):
        middle = 14 + _ROW * (row + 0.5)
        name = words.text(f"stratum_{stratum.stratum}")
        parts.append(label(_LEFT - 12, middle + 4, name, anchor="end"))
        for ranking in stratum.rankings:
            if ranking.who == "popularity":
                continue
            is_attack = ranking.who == "attack"
            y = middle - 8 if is_attack else middle + 8
            tone, mark = ("rust", "rust") if is_attack else ("grey", "open")
            low, value, high = ranking.auc.low, ranking.auc.value, ranking.auc.high
            who = words.text("this_attack" if is_attack else "general_alone")
            rows.append((f"{name} · {who}", decimal(value), decimal_interval(ranking.auc)))
            if not math.isnan(low + high):
                parts.append(line(scale(low), y, scale(high), y, tone=tone, width=3))
            if not math.isnan(value):
                parts.append(dot(scale(value), y, tone=mark, radius=5))
    parts += _share_ticks(scale, bottom, [f"{k / 4:g}" for k in range(5)])
    parts.append(label((_LEFT + _RIGHT) / 2, bottom + 36, words.text("axis_auc"), anchor="middle"))
    title = words.text("figure_aucs")
    return figure(
        title,
        below=words.text("figure_aucs_below"),
        svg=picture(parts, width=_WIDTH, height=bottom + 46, alt=title),
        table_title=words.text("as_table"),
        as_table=table([words.text("against"), words.text("axis_auc"), "95 %"], rows),
    )


def mentions_figure(view: Overview, *, words: ReportWords) -> str:
    """Return the share of members that stand out against how often they are mentioned."""
    if not view.mentions:
        return ""
    scale = Scale(0.0, 1.0, _LEFT, _RIGHT)
    bottom = 14 + _ROW * len(view.mentions)
    parts = []
    controls = view.controls_flagged.interval()
    if not math.isnan(controls.low + controls.high):
        parts.append(band(scale(controls.low), 10, scale(controls.high), bottom, tone="faint"))
    for row, found in enumerate(view.mentions):
        y = 14 + _ROW * (row + 0.5)
        name = f"{bin_label(found)} ({words.text('n_of_bin', n=found.n_names)})"
        parts.append(label(_LEFT - 12, y + 4, name, anchor="end"))
        if not math.isnan(found.share.value):
            low, high = scale(found.share.low), scale(found.share.high)
            parts.append(line(low, y, high, y, tone="rust", width=3))
            parts.append(dot(scale(found.share.value), y, tone="rust", radius=5))
    parts += _share_ticks(scale, bottom, [f"{25 * k}" for k in range(5)])
    axis = words.text("axis_share")
    parts.append(label((_LEFT + _RIGHT) / 2, bottom + 36, axis, anchor="middle"))
    parts.append(label(_LEFT - 12, bottom + 17, words.text("axis_mentions"), anchor="end"))
    title = words.text("figure_mentions")
    columns = ("mentions", "n", "flagged", "share")
    rows = [
        (
            bin_label(b), str(b.n_names), str(b.n_flagged),
            (percent(b.share.value), percent_interval(b.share)),
        )
        for b in view.mentions
    ]  # fmt: skip
    return figure(
        title,
        below=words.text("figure_mentions_below"),
        svg=picture(parts, width=_WIDTH, height=bottom + 46, alt=title),
        table_title=words.text("as_table"),
        as_table=table([words.text(f"column_{c}") for c in columns], rows),
    )


def bin_label(of: MentionBin) -> str:
    """Return the bounds of a bin: "1", "3–4" or "10+"."""
    if of.high is None:
        return f"{of.low}+"
    return str(of.low) if of.low == of.high else f"{of.low}–{of.high}"


class _Axis:
    """Where scores are drawn; with `is_log` by their logarithm, and zeros a decade below."""

    def __init__(self, low: float, high: float, *, is_log: bool) -> None:
        self._is_log = is_log
        self._scale = Scale(low, high, _LEFT, _RIGHT)

    @classmethod
    def of(cls, kinds: Sequence[KindScores], *, is_log: bool) -> _Axis:
        scores = [score for kind in kinds for score in kind.scores]
        if not is_log:
            margin = 0.03 * (max(scores) - min(scores) or 1.0)
            return cls(min(scores) - margin, max(scores) + margin, is_log=False)
        logs = [math.log10(score) for score in scores if score > 0] or [0.0]
        has_zero = any(score <= 0 for score in scores)
        low, high = math.floor(min(logs)) - has_zero, math.ceil(max(logs))
        return cls(low, max(high, low + 1), is_log=True)

    def __call__(self, score: float) -> float:
        if not self._is_log:
            return self._scale(score)
        return self._scale(math.log10(score) if score > 0 else self._scale.low)

    def drawn(self, bottom: float) -> list[str]:
        """Return the axis' lines and numbers."""
        parts = [line(_LEFT, bottom, _RIGHT, bottom)]
        for value, text in self._ticks():
            x = self._scale(value)
            parts.append(line(x, 10, x, bottom, tone="faint"))
            parts.append(label(x, bottom + 17, text, anchor="middle", size=11))
        return parts

    def _ticks(self) -> list[tuple[float, str]]:
        low, high = self._scale.low, self._scale.high
        if self._is_log:
            step = max(1, math.ceil((high - low) / 8))
            return [
                (k, f"10{raised(k)}") for k in range(math.ceil(low), math.floor(high) + 1, step)
            ]
        step_size = 10.0 ** math.floor(math.log10((high - low) / 4))
        step_size *= next(k for k in (1, 2, 5, 10) if (high - low) / (k * step_size) <= 8)
        first, last = math.ceil(low / step_size), math.floor(high / step_size)
        return [(k * step_size, small(round(k * step_size, 10))) for k in range(first, last + 1)]


def _score_row(kind: KindScores, *, words: ReportWords, axis: _Axis, middle: float) -> list[str]:
    is_asked = kind.kind in ("member", "unknown", "planted")
    tone = "rust" if is_asked else "grey"
    low, median, high = (axis(value) for value in kind.quartiles)
    name = f"{words.text(f'kind_{kind.kind}')} ({len(kind.scores)})"
    parts = [label(_LEFT - 12, middle + 4, name, anchor="end")]
    parts.append(band(low, middle - 15, high, middle + 15, tone=f"{tone}-faint"))
    if len(kind.scores) <= MAX_DOTS:
        mark = tone if is_asked else "open"
        for i, score in enumerate(kind.scores):  # spread by their order: the same picture each time
            y = middle + 28 * ((i * _GOLDEN) % 1 - 0.5)
            parts.append(dot(axis(score), y, tone=mark, radius=2.4))
    return [*parts, line(median, middle - 17, median, middle + 17, tone="ink", width=3)]


def _share_ticks(scale: Scale, bottom: float, texts: Sequence[str]) -> list[str]:
    parts = [line(_LEFT, bottom, _RIGHT, bottom)]
    for k, text in enumerate(texts):
        x = scale(k / (len(texts) - 1))
        parts.append(label(x, bottom + 17, text, anchor="middle", size=11))
    return parts


def verdict_section(
    report: AuditReport, view: Overview, *, other: Overview | None, words: ReportWords
) -> str:
    """Return section 1: the state, its sentence, the figures it rests on, the other scenario."""
    flagged, controls = view.flagged, view.controls_flagged
    pairs = [
        (
            words.text(key),
            words.text(
                "k_of_n", k=rate.n_hits, n=rate.n_total, interval=percent_interval(rate.interval())
            ),
        )
        for key, rate in (("flagged", flagged), ("flagged_controls", controls))
        if rate.n_total
    ]
    canaries = view.canaries_japanese if words.language == "ja" else view.canaries_english
    smallest = report.verdict.get("smallest_detectable_auc")
    if smallest is not None:
        pairs.append((words.text("smallest_auc"), decimal(float(smallest))))
    return "".join(
        (
            heading(words.text("verdict")),
            _verdict_card(view, words=words),
            _headline_table(view, words=words),
            facts(pairs),
            _what_now(view, words=words),
            paragraph(canaries) if canaries else "",
            _other_verdict(other, words=words),
        )
    )


def scope_section(report: AuditReport, *, words: ReportWords) -> str:
    """Return section 2: models, lists, dates, hardware and software."""
    columns = ("name", "kind", "size", "digest")
    rows: list[list[Cell]] = []
    for who in ("general", "hospital"):
        facts_of = report.models[who]
        rows.append(
            [
                words.text(f"model_{who}"),
                str(facts_of["name"]),
                str(facts_of.get("architecture", UNDEFINED)),
                f"{facts_of['n_parameters']:,}" if "n_parameters" in facts_of else UNDEFINED,
                str(facts_of.get("digest", UNDEFINED)),
            ]
        )
    header = [words.text("model_role"), *(words.text(f"model_{column}") for column in columns)]
    return "".join(
        (
            heading(words.text("scope")),
            table(header, rows, n_text=5),
            facts(_list_facts(report, words=words)),
            paragraph(words.text("how_chosen"), tone="soft"),
            facts(_run_facts(report, words=words)),
        )
    )


def scenario_section(report: AuditReport, *, words: ReportWords) -> str:
    """Return section 3: the attacker in words and as the KART tuple."""
    tuple_ = report.scenario
    number = int(tuple_["number"])
    rows = [
        (words.text("kart_k"), str(tuple_["knowledge"]), words.text("kart_k_words")),
        (words.text("kart_a"), str(tuple_["anonymization"]), words.text("kart_a_words")),
        (words.text("kart_r"), str(tuple_["resource"]), words.text(f"kart_r_words_{number}")),
        (words.text("kart_t"), str(tuple_["target"]), words.text("kart_t_words")),
    ]
    header = [words.text(f"kart_{column}") for column in ("parameter", "symbol", "meaning")]
    return "".join(
        (
            heading(words.text("scenario")),
            paragraph(words.text(f"scenario_{number}"), tone="strong"),
            paragraph(words.text(f"who_{number}")),
            table(header, rows, n_text=3),
        )
    )


def method_section(report: AuditReport, *, words: ReportWords) -> str:
    """Return section 4: the score, p and q, the rule of the verdict, every setting."""
    number = int(report.scenario["number"])
    settings = report.question.get("settings", {})
    score = words.text_or(f"method_score_{report.fixed_score}", "")  # of older versions too
    sentences = (
        words.text(f"method_{number}"),
        *([score] if score else ()),
        words.text("method_p", min_controls=MIN_CONTROLS),
        words.text("method_thresholds"),
        words.text("method_intervals"),
    )
    shown = "" if not settings else heading(words.text("settings"), level=3) + table(
        [words.text("setting"), words.text("value")],
        [(str(key), str(value)) for key, value in sorted(settings.items())],
        n_text=2,
    )  # fmt: skip
    return heading(words.text("method")) + bullets(sentences) + shown


def sentence_of(view: Overview, *, words: ReportWords) -> str:
    """Return what the verdict says behind its state, in the report's language."""
    whole = view.japanese if words.language == "ja" else view.english
    rest = re.split("：|: ", whole, maxsplit=1)[-1]
    return (rest[:1].upper() + rest[1:]).replace(" %", "\N{NO-BREAK SPACE}%")


def figure_rows(strata: tuple[StratumFigures, ...], *, words: ReportWords) -> list[list[Cell]]:
    """Return AUC and TPR at an FPR of 1 % of attack, general model and popularity, by stratum."""
    rows: list[list[Cell]] = []
    for stratum in strata:
        controls = words.text(f"stratum_{stratum.stratum}")
        by_who = {ranking.who: ranking for ranking in stratum.rankings}
        aucs: list[Cell] = [words.text("figure_auc", controls=controls)]
        tprs: list[Cell] = [words.text("figure_tpr", controls=controls)]
        for who in ("attack", "general_alone", "popularity"):
            ranking = by_who.get(who)
            if ranking is None:
                aucs.append(UNDEFINED)
                tprs.append(UNDEFINED)
                continue
            aucs.append((decimal(ranking.auc.value), decimal_interval(ranking.auc)))
            tprs.append((percent(ranking.tpr.value), percent_interval(ranking.tpr)))
        rows += [aucs, tprs]
    return rows


def figure_table(rows: list[list[Cell]], *, words: ReportWords) -> str:
    """Return rows of `figure_rows` as a table."""
    columns = ("figure", "this_attack", "general_alone", "popularity")
    return table(
        [words.text(column) for column in columns], rows, caption=words.text("figures_caption")
    )


def _verdict_card(view: Overview, *, words: ReportWords) -> str:
    return (
        f'<section class="card {view.state.split("_")[0]}">'
        + paragraph(words.text(f"scenario_{view.scenario}"), tone="soft")
        + paragraph(words.text(f"state_{view.state}"), tone="state")
        + paragraph(sentence_of(view, words=words))
        + "</section>"
    )


def _what_now(view: Overview, *, words: ReportWords) -> str:
    now = view.now_japanese if words.language == "ja" else view.now_english
    return heading(words.text("what_now"), level=3) + paragraph(now) if now else ""


def _headline_table(view: Overview, *, words: ReportWords) -> str:
    if not view.strata:
        return paragraph(words.text("no_truth"))
    whole = tuple(s for s in view.strata if s.stratum == "all") or view.strata[:1]
    return figure_table(figure_rows(whole, words=words), words=words)


def _other_verdict(other: Overview | None, *, words: ReportWords) -> str:
    title = heading(words.text("other"), level=3)
    if other is None:
        return title + paragraph(words.text("other_missing"))
    below = words.text("other_below", digest=other.digest[:12], at=moment(other.at))
    return title + _verdict_card(other, words=words) + paragraph(below, tone="soft")


def _list_facts(report: AuditReport, *, words: ReportWords) -> list[tuple[str, str]]:
    counts, question = report.candidates, report.question
    pairs = [
        (words.text(key), f"{counts[key]:,}")
        for key in ("n_names", "n_members", "n_unknown", "n_controls", "n_canaries", "n_reference")
        if key in counts
    ]
    if kinds := counts.get("by_kind"):
        parts = [
            words.text("control_kind", kind=words.text(f"kind_{kind}"), n=n)
            for kind, n in kinds.items()
        ]
        pairs.append((words.text("controls_by_kind"), " · ".join(parts)))
    for key, label in (
        ("candidates", "names_digest"),
        ("passages", "passages_digest"),
        ("name_pool", "pool_digest"),
    ):
        if question.get(key):
            pairs.append((words.text(label), str(question[key])))
    if question.get("passages"):
        pairs.append((words.text("rows_left_out"), str(question.get("n_rows_left_out", 0))))
    return pairs


def _run_facts(report: AuditReport, *, words: ReportWords) -> list[tuple[str, str]]:
    made, question = report.made, report.question
    hardware = " ".join(str(made[key]) for key in ("device", "device_name") if made.get(key))
    software = " · ".join(
        f"{name} {made[name]}" for name in ("torch", "transformers", "numpy") if made.get(name)
    )
    pairs = [
        (words.text("ran_at"), moment(str(made.get("at", "")))),
        (words.text("hardware"), hardware or UNDEFINED),
        (words.text("software"), software or UNDEFINED),
    ]
    if "seconds" in made:
        pairs.append((words.text("seconds"), f"{float(made['seconds']):,.0f}"))
    pairs += [(words.text(key), str(question[key])) for key in ("seed", "dtype") if key in question]
    return pairs


def canaries_part(report: AuditReport, *, words: ReportWords) -> str:
    """Return what the planted names show, or nothing where none were planted."""
    view = exposure_view(report)
    if view is None:
        return ""
    parts = [
        heading(words.text("canaries"), level=3),
        paragraph(words.text("canaries_below"), tone="soft"),
        paragraph(canary_sentence(view, words=words)),
    ]
    if not view.is_paired:
        n = {"planted": view.n_planted, "held_out": view.n_held_out}
        parts.append(paragraph(words.text("canaries_unpaired", **n), tone="soft"))
    if view.scores:
        parts += [_limit(view.scores[0], words=words), _table(view, words=words)]
    return "".join(parts)


def canary_sentence(view: ExposureView, *, words: ReportWords) -> str:
    """Return the one sentence on planted names, in the report's language."""
    return view.japanese if words.language == "ja" else view.english


def _limit(fixed: ScoreExposure, *, words: ReportWords) -> str:
    text = words.text(
        "canaries_limit",
        n=fixed.n_held_out,
        bits=decimal(fixed.max_bits, digits=2),
        p=small(fixed.smallest_p),
        chance=decimal(fixed.bits_without_leak, digits=2),
    )
    return paragraph(text, tone="soft")


def _table(view: ExposureView, *, words: ReportWords) -> str:
    rows = [
        _row(score, group, words=words)
        for score in view.scores
        if score.is_fixed or score.is_baseline
        for group in (*score.groups, score.whole)
    ]
    rows += [
        _row(score, score.whole, words=words)
        for score in view.scores
        if not (score.is_fixed or score.is_baseline)
    ]
    columns = ("score", "mentions", "n", "bits", "found", "twins", "p", "from")
    header = [words.text(f"canaries_{column}") for column in columns]
    return table(header, rows, caption=words.text("canaries_caption"), n_text=2)


def _row(score: ScoreExposure, group: ExposureGroup, *, words: ReportWords) -> list[Cell]:
    is_whole = group.n_mentions is None
    name = words.text("canaries_general") if score.is_baseline else score.score
    count = score.found_from.value
    reached = words.text("canaries_nowhere") if math.isinf(count) else f"{count:g}"
    return [
        name,
        words.text("canaries_all") if is_whole else str(group.n_mentions),
        str(group.n_names),
        (decimal(group.bits.value, digits=2), decimal_interval(group.bits, digits=2)),
        _report_canaries_rate(group.found),
        _report_canaries_rate(group.above_twin),
        small(group.above_twin_p),
        reached if is_whole else "",
    ]


def _report_canaries_rate(rate: Rate) -> Cell:
    return f"{rate.n_hits} / {rate.n_total}", percent_interval(rate.interval())


def references_part(view: ReferenceView | None, *, words: ReportWords) -> str:
    """Return the references beside each other, or nothing where only one was used."""
    if view is None or not view.differences:
        return ""
    rows: list[list[Cell]] = [
        [
            (line.name, words.text("references_own") if line.is_own else line.digest[:8]),
            words.text(f"state_{line.state}"),
            words.text(f"stratum_{one.stratum}"),
            f"{one.n_members} / {one.n_controls}",
            (decimal(one.auc.value), decimal_interval(one.auc)),
            (decimal(one.alone.value), decimal_interval(one.alone)),
            (percent(one.recall.value), percent_interval(one.recall)),
            (percent(one.fpr.value), percent_interval(one.fpr)),
        ]
        for line in view.lines
        for one in line.strata
    ]
    columns = ("name", "verdict", "controls", "n", "auc", "alone", "recall", "fpr")
    header = [words.text(f"references_{column}") for column in columns]
    return "".join(
        (
            heading(words.text("references"), level=3),
            paragraph(words.text("references_below"), tone="soft"),
            table(header, rows, n_text=3),
            _differences(view, words=words),
        )
    )


def _differences(view: ReferenceView, *, words: ReportWords) -> str:
    rows: list[list[Cell]] = []
    for one in view.differences:
        rows += [
            [
                (one.name, one.digest[:12]),
                words.text(f"stratum_{found.stratum}"),
                (decimal(found.difference.value), decimal_interval(found.difference)),
            ]
            for found in one.aucs
        ]
        share = (percent(one.flagged.value), percent_interval(one.flagged))
        rows.append([(one.name, one.digest[:12]), words.text("references_flagged"), share])
    header = [words.text(f"references_{key}") for key in ("name", "what", "difference")]
    return table(header, rows, caption=words.text("references_differences"), n_text=2)


def roles_part(report: AuditReport, *, words: ReportWords) -> str:
    """Return the table of roles, or nothing where the list has none."""
    lines = role_lines(report)
    if not lines:
        return ""
    rows: list[list[Cell]] = [
        [
            line.role or words.text("roles_none"),
            str(line.n_members),
            "" if math.isnan(line.median_mentions) else f"{line.median_mentions:g}",
            (decimal(line.auc.value), decimal_interval(line.auc)),
            (decimal(line.general_auc.value), decimal_interval(line.general_auc)),
            _report_roles_rate(line.flagged),
            _report_roles_rate(line.general_flagged),
        ]
        for line in lines
    ]
    columns = ("role", "members", "mentions", "auc", "general_auc", "flagged", "general_flagged")
    return "".join(
        (
            heading(words.text("roles"), level=3),
            paragraph(words.text("roles_below", n=lines[0].n_controls), tone="soft"),
            table([words.text(f"roles_{column}") for column in columns], rows),
        )
    )


def _report_roles_rate(rate: Rate) -> Cell:
    return f"{rate.n_hits} / {rate.n_total}", percent_interval(rate.interval())


MAX_NAMES = 50
"""Names that stand out and are printed; the others are in names.csv."""
_RATES = ("f1", "accuracy", "recall", "precision")


def results_section(
    report: AuditReport,
    view: Overview,
    *,
    references: ReferenceView | None,
    words: ReportWords,
) -> str:
    """Return section 5 without its names: rankings, figures, rules, roles, references, canaries."""
    parts = [heading(words.text("results"))]
    if view.strata:
        parts.append(figure_table(figure_rows(view.strata, words=words), words=words))
    else:
        parts.append(paragraph(words.text("no_truth")))
    parts += [
        scores_figure(view, words=words),
        aucs_figure(view, words=words),
        mentions_figure(view, words=words),
        _rules(report, words=words),
        roles_part(report, words=words),
        references_part(references, words=words),
        canaries_part(report, words=words),
    ]
    return "".join(parts)


def names_section(report: AuditReport, *, form: NameForm, words: ReportWords) -> str:
    """Return the names that stand out, at most `MAX_NAMES`, the smallest q first."""
    title = heading(words.text("standing_out"), level=3)
    rows = standing_out(report)
    if not rows:
        return title + paragraph(words.text("standing_out_none"))
    scenario = int(report.scenario["number"])
    names, (hospital, general) = report.names, NAME_EVIDENCE[int(report.scenario["number"])]
    labels, cells = name_labels(names), []
    for row in rows[:MAX_NAMES]:
        truth = "truth_unknown" if names["is_member"][row] is None else "truth_yes"
        mentions = names["n_mentions"][row]
        who = names["first_name"][row], names["last_name"][row]
        cells.append(
            (
                labels[row],
                shown_name(labels[row], *who, form=form),
                words.text(truth),
                "" if mentions is None else str(mentions),
                small(number(names[general][row])),
                small(number(names[hospital][row])),
                small(number(names["score"][row])),
                small(number(names["standard_error"][row])),
                decimal(number(names["p_value"][row]), digits=4),
                decimal(number(names["q_value"][row]), digits=4),
            )
        )
    columns = (
        "number", "name", "truth", "mentions", "general", "hospital", "score", "error", "p", "q",
    )  # fmt: skip
    return (
        title
        + paragraph(words.text("standing_out_below", shown=len(cells), n=len(rows)), tone="soft")
        + table(
            [words.text(f"column_{column}") for column in columns],
            cells,
            caption=words.text(f"evidence_{scenario}"),
            n_text=3,
        )
    )


def standing_out(report: AuditReport) -> list[int]:
    """Return the rows of the tested names that stand out, the smallest q first."""
    names = report.names
    rows = [
        row
        for row, (kind, out) in enumerate(zip(name_kinds(names), report.stands_out, strict=True))
        if kind in ("member", "unknown") and out
    ]
    return sorted(rows, key=lambda row: (names["q_value"][row], -number(names["score"][row]), row))


def diagnostics_section(report: AuditReport, *, words: ReportWords) -> str:
    """Return section 6: why this verdict, the checks, the engine's notes."""
    reasons = [
        words.text_or(f"reason_{code}", str(code)) for code in report.verdict.get("reasons", ())
    ]
    told = [in_language(str(one), language=words.language) for one in report.notes]
    notes = (
        paragraph(words.text("notes"), tone="soft") + bullets(told)
        if told
        else paragraph(words.text("no_notes"), tone="soft")
    )
    return "".join(
        (
            heading(words.text("diagnostics")),
            heading(words.text("reasons"), level=3),
            bullets(reasons),
            bullets(_checks(report, words=words)),
            notes,
        )
    )


def rules_of(report: AuditReport) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield (controls, rule, what it reaches) of every yes/no rule, the guess last."""
    for stratum, measured in report.measures["strata"].items():
        held_out = measured["held_out"]
        found = {
            **measured["rules"],
            **measured["baseline_rules"],
            "held_out": held_out.get(report.fixed_score),
            "held_out_general": held_out.get("general_alone"),
            "always_member": measured["always_member"],
        }
        for rule, reached in found.items():
            if reached is not None:
                yield stratum, rule, reached


def _rules(report: AuditReport, *, words: ReportWords) -> str:
    by_stratum: dict[str, list[list[Cell]]] = {}
    for stratum, rule, reached in rules_of(report):
        counts = reached["confusion"]
        cells: list[Cell] = [
            words.text_or(f"rule_{rule}", rule),
            " / ".join(str(counts[key]) for key in ("tp", "fn", "fp", "tn")),
        ]
        for rate in (*_RATES, "false_positive_rate"):
            found = estimate(reached["f1"] if rate == "f1" else counts[rate])
            cells.append((percent(found.value), percent_interval(found)))
        by_stratum.setdefault(stratum, []).append(cells)
    if not by_stratum:
        return ""
    header = [words.text(key) for key in ("rule", "counts")]
    header += [words.text(f"rate_{rate}") for rate in (*_RATES, "fpr")]
    tables = "".join(
        paragraph(f"{words.text('against')}: {words.text(f'stratum_{stratum}')}", tone="strong")
        + table(header, rows, caption=words.text("rules_caption"))
        for stratum, rows in by_stratum.items()
    )
    return (
        heading(words.text("rules"), level=3)
        + paragraph(words.text("rules_below"), tone="soft")
        + f'<div class="rules">{tables}</div>'
    )


def _checks(report: AuditReport, *, words: ReportWords) -> Iterator[str]:
    cohort, total = report.cohort, report.n_names
    if cohort.get("p") is not None:
        p, effect = small(number(cohort["p"])), percent(number(cohort.get("effect")))
        yield words.text("check_cohort", p=p, effect=effect)
    if check := report.details.get("null_check"):
        yield words.text(
            "check_ks",
            statistic=decimal(number(check["ks_statistic"])),
            p=small(number(check["ks_p"])),
        )
    if (linking := report.details.get("linking")) and linking.get("n_passages"):
        yield words.text(
            "check_linking",
            attack=percent(number(linking["hospital_against_general"]["top_1"])),
            general=percent(number(linking["general_alone"]["top_1"])),
            chance=percent(number(linking["chance"]["top_1"])),
            n=linking["n_passages"],
        )
    names = report.names
    yield words.text("check_not_scored", n=names["score"].count(None), total=total)
    undecided = sum(map(bool, names.get("is_undecided", ())))
    yield words.text("check_undecided", n=undecided, total=total)
    yield words.text("check_unmatched", n=sum(map(bool, names["is_unmatched"])), total=total)


_OPTIONS = {
    "n_documents": "--documents",
    "n_steps": "--steps",
    "n_tokens": "--tokens",
    "top_k": "--top-k",
    "temperature": "--temperature",
    "prompt": "--prompt",
    "n_inputs": "--inputs",
    "n_chain_inputs": "--chain-inputs",
    "micro_batch": "--micro-batch",
    "max_tokens": "--max-tokens",
}
_GLOSSARY = ("member", "control", "auc", "tpr", "q", "undecided", "general", "interval")


def limits_section(report: AuditReport, *, words: ReportWords) -> str:
    """Return section 7: attacks not tried, and what "not found" means."""
    attack = words.text(f"attack_{int(report.scenario['number'])}")
    sentences = [words.text("limit_tried", attack=attack)]
    sentences += [words.text(f"limit_{key}") for key in ("untried", "none", "role", "list", "deid")]
    return heading(words.text("limits")) + bullets(sentences)


def recommendation_section(sign_off: SignOff, *, words: ReportWords) -> str:
    """Return section 8: the scale, the auditor's choice on it, and the reasons."""
    boxes = "".join(
        f'<li class="{"chosen" if code == sign_off.recommendation else "open-box"}">'
        f'<span aria-hidden="true">{"☒" if code == sign_off.recommendation else "☐"}</span> '
        f"{escape(words.text(f'recommend_{code}'))}</li>"
        for code in RECOMMENDATIONS
    )
    reasons = (
        free_text(sign_off.reasons)
        if sign_off.reasons.strip()
        else paragraph(words.text("no_reasons"), tone="soft")
    )
    return "".join(
        (
            heading(words.text("recommendation")),
            paragraph(words.text("recommendation_why"), tone="soft"),
            f'<ul class="scale">{boxes}</ul>',
            "" if sign_off.recommendation else paragraph(words.text("no_recommendation")),
            heading(words.text("reasons_given"), level=3),
            reasons,
        )
    )


def sign_off_section(sign_off: SignOff, *, seal: str = "", words: ReportWords) -> str:
    """Return section 9: a line to sign for each of the two, and what the access log held then."""
    rows = "".join(
        f'<tr><th scope="row">{escape(words.text(role))}</th>'
        f'<td class="sign">{escape(name)}</td><td class="sign"></td><td class="sign"></td></tr>'
        for role, name in (("auditor", sign_off.auditor), ("officer", sign_off.officer))
    )
    header = "".join(
        f'<th scope="col">{escape(text)}</th>'
        for text in ("", words.text("column_name"), words.text("signature"), words.text("date"))
    )
    return (
        f'<section class="keep">{heading(words.text("sign_off"))}<table class="signatures">'
        f"<thead><tr>{header}</tr></thead><tbody>{rows}</tbody></table>"
        f"{paragraph(words.text('log_seal', seal=seal), tone='soft') if seal else ''}</section>"
    )


def reproduction_section(report: AuditReport, *, words: ReportWords) -> str:
    """Return section 10: the command, the digests."""
    question = report.question
    pairs = [(words.text("audit_digest"), report.digest)]
    if "evidence_version" in question:
        pairs.append((words.text("evidence_version"), str(question["evidence_version"])))
    return "".join(
        (
            heading(words.text("reproduction")),
            paragraph(words.text("reproduce")),
            f"<pre>{escape(command_of(report))}</pre>",
            paragraph(words.text("reproduce_files"), tone="soft"),
            facts(pairs),
            paragraph(words.text("report_check"), tone="soft"),
        )
    )


def glossary_section(*, words: ReportWords) -> str:
    """Return section 11."""
    return heading(words.text("glossary")) + bullets(
        words.text(f"gloss_{key}") for key in _GLOSSARY
    )


def command_of(report: AuditReport) -> str:
    """Return the command that asks the same question; directories and files are placeholders."""
    scenario, question = int(report.scenario["number"]), report.question
    parts = ["python", "-m", "audit", "run", "--scenario", str(scenario)]
    parts += ["--general", "GENERAL", "--hospital", "HOSPITAL", "--names", "names.csv"]
    if scenario == 2:
        parts += ["--passages", "passages.jsonl"]
    settings = question.get("settings", {})
    for key, option in _OPTIONS.items():
        if key in settings:
            parts += [option, str(settings[key])]
    parts += ["--keep-sampled"] if settings.get("is_remasked") is False else []
    parts += ["--no-dropout"] if settings.get("is_dropout_on") is False else []
    for key in ("seed", "dtype", "threshold"):
        if question.get(key) is not None:
            parts.append(f"--{key}={question[key]}")
    return shlex.join([*parts, "--out", "results"])


_STYLE = Path(__file__).resolve().parent / "words" / "style.css"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def report_html(
    report: AuditReport,
    *,
    choice: ReportChoice,
    other: AuditReport | None = None,
    references: ReferenceView | None = None,
    seal: str = "",
) -> str:
    """Return the whole file.

    Parameters
    ----------
    choice
        Language, form of the names, sections and sign-off.
    other
        The audit of the same pair in the other scenario, if it is kept: its verdict is printed too.
    references
        The audits that differ in the reference alone, if there are any.
    seal
        The access log's; it is printed where the report is signed.

    Raises
    ------
    KeyError
        If the report is not of this program's making.
    """
    words = report_words(choice.language)
    view = overview_of(report)
    beside = overview_of(other) if other is not None else None
    title = escape(f"{words.text('title')} · {report.digest[:12]}")
    parts = _sections(
        report, view, other=beside, references=references, choice=choice, seal=seal, words=words
    )
    body = "\n".join(parts)
    return (
        f'<!DOCTYPE html>\n<html lang="{words.language}">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{title}</title>\n<style>\n{_style()}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _sections(
    report: AuditReport,
    view: Overview,
    *,
    other: Overview | None,
    references: ReferenceView | None,
    choice: ReportChoice,
    seal: str,
    words: ReportWords,
) -> list[str]:
    wanted, sign_off = choice.sections, choice.sign_off
    return [
        _opening(view, choice=choice, words=words),
        verdict_section(report, view, other=other, words=words),
        '<div class="page"></div>',
        scope_section(report, words=words),
        scenario_section(report, words=words),
        method_section(report, words=words),
        results_section(report, view, references=references, words=words)
        if "results" in wanted
        else "",
        names_section(report, form=choice.names, words=words) if "names" in wanted else "",
        diagnostics_section(report, words=words) if "diagnostics" in wanted else "",
        limits_section(report, words=words),
        recommendation_section(sign_off, words=words),
        sign_off_section(sign_off, seal=seal, words=words),
        reproduction_section(report, words=words) if "reproduction" in wanted else "",
        glossary_section(words=words) if "glossary" in wanted else "",
    ]


def _opening(view: Overview, *, choice: ReportChoice, words: ReportWords) -> str:
    meta = words.text(
        "meta",
        hospital=view.hospital,
        general=view.general,
        digest=view.digest[:12],
        at=moment(view.at),
    )
    names = words.text(f"names_{choice.names}")
    return "".join(
        (
            f"<header><h1>{escape(words.text('title'))}</h1>",
            paragraph(words.text("subtitle"), tone="lead"),
            paragraph(meta, tone="soft"),
            paragraph(names, tone="warn" if choice.names == "full" else "soft"),
            paragraph(words.text("demo"), tone="warn") if choice.is_demo else "",
            "</header>",
        )
    )


@cache
def _style() -> str:
    return _STYLE.read_text(encoding="utf-8")
