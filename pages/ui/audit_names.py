"""Step 2 of an audit: the list of names, and the passages of the de-identified notes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import streamlit as st

from audit.corpus.candidate_lists import keep_lists
from audit.corpus.corpora import CORPORA
from audit.errors import AuditError, Message, render_message
from audit.home import salted_digest
from audit.models.registry import RegisteredModel
from audit.names import lists
from audit.names.candidates import GUESSED_KINDS, Candidates, guessed_kinds
from audit.names.controls import MAX_DRAWN
from audit.names.facts import Bins, Spelling
from audit.names.files import NAMES_ENDINGS, make_names_template
from audit.names.letter_case import report_letter_case
from audit.names.lists import KeptNames, KeptPassages, Line
from audit.names.spelling import TWINS
from audit.notes.passages import MAX_PLACEHOLDER_CHARS, PASSAGES_ENDINGS, count_owners
from audit.progress import Progress
from audit.shelf import MAX_TITLE_CHARS
from audit.tables import UNDEFINED, Cells, RowNote, decimal
from audit.words import Words
from pages.ui import cached
from pages.ui.access import format_name, is_revealed, may, name_form
from pages.ui.blocks import draw_refusal, escape_html
from pages.ui.charts import Axis, Series, plot
from pages.ui.display_names import corpus_name, list_name
from pages.ui.form import ask_source, draw_button, draw_toggle, pick, set_pick, upload
from pages.ui.note_text import note_box, passage_html
from pages.ui.section import (
    Columns,
    attempt,
    draw_figure,
    draw_file_button,
    draw_frame,
    draw_heading,
    draw_remark,
    draw_table,
)

DRAWN = ("easy", "hard", "recombined")
_MAX_MB = {"names": 20, "passages": 50}
_MAX_NOTES, _CONTEXT_CHARS, N_FIRST_ROWS = 200, 400, 5
_NEW, _ROUND = "audit_new", "audit_round"
_RAISED = str.maketrans("-0123456789.", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹·")
T = TypeVar("T", KeptNames, KeptPassages)


# A button, the start of the audit, or leaving the page keeps the drafts of this step.


def keep_new(say: Words) -> bool:
    """Keep and choose the drafts of this step; if that fails, draw why and return False."""
    new: dict[str, Callable[[], str]] = st.session_state.pop(_NEW, {})
    for field, keep in new.items():
        code = attempt(say, keep)
        if code is None:
            return False
        set_pick(field, code[:12])
    if new:
        start_afresh()
    return True


def keep_draft(say: Words) -> None:
    """Keep the drafts if the reader has left the page, which empties the upload box."""
    if _box_key("file") not in st.session_state:
        keep_new(say)
    st.session_state[_NEW] = {}


def start_afresh() -> None:
    """Empty the boxes for a new list by giving each a new key."""
    st.session_state[_NEW] = {}
    st.session_state[_ROUND] = st.session_state.get(_ROUND, 0) + 1


def _box_key(name: str) -> str:
    return f"names_{name}_{st.session_state.get(_ROUND, 0)}"


def keep_button(say: Words, field: str, keep: Callable[..., str], *, default: str = "") -> None:
    """Draw a title, by default `default`, and the button that keeps a draft under it."""
    title, button = st.columns([3, 1], vertical_alignment="bottom")
    label = title.text_input(
        say.text("audit_title_of_new"),
        value=default,
        key=_box_key(f"{field}_title"),
        max_chars=MAX_TITLE_CHARS,
        help=say.text("audit_title_of_new_help"),
    )
    st.session_state[_NEW][field] = partial(keep, label=label, store=cached.store())
    with button:
        is_pressed = draw_button(say, "audit_keep", name=f"keep_{field}", is_wide=True)
    if is_pressed and keep_new(say):
        st.rerun()


def choose_or_make(
    say: Words,
    field: str,
    lines: Sequence[Line],
    *,
    read_kept: Callable[[str], T],
    make: Callable[[T | None], T | None],
    draw: Callable[[T], None],
    is_open: bool = False,
) -> T | None:
    """Draw the choice of a kept list (or passages) and, folded, the inputs of a new one.

    `make` takes the chosen one and returns a new one, or None without inputs. The result is drawn
    and returned.
    """
    options = {line.code: line_text(say, line, field=field) for line in lines}
    code = pick(say, f"audit_{field}_list", options, parameter=field)
    choice = attempt(say, lambda: read_kept(code)) if code else None
    place, key = st.container(), f"{'other' if choice else 'new'}_{field}"
    with st.expander(say.text(f"audit_new_{field}"), key=key, expanded=is_open and choice is None):
        try:
            choice = (make(choice) if may("uploaded") else None) or choice
        except AuditError as error:
            choice = None
            with place:
                draw_refusal(say, error)
    if choice is not None:
        with place:
            draw(choice)
    return choice


def line_text(say: Words, line: Line, *, field: str) -> str:
    """Return the line of a list or of passages in a choice."""
    name = list_name(say, line) if line.code else line.label or say.text("audit_plan_new")
    text = say.text(f"audit_{field}_line", name=name, n=f"{line.n:,}")
    if not line.source:
        return text
    source = say.text(f"audit_source_short_{line.source}")
    return say.text("audit_line_source", line=text, source=source)


def ask_file(say: Words, field: str, *, forms: Sequence[str], box: str) -> Any:
    """Draw the box for a file; return the upload or None."""
    files = upload(
        say,
        f"audit_{field}_file_up",
        forms,
        max_mb=_MAX_MB[field],
        file_kind=field,
        name=box,
    )
    return files[0] if files else None


# The list of names.


def draw_names(say: Words, *, hospital: RegisteredModel | None) -> KeptNames | None:
    """Draw the choice of a list and the inputs of a new one; return the list for the audit."""
    view = choose_or_make(
        say,
        "names",
        lists.all_names(cached.store()),
        read_kept=cached.names,
        is_open=True,
        make=partial(make_list, say, hospital),
        draw=partial(draw_list, say, hospital),
    )
    if view is None:
        return None
    view = draw_source(say, view)
    if not view.line.code:
        keep = partial(lists.keep_names, view.candidates)
        keep_button(say, "names", keep, default=view.line.label)
    return view


def make_list(
    say: Words, hospital: RegisteredModel | None, base: KeptNames | None
) -> KeptNames | None:
    """Draw the inputs of a list; return the list or None. Raises as `cached.new_names`."""
    files = st.container()
    draw_corpus_lists(say)
    left, right = files.columns(2, gap="large")
    with left:
        draw_file_button(
            say,
            "names_template",
            lambda: make_names_template().encode("utf-8-sig"),
            label="audit_template",
            name="names_template",
            file_name="names-template.csv",
        )
        file = ask_file(say, "names", forms=NAMES_ENDINGS, box=_box_key("file"))
        can_start = base is not None and file is None
        is_started = can_start and draw_toggle(
            say, "audit_from", name=_box_key("from"), is_box=True
        )
        control_files = upload(
            say,
            "audit_own",
            NAMES_ENDINGS,
            max_mb=_MAX_MB["names"],
            file_kind="names",
            name=_box_key("own"),
        )
    with right:
        draw_remark(say, "audit_draw")
        kind_sizes = _ask_drawn_sizes(say)
    place = files.empty()

    def listen(progress: Progress) -> None:
        phase = progress.phase.replace(" ", "_")
        place.progress(progress.share, text=say.text(f"audit_phase_{phase}"))

    try:
        view = cached.new_names(
            file.getvalue() if file else None,
            base=base.line.code if base and (is_started or control_files) else "",
            control_bytes=control_files[0].getvalue() if control_files else None,
            kind_sizes=kind_sizes,
            model=None if hospital is None else hospital.path,
            progress=listen,
        )
    finally:
        place.empty()
    if view is not None:
        n_drawn = view.line.n - view.n_given - view.n_own
        counts = {"given": view.n_given, "own": view.n_own, "drawn": n_drawn}
        with files:
            draw_heading(say, "audit_draft", **{name: f"{n:,}" for name, n in counts.items()})
    elif control_files:
        draw_remark(say, "audit_own_alone")
    return view


def _ask_drawn_sizes(say: Words) -> dict[str, int]:
    """Draw one box for each kind of drawn controls; return their numbers."""
    return {
        kind: st.number_input(
            say.text(f"kind_{kind}"),
            min_value=0,
            max_value=MAX_DRAWN,
            step=10,
            key=_box_key(f"draw_{kind}"),
            help=say.text(f"audit_draw_{kind}_help"),
        )
        for kind in DRAWN
    }


def draw_source(say: Words, view: KeptNames) -> KeptNames:
    """Draw the source of the list's controls, or a question about it without a default.

    Returns the list with the answer, or the list itself if there is no answer.
    """
    draw_heading(say, "audit_source")
    if source := view.candidates.source:
        draw_remark(say, f"audit_source_{source}")
        return view
    answer = ask_source(
        say, view.candidates.possible_sources, key=f"source_{salted_digest(view.digest)[:12]}"
    )
    if answer is None:
        draw_remark(say, "audit_source_none")
        return view
    return cached.names_with_source(view, source=answer)


def draw_corpus_lists(say: Words) -> None:
    """Draw the choice of a corpus that was built here, to use its names and passages."""
    corpora = {corpus.corpus_id: corpus for corpus in CORPORA.all()}
    if not corpora:
        return
    corpus_id = st.selectbox(
        say.text("audit_of_corpus"),
        list(corpora),
        index=None,
        key=_box_key("corpus"),
        format_func=lambda code: corpus_name(say, corpora[code]),
        placeholder=say.text("pick_none"),
        help=say.text("audit_of_corpus_help"),
    )
    if not corpus_id or not draw_button(say, "audit_of_corpus_go", name="corpus_lists"):
        return
    corpus, store = corpora[corpus_id], cached.store()
    with st.spinner(say.text("audit_keeping")):
        list_digests = attempt(say, lambda: keep_lists(corpus, store=store))
    if list_digests is not None:
        for field, digest in zip(("names", "passages"), list_digests, strict=False):
            set_pick(field, digest[:12])
        start_afresh()
        st.rerun()


def draw_list(say: Words, hospital: RegisteredModel | None, view: KeptNames) -> None:
    """Draw a list: counts, remarks on its rows, word pieces, popularity, and its names."""
    truth = say.text("audit_has_truth" if view.candidates.has_truth else "audit_has_no_truth")
    encoding_text = say.text("audit_encoding", encoding=view.encoding) if view.encoding else ""
    list_facts = view.facts
    counts = {
        "audit_n_names": view.line.n,
        "audit_n_members": list_facts.n_members,
        **{f"kind_{kind}": n for kind, n in list_facts.by_kind.items()},
        "audit_n_unknown": list_facts.n_unknown,
        **{f"audit_script_{script}": n for script, n in list_facts.scripts.items()},
        **({"audit_n_one_part": list_facts.n_one_part} if list_facts.n_one_part else {}),
        "audit_n_mentions": list_facts.n_with_mentions,
    }
    columns: Columns = {"counted": list(map(say.text, counts)), "names": list(counts.values())}
    draw_table(say, "audit_counts", columns, caption=f"{encoding_text} {truth}".strip())
    if not view.line.code:
        draw_first_rows(say, view.candidates)
    warnings = []
    warnings += [render_message(note, say.language) for note in report_letter_case(view.candidates)]
    if kinds := guessed_kinds(view.candidates):
        warnings.append(render_message(Message(GUESSED_KINDS, **kinds), say.language))
    draw_notes(say, view.notes, title="audit_notes")
    draw_notes(say, view.own_notes, title="audit_own_notes")
    spelling = None
    if hospital is None:
        draw_remark(say, "audit_no_spelling")
    else:
        spelling = attempt(say, lambda: cached.spell_names(view, model=hospital.path))
    if spelling is not None and spelling.by_pieces.n_missing:
        warnings.append(say.text("audit_unspelt", n=spelling.by_pieces.n_missing))
    if spelling is not None and spelling.n_twins:
        twins = Message(TWINS, n_twins=spelling.n_twins, n_score=view.line.n)
        warnings.append(render_message(twins, say.language))
    for text in warnings:
        st.html(f'<p class="ka-warning">{escape_html(text)}</p>')
    with st.expander(say.text("audit_look"), key="look", expanded=not view.line.code):
        left, right = st.columns(2, gap="large")
        if spelling is not None:
            with left:
                draw_histogram(say, "audit_pieces", spelling.by_pieces, "{:.0f}".format)
        with right:
            draw_histogram(say, "audit_popularity", list_facts.popularity, power_of_ten)
        if draw_toggle(say, "audit_show_names", name="show_names"):
            draw_each(say, view, spelling)


def draw_notes(say: Words, notes: Sequence[RowNote], *, title: str) -> None:
    """Draw the notes on single rows."""
    if notes:
        n, visible_notes = f"{len(notes):,}", notes[:_MAX_NOTES]
        rows = [str(note.row) for note in visible_notes]
        remarks = [render_message(note.what, say.language) for note in visible_notes]
        with st.expander(say.text(title, n=n), key=title):
            columns = {"row": rows, "remark": remarks}
            draw_table(say, "audit_notes", columns, variant=title, shown=len(rows), n=n)


def power_of_ten(exponent: float) -> str:
    """Format a power of ten with a raised exponent."""
    return "10" + f"{exponent:g}".translate(_RAISED)


def draw_histogram(say: Words, key: str, bins: Bins, format_start: Callable[[float], str]) -> None:
    """Draw how many names fall into each bin: tested names rust, controls grey."""
    draw_heading(say, key)
    ticks, axis = list(map(format_start, bins.starts)), f"{key}_axis"
    columns = {"audit_tested": list(bins.n_tested), "audit_controls": list(bins.n_controls)}
    series = [
        Series(
            say.text(label),
            ticks,
            n,
            form="bars",
            is_attack=label == "audit_tested",
            hover="%{x}: %{y}",
        )
        for label, n in columns.items()
    ]
    x, y = Axis(say.text(axis), has_grid=False), Axis(say.text("audit_counts_names"))
    chart = plot(series, x=x, y=y, height=260)
    chart.update_xaxes(type="category")
    table: Columns = {axis: ticks, **columns}
    draw_figure(say, key, chart, table=table, n=bins.n_missing)


def draw_first_rows(say: Words, names: Candidates) -> None:
    """Draw the first rows of a list as they were read."""
    first_names = names.rows(range(min(N_FIRST_ROWS, len(names))))
    columns = {
        column: ["" if cell is None else str(cell) for cell in cells]
        for column, cells in _name_columns(say, first_names).items()
    }
    draw_table(say, "audit_first_rows", columns, names=name_form(), n=f"{len(names):,}")


def _name_columns(say: Words, names: Candidates) -> dict[str, Cells]:
    """Return the columns that every list has: row, masked or revealed name, kind, mentions."""

    def kind(is_member: bool | None, control: str) -> str:
        person_key = "audit_one_unknown" if is_member is None else "audit_one_member"
        return say.text(f"kind_{control}" if is_member is False else person_key)

    return {
        "audit_notes_row": list(names.row),
        "name": list(map(format_name, names.first, names.last)),
        "kind": list(map(kind, names.is_member, names.control_kind)),
        "mentions": list(names.n_mentions),
    }


def draw_each(say: Words, view: KeptNames, spelling: Spelling | None) -> None:
    """Draw the names themselves, masked until they are revealed."""
    names = view.candidates
    columns = _name_columns(say, names)
    for part, counts in (("first", names.n_others_first), ("last", names.n_others_last)):
        if any(n is not None for n in counts):
            columns[f"others_{part}"] = list(counts)
    if spelling is not None:
        columns["audit_pieces_axis"] = [n or None for n in spelling.n_pieces]
    if is_revealed():  # the share in a public table almost tells the name
        columns["popularity"] = [
            UNDEFINED if math.isnan(log) else decimal(log, digits=1)
            for log in view.facts.log_popularity
        ]
    draw_frame(say, "audit_table", columns, audit="")


# The passages of the de-identified notes; the attacker of scenario 2 has a copy of them.


def draw_passages(say: Words, *, names: KeptNames | None) -> KeptPassages | None:
    """Draw the choice of passages and their upload; return the passages for the audit.

    `names` is the chosen list: its names are masked in the passage that is shown.
    """

    def make(base: KeptPassages | None) -> KeptPassages | None:
        file = ask_file(say, "passages", forms=PASSAGES_ENDINGS, box=_box_key("passages"))
        placeholder = st.text_input(
            say.text("audit_placeholder"),
            key=_box_key("placeholder"),
            max_chars=MAX_PLACEHOLDER_CHARS,
            help=say.text("audit_placeholder_help"),
        )
        if file is None:
            return None
        new = cached.new_passages(
            file.getvalue(), file_name=file.name, placeholder=placeholder.strip()
        )
        keep_button(
            say, "passages", partial(lists.keep_passages, new.data, file_name=new.file_name)
        )
        return new

    draw_heading(say, "audit_passages")
    return choose_or_make(
        say,
        "passages",
        lists.list_passages(cached.store()),
        read_kept=cached.passages,
        make=make,
        draw=partial(draw_example, say, names=names),
    )


def draw_example(say: Words, kept_passages: KeptPassages, *, names: KeptNames | None) -> None:
    """Draw counts, the rows left out, and one passage with a mark in the name's place."""
    passages = kept_passages.passages
    owners = say.text("audit_owners_yes" if passages.has_owners else "audit_owners_no")
    if passages.has_owners and names is not None:
        listed = names.candidates
        n, n_unlisted = count_owners(passages.passages, first=listed.first, last=listed.last)
        key = "audit_owners_listed" if n else "audit_owners_unlisted"
        owners = say.text(key, n=f"{n:,}", n_unlisted=f"{n_unlisted:,}")
    draw_remark(
        say,
        "audit_passages_counts",
        n=f"{len(passages):,}",
        left_out=f"{len(passages.notes):,}",
        encoding=passages.encoding,
        owners=owners,
    )
    draw_notes(say, passages.notes, title="audit_left_out")
    is_new = not kept_passages.line.code
    with st.expander(say.text("audit_example"), key="example", expanded=is_new):
        finder = cached.list_finder(names)
        for passage in passages.passages[:N_FIRST_ROWS]:
            slot = passage.separator.join(say.text(f"audit_slot_{role}") for role in passage.slots)
            text = passage_html(
                passage, names=finder, slot=slot, tone="member", around=_CONTEXT_CHARS
            )
            st.html(note_box(text, tone="ka-passage"))
