"""Two audits beside each other on the Measures page: flags, AUCs, names, and what was asked."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from audit.report.compare import Comparison
from audit.report.report import KeptAudit
from pages.ui import blocks, cached
from pages.ui.language import Words
from pages.ui.measure_choice import choose
from pages.ui.measure_tables import p_value
from pages.ui.place import place
from pages.ui.reveal import shown_name
from pages.ui.text import day, decimal, decimal_interval

_NAMED_SETTINGS = (
    "general_name", "hospital_name", "scenario", "general", "hospital", "candidates", "passages",
    "seed", "threshold", "dtype", "n_inputs", "n_chain_inputs", "is_dropout_on", "micro_batch",
    "max_tokens", "n_documents", "n_steps", "n_tokens", "top_k", "temperature", "prompt",
    "is_remasked", "evidence_version", "name_pool", "n_rows_left_out", "fixed_score", "n_names",
)  # fmt: skip


def draw(say: Words, audit: KeptAudit) -> None:
    """Draw the choice of a second audit, and the comparison."""
    others = {line.digest[:12]: line for line in place().kept if line.digest != audit.digest}
    if not others:
        why = say.text("measures_no_other_do")
        st.html(blocks.heading(say.text("measures_no_other"), below=why))
        return
    first = sorted(others, key=lambda code: others[code].scenario != audit.scenario)
    code = choose(
        "other",
        first,
        label=say.text("measures_other"),
        shown=lambda c: _line(say, others[c]),
        is_long=True,
    )
    found = cached.comparison(audit.digest, other=others[code].digest)
    st.html(
        blocks.heading(
            "",
            below=say.text(
                "measures_paired",
                n=len(found.names),
                one=found.n_only_one,
                other=found.n_only_other,
                differs=found.n_truth_differs,
            ),
        )
    )
    if found.names.empty:
        return
    _draw_flags(say, found)
    _draw_aucs(say, found)
    _draw_names(say, found)
    _draw_settings(say, found)


def _line(say: Words, line: KeptAudit) -> str:
    return say.text(
        "measures_other_line_demo" if line.is_demo else "measures_other_line",
        scenario=line.scenario,
        hospital=line.hospital,
        at=day(line.at),
        digest=line.digest[:12],
    )


def _draw_flags(say: Words, found: Comparison) -> None:
    st.html(blocks.heading(say.text("measures_flags"), below=say.text("measures_flags_below")))
    rows = []
    for key, flags in (("measures_tested", found.tested), ("measures_controls", found.controls)):
        if flags.n_names:
            rows.append(
                (
                    say.text(key),
                    *map(str, (flags.both, flags.only_one, flags.only_other, flags.neither)),
                    p_value(flags.p),
                )
            )
    keys = ("both", "only_one", "only_other", "neither")
    header = [
        say.text("column_kind"),
        *(say.text(f"measures_flagged_{key}") for key in keys),
        say.text("measures_mcnemar"),
    ]
    st.html(blocks.simple_table(header, rows, caption=say.text("measures_flags_caption")))


def _draw_aucs(say: Words, found: Comparison) -> None:
    st.html(blocks.heading(say.text("measures_aucs"), below=say.text("measures_aucs_below")))
    if not found.aucs:
        st.html(blocks.heading("", below=say.text("measures_no_truth_do")))
        return
    rows = [
        (
            say.text("measures_controls" if one.stratum == "all" else f"kind_{one.stratum}"),
            str(one.n_members),
            str(one.n_controls),
            decimal(one.one),
            decimal(one.other),
            decimal(one.difference.value),
            decimal_interval(one.difference),
        )
        for one in found.aucs
    ]
    keys = ("n_members", "n_controls", "auc_one", "auc_other", "auc_difference")
    header = [
        say.text("paper_controls"),
        *(say.text(f"measures_{key}") for key in keys),
        say.text("column_interval"),
    ]
    st.html(blocks.simple_table(header, rows, caption=say.text("measures_aucs_caption")))


def _draw_names(say: Words, found: Comparison) -> None:
    st.html(blocks.heading(say.text("measures_pairs")))
    only = st.toggle(say.text("measures_only_different"), value=True, key="measures_only_different")
    names = found.names[found.names["is_different"]] if only else found.names
    st.html(blocks.heading("", below=say.text("measures_n_pairs", n=len(names))))
    if len(names):
        st.dataframe(
            _columns(say, names),
            hide_index=True,
            key="measures_pairs",
            alt=say.text("measures_pairs"),
        )


def _columns(say: Words, names: pd.DataFrame) -> dict[str, list[object]]:
    kinds = {
        kind: say.text("measures_kind_differs" if kind == "differs" else f"kind_{kind}")
        for kind in set(names["kind"])
    }
    flag_words = {
        True: say.text("measures_flag_yes"),
        False: say.text("measures_flag_no"),
        None: say.text("column_missing"),
    }
    table: dict[str, list[object]] = {
        say.text("column_number"): names["number"].tolist(),
        say.text("column_name"): list(map(shown_name, names["first_name"], names["last_name"])),
        say.text("column_kind"): [kinds[kind] for kind in names["kind"]],
    }
    for behind, of in (("", "one"), ("_other", "other")):
        table[say.text(f"measures_score_of_{of}")] = names[f"score{behind}"].tolist()
        table[say.text(f"measures_q_of_{of}")] = names[f"q{behind}"].tolist()
        flags = names[f"is_flagged{behind}"]
        table[say.text(f"measures_flag_of_{of}")] = [flag_words[flag] for flag in flags]
    return table


def _draw_settings(say: Words, found: Comparison) -> None:
    st.html(
        blocks.heading(say.text("measures_settings"), below=say.text("measures_settings_below"))
    )
    only = st.toggle(
        say.text("measures_only_different_settings"),
        value=True,
        key="measures_only_different_settings",
    )
    rows = [
        (_setting_name(say, key), *map(_short, found.settings[key]))
        for key in sorted(found.settings, key=_setting_place)
        if found.settings[key][0] != found.settings[key][1] or not only
    ]
    if not rows:
        st.html(blocks.heading("", below=say.text("measures_settings_same")))
        return
    header = [say.text(f"measures_setting_{key}") for key in ("name", "one", "other")]
    caption = say.text("measures_settings")
    st.html(blocks.simple_table(header, rows, caption=caption, n_text=3))


def _setting_place(key: str) -> int:
    return (*_NAMED_SETTINGS, key).index(key)


def _setting_name(say: Words, key: str) -> str:
    return say.text(f"measures_asked_{key}") if key in _NAMED_SETTINGS else key


def _short(value: str) -> str:
    is_digest = len(value) == 64 and value.isalnum()
    return value[:12] if is_digest else value or "—"
