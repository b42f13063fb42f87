"""Step 2 of an audit: whose names are asked about, and the passages of the notes without names."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import streamlit as st

from audit.corpus.candidate_lists import keep_lists
from audit.corpus.kept import CORPORA
from audit.errors import AuditError, Message, written
from audit.models.registry import RegisteredModel
from audit.names.candidates import GUESSED_KINDS, guessed_kinds
from audit.names.controls import MAX_DRAWN
from audit.names.facts import Bins, Spelling
from audit.names.files import names_template
from audit.names.lists import KeptPassages, all_names, all_passages, keep_names, keep_passages
from audit.progress import Progress
from audit.shelf import MAX_TITLE_CHARS
from audit.tables import UNDEFINED, RowNote, decimal
from pages.ui import blocks, cached, section
from pages.ui.access import is_revealed, may, note_upload, shown_name
from pages.ui.blocks import escaped, refused, with_slot
from pages.ui.cached import ListView
from pages.ui.called import corpus_name, list_name
from pages.ui.charts import Axis, Series, plot
from pages.ui.form import pick, take
from pages.ui.section import Table, attempt, figure, head, remark
from pages.ui.state import Words

DRAWN = ("easy", "hard", "recombined")
_MAX_NAMES_MB, _MAX_PASSAGES_MB = 20, 50
_MAX_NOTES, _CONTEXT_CHARS = 200, 400
_NEW, _ROUND = "audit_new", "audit_round"
_RAISED = str.maketrans("-0123456789.", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹·")
Keep = Callable[[], str]


# What is new in this step is kept by a button, by starting the audit, or by leaving the page.


def keep_new(say: Words) -> bool:
    """Keep and choose what has been made in this step; say why, and return False, if it fails."""
    new: dict[str, Keep] = st.session_state.pop(_NEW, {})
    for field, keep in new.items():
        code = attempt(say, keep)
        if code is None:
            return False
        take(field, code[:12])
    if new:
        start_afresh()
    return True


def keep_left(say: Words) -> None:
    """Keep what was made when the reader left the page: the box to upload is empty since."""
    if _box("file") not in st.session_state:
        keep_new(say)
    st.session_state[_NEW] = {}


def start_afresh() -> None:
    """Empty the boxes of which a list is made: each gets another key."""
    st.session_state[_NEW] = {}
    st.session_state[_ROUND] = st.session_state.get(_ROUND, 0) + 1


def _box(name: str) -> str:
    return f"names_{name}_{st.session_state.get(_ROUND, 0)}"


def keep_button(say: Words, field: str, keep: Callable[[str], str]) -> None:
    """Draw the title and the button that keeps a new thing; `keep` takes the title."""
    title, button = st.columns([3, 1], vertical_alignment="bottom")
    label = title.text_input(
        say.text("audit_title_of_new"), key=_box(f"{field}_title"), max_chars=MAX_TITLE_CHARS,
        help=say.text("audit_title_of_new_help"),
    )  # fmt: skip
    st.session_state[_NEW][field] = lambda: keep(label)
    pressed = button.button(say.text("audit_keep"), key=f"keep_{field}", width="stretch")
    if pressed and keep_new(say):
        st.rerun()


# The list of names.


def draw_names(say: Words, *, hospital: RegisteredModel | None) -> ListView | None:
    """Draw the choice of a list and the making of one; return the one to be asked about."""
    remark(say, "audit_names_below")
    lines = {line.code: line for line in all_names(cached.store())}
    options = {
        code: say.text("audit_names_line", name=list_name(say, one), n=f"{one.n:,}")
        for code, one in lines.items()
    }
    code = pick(say, "names", options, label=say.text("audit_names_list"))
    kept = attempt(say, lambda: cached.names(code)) if code else None
    place, found = st.container(), None
    key = "new_list" if kept is None else "other_list"
    with st.expander(say.text("audit_new_list"), key=key, expanded=kept is None):
        if may("uploaded"):
            found = draw_new(say, base=kept, hospital=hospital)
            draw_corpus_lists(say)
    view = (found or kept) if not isinstance(found, AuditError) else None
    with place:
        if isinstance(found, AuditError):
            refused(say, found)
        elif view is not None:
            draw_list(say, view, hospital=hospital)
    return view


def draw_new(
    say: Words, *, base: ListView | None, hospital: RegisteredModel | None
) -> ListView | AuditError | None:
    """Draw what a list is made of; return it, None for nothing, or why it cannot be used."""
    left, right = st.columns(2, gap="large")
    with left:
        data, start = ask_file(say, base=base)
    with right:
        remark(say, "audit_draw")
        wanted = {
            kind: st.number_input(
                say.text(f"kind_{kind}"), min_value=0, max_value=MAX_DRAWN, step=10,
                key=_box(f"draw_{kind}"), help=say.text(f"audit_draw_{kind}_help"),
            )
            for kind in DRAWN
        }  # fmt: skip
    place = st.empty()

    def listen(progress: Progress) -> None:
        phase = progress.phase.replace(" ", "_")
        place.progress(progress.share, text=say.text(f"audit_phase_{phase}"))

    model = hospital.path if hospital is not None else None
    try:
        view = cached.new_names(data, base=start, wanted=wanted, model=model, progress=listen)
    except AuditError as error:
        return error
    finally:
        place.empty()
    if view is not None and view.draft is not None:
        head(say, "audit_draft", given=f"{view.draft.n_given:,}", drawn=f"{view.draft.n_drawn:,}")
        candidates = view.candidates
        keep_button(
            say, "names",
            lambda label: keep_names(candidates, label=label, store=cached.store()),
        )  # fmt: skip
    return view


def ask_file(say: Words, *, base: ListView | None) -> tuple[bytes | None, str]:
    """Ask for a file; return its bytes, and the code of the kept list to start from."""
    st.download_button(
        say.text("audit_template"), data=names_template().encode("utf-8-sig"),
        file_name="names-template.csv", mime="text/csv", icon=":material/download:",
        key="names_template", on_click="ignore",
    )  # fmt: skip
    remark(say, "audit_file_below")
    file = st.file_uploader(
        say.text("audit_names_file_up"), type="csv", key=_box("file"), max_upload_size=_MAX_NAMES_MB
    )
    if file is not None:
        note_upload(file, what="names")
        return file.getvalue(), ""
    is_started = base is not None and st.checkbox(
        say.text("audit_from_chosen"), key=_box("from"), help=say.text("audit_from_help")
    )
    return None, base.line.code if base and is_started else ""


def draw_corpus_lists(say: Words) -> None:
    """Draw the way to the names and passages of a corpus that was built here."""
    corpora = {one.corpus_id: one for one in CORPORA.all()}
    if not corpora:
        return
    corpus_id = st.selectbox(
        say.text("audit_of_corpus"), list(corpora), index=None, key=_box("corpus"),
        format_func=lambda one: corpus_name(say, corpora[one]), placeholder=say.text("pick_none"),
        help=say.text("audit_of_corpus_help"),
    )  # fmt: skip
    if not corpus_id or not st.button(say.text("audit_of_corpus_go"), key="corpus_lists"):
        return
    corpus, store = corpora[corpus_id], cached.store()
    with st.spinner(say.text("audit_keeping")):
        kept = attempt(say, lambda: keep_lists(corpus, controls=("easy", "hard"), store=store))
    for field, digest in zip(("names", "passages"), kept or (), strict=False):
        take(field, digest[:12])
    if kept is not None:
        start_afresh()
        st.rerun()


def draw_list(say: Words, view: ListView, *, hospital: RegisteredModel | None) -> None:
    """Draw a list: counts, remarks on its rows, word pieces, popularity, and its names."""
    truth = say.text("audit_has_truth" if view.candidates.has_truth else "audit_has_no_truth")
    read = say.text("audit_encoding", encoding=view.encoding) if view.encoding else ""
    rows = [(label, f"{n:,}") for label, n in counts(say, view)]
    table = Table(["audit_column_counted", "audit_column_names"], rows)
    section.draw_table(say, "audit_counts", table, caption=f"{read} {truth}".strip())
    if kinds := guessed_kinds(view.candidates):
        warn(written(Message(GUESSED_KINDS, **kinds), say.language))
    draw_notes(say, view.notes, title="audit_notes")
    spelling = None
    if hospital is None:
        remark(say, "audit_no_spelling")
    else:
        spelling = attempt(say, lambda: cached.spelt(view, model=hospital.path))
    if spelling is not None and spelling.by_pieces.n_missing:
        warn(say.text("audit_unspelt", n=spelling.by_pieces.n_missing))
    with st.expander(say.text("audit_look"), key="look", expanded=view.draft is not None):
        left, right = st.columns(2, gap="large")
        if spelling is not None:
            with left:
                ticks = [f"{start:.0f}" for start in spelling.by_pieces.starts]
                draw_histogram(say, "audit_pieces", spelling.by_pieces, ticks)
        with right:
            bins = view.facts.popularity
            ticks = [f"10{f'{start:g}'.translate(_RAISED)}" for start in bins.starts]
            draw_histogram(say, "audit_popularity", bins, ticks)
        if st.toggle(say.text("audit_show_names"), key="show_names"):
            draw_table(say, view, spelling)


def counts(say: Words, view: ListView) -> list[tuple[str, int]]:
    """Return what is counted of a list, in words."""
    facts = view.facts
    found = [("audit_n_names", view.line.n), ("audit_n_members", facts.n_members)]
    found += [(f"kind_{kind}", n) for kind, n in facts.by_kind.items()]
    found.append(("audit_n_unknown", facts.n_unknown))
    found += [(f"audit_script_{script}", n) for script, n in facts.scripts.items()]
    if facts.n_one_part:
        found.append(("audit_n_one_part", facts.n_one_part))
    found.append(("audit_n_mentions", facts.n_with_mentions))
    return [(say.text(key), n) for key, n in found]


def warn(text: str) -> None:
    """Draw what must not be overlooked."""
    st.html(f'<p class="ka-refused">{escaped(text)}</p>')


def draw_notes(say: Words, notes: Sequence[RowNote], *, title: str) -> None:
    """Draw what is to be known of single rows."""
    if not notes:
        return
    with st.expander(say.text(title, n=f"{len(notes):,}"), key=title):
        rows = [(f"{one.row}", written(one.what, say.language)) for one in notes[:_MAX_NOTES]]
        table = Table(["audit_column_row", "audit_column_remark"], rows, n_text=2)
        section.draw_table(
            say, "audit_notes", table, has_csv=False, shown=len(rows), n=f"{len(notes):,}"
        )


def draw_histogram(say: Words, key: str, bins: Bins, ticks: list[str]) -> None:
    """Draw how many names fall into each bin: tested names rust, controls grey."""
    head(say, key)
    labels, axis = [say.text("audit_tested"), say.text("audit_controls")], say.text(f"{key}_axis")
    groups = zip(labels, (bins.n_tested, bins.n_controls), (True, False), strict=True)
    chart = plot(
        [
            Series(label, ticks, list(n), form="bars", is_attack=is_tested, hover="%{x}: %{y}")
            for label, n, is_tested in groups
        ],
        x=Axis(axis, has_grid=False), y=Axis(say.text("audit_column_names")), height=260,
    )  # fmt: skip
    chart.update_xaxes(type="category")
    places = zip(ticks, bins.n_tested, bins.n_controls, strict=True)
    rows = [(tick, f"{tested:,}", f"{controls:,}") for tick, tested, controls in places]
    figure(say, key, chart, table=Table([axis, *labels], rows), n=bins.n_missing)


def draw_table(say: Words, view: ListView, spelling: Spelling | None) -> None:
    """Draw the names themselves, masked until they are revealed."""
    names = view.candidates

    def kind(is_member: bool | None, control: str) -> str:
        if is_member is None:
            return say.text("audit_one_unknown")
        return say.text("audit_one_member") if is_member else say.text(f"kind_{control}")

    columns: dict[str, list[object]] = {
        say.text("audit_column_row"): list(names.row),
        say.text("column_name"): list(map(shown_name, names.first, names.last)),
        say.text("column_kind"): list(map(kind, names.is_member, names.control_kind)),
        say.text("column_mentions"): list(names.n_mentions),
    }
    if spelling is not None:
        columns[say.text("audit_pieces_axis")] = [n or None for n in spelling.n_pieces]
    if is_revealed():  # a share in a public table of names tells a name
        columns[say.text("audit_column_popularity")] = [
            UNDEFINED if math.isnan(log) else decimal(log, digits=1)
            for log in view.facts.log_popularity
        ]
    section.frame(say, "audit_table", columns, audit="")


# The passages of the de-identified notes, of which the attacker of scenario 2 has a copy.


def draw_passages(say: Words) -> KeptPassages | None:
    """Draw the choice of passages and their upload; return those to be asked about."""
    head(say, "audit_passages")
    lines = {line.code: line for line in all_passages(cached.store())}
    options = {
        code: say.text("audit_passages_line", name=list_name(say, one), n=f"{one.n:,}")
        for code, one in lines.items()
    }
    code = pick(say, "passages", options, label=say.text("audit_passages_list"))
    found = attempt(say, lambda: cached.passages(code)) if code else None
    place = st.container()
    with st.expander(say.text("audit_new_passages"), key="new_passages"):
        remark(say, "audit_passages_format")
        file = st.file_uploader(
            say.text("audit_passages_file_up"), type=["csv", "jsonl", "ndjson", "json"],
            key=_box("passages"), max_upload_size=_MAX_PASSAGES_MB,
            disabled=not may("uploaded"),
        )  # fmt: skip
        if file is not None:
            note_upload(file, what="passages")
            found = new = attempt(
                say, lambda: cached.new_passages(file.getvalue(), file_name=file.name)
            )
            if new is None:
                return None
            keep_button(
                say, "passages",
                lambda label: keep_passages(
                    new.data, file_name=new.file_name, label=label, store=cached.store()
                ),
            )  # fmt: skip
    if found is not None:
        with place:
            draw_facts(say, found)
    return found


def draw_facts(say: Words, kept: KeptPassages) -> None:
    """Draw counts, the rows left out, and one passage with the name's place marked."""
    passages = kept.passages
    values = {"n": f"{len(passages):,}", "left_out": f"{len(passages.notes):,}"}
    counted = say.text("audit_passages_counts", encoding=passages.encoding, **values)
    owners = say.text("audit_owners_yes" if passages.has_owners else "audit_owners_no")
    st.html(blocks.heading("", below=f"{counted} {owners}"))
    draw_notes(say, passages.notes, title="audit_left_out")
    with st.expander(say.text("audit_example"), key="example"):
        passage = passages.passages[0]
        slot = passage.separator.join(say.text(f"audit_slot_{role}") for role in passage.slots)
        before, after = passage.left[-_CONTEXT_CHARS:], passage.right[:_CONTEXT_CHARS]
        text = with_slot(before, slot=slot, after=after, tone="member")
        st.html(f'<p class="ka-passage">{text}</p>')
