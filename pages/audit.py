"""New audit: which models, whose names, which attacker; its plan, its start and its progress."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from audit.attack.cohort import GROUP_AUC
from audit.attack.plan import PRESETS, Plan, choose_prompt
from audit.attack.question import (
    CAUSAL,
    SCENARIOS,
    SETTINGS,
    AuditRequest,
    RunSettings,
    Settings,
    attack_code,
    settings_field,
)
from audit.attack.run_memory import Memory
from audit.errors import AuditError, render_message
from audit.jobs import service
from audit.models import registry
from audit.models.adapters import is_declared
from audit.models.inspect import AdapterSummary, is_adapter
from audit.models.registry import PairCheck, RegisteredModel, look_up_digest
from audit.names.candidates import Candidates
from audit.names.files import encode_names_csv
from audit.names.lists import KeptNames, KeptPassages
from audit.report.audit_store import is_kept, read_finished_sizes
from audit.report.report import choose_audit
from audit.run import AuditInputs, AuditTask
from audit.training.trainings import find_header
from audit.words import Words
from pages.ui import blocks, cached, conversion_panel, section
from pages.ui.access import may, may_or_explain
from pages.ui.audit_names import (
    draw_names,
    draw_passages,
    keep_draft,
    keep_new,
    line_text,
    start_afresh,
)
from pages.ui.blocks import Cell, format_moment, format_percent
from pages.ui.display_names import audited_names, model_name, model_names
from pages.ui.form import ask_fields, choose, draw_button, pick, set_pick
from pages.ui.judging import find_siblings, sibling_line
from pages.ui.running import FollowedJobs
from pages.ui.section import (
    attempt,
    draw_absence,
    draw_facts,
    draw_heading,
    draw_remark,
    draw_step_card,
    draw_table,
)
from pages.ui.state import go_to

JOBS = FollowedJobs("audit", "audit", lambda _, digest: go_to("verdict", audit=digest))
_PICKED = ("general", "hospital", "names", "passages", "sibling")
_OTHERS = ("scenario", "preset", "like")
_MEMORY = "audit_choices"
_KART = {"k": "knowledge", "a": "anonymization", "r": "resource", "t": "target"}
Pair = dict[str, RegisteredModel]
"""The chosen models: "general", "hospital"."""


@dataclass(frozen=True)
class Attacker:
    """The attack that is chosen: fields of a request, and the place for further settings."""

    fields: dict[str, Any]
    settings_place: DeltaGenerator


def draw(say: Words) -> None:
    """Draw the three steps, each ready or with what it lacks, the plan and the start."""
    may_or_explain("ran", say)
    follow_link()
    keep_draft(say)
    again = draw_again(say)
    with draw_step_card(say, "audit_models", number=1) as is_done:
        pair = draw_models(say)
        is_done(pair is not None)
    is_whole = again is not None and not again.missing
    first, rest = st.container(), st.container()
    if is_whole:  # only the model remains to be chosen
        rest = rest.expander(say.text("audit_like_rest"), key="taken_over")
    with rest, draw_step_card(say, "audit_names", number=2) as is_done:
        names = draw_names(say, hospital=None if pair is None else find_text_model(pair))
        is_done(names is not None)
        passages = draw_passages(say, names=names)
    if passages is not None:
        st.query_params.setdefault("scenario", "2")
    with rest, draw_step_card(say, "audit_attacker", number=3) as is_done:
        candidates = None if names is None else names.candidates
        is_causal = asks_causal_models(pair, again=again)
        attacker = attempt(
            say,
            lambda: draw_attacker(
                say, candidates=candidates, again=again, is_causal=is_causal, pair=pair
            ),
        )
        is_done(attacker is not None)
    with first if is_whole else rest, st.container(border=True, key="audit_plan"):
        draw_heading(say, "audit_plan")
        if attacker is not None:
            attempt(say, lambda: draw_plan(say, pair, names, passages, attacker))
    st.session_state[_MEMORY] = {key: st.query_params.get(key, "") for key in _OTHERS}


def follow_link() -> None:
    """Make exactly the choices of the link; without any, restore the last choices."""
    query, last_choices = st.query_params, st.session_state.get(_MEMORY, {})
    if any(key in query for key in (*_PICKED, *_OTHERS)):
        for key in _PICKED:
            set_pick(key, query.get(key, ""))
    else:
        query.update({key: code for key, code in last_choices.items() if code})


# An audit that is repeated.


def draw_again(say: Words) -> AuditInputs | None:
    """Offer to repeat an audit with a new model; return its inputs if that is chosen."""
    digest_prefix = st.query_params.get("like", "")
    line = choose_audit(digest_prefix, audits=cached.kept_audits()[0], demo={})
    if line is None or (line.is_demo and not digest_prefix):
        if digest_prefix:
            draw_remark(say, "audit_like_gone")
        return None
    line_fields = {
        "hospital": audited_names(say, line)["hospital"],
        "at": format_moment(line.at),
    }
    with st.container(border=True, key="again"):
        if not digest_prefix:
            draw_heading(
                say, "audit_again", scenario=line.scenario, n=f"{line.n_names:,}", **line_fields
            )
            draw_button(
                say,
                "audit_again_go",
                name="again_go",
                icon="replay",
                on_click=lambda: take_over(line.digest),
            )
            return None
        if "preset" not in st.query_params:
            take_over(line.digest)
        again = cached.request_to_repeat(line.digest)
        draw_heading(say, "audit_like", **line_fields)
        for field in again.missing:
            draw_remark(say, f"audit_like_no_{field}")
        draw_button(
            say, "audit_like_off", name="like_off", kind="tertiary", on_click=stop_repeating
        )
    return again


def take_over(digest: str) -> None:
    """Choose all inputs of an audit except its hospital model."""
    again = cached.request_to_repeat(digest)
    for key in _PICKED:
        set_pick(key, "" if key == "hospital" else getattr(again, key))
    start_afresh()
    preset = "same" if again.settings is not None else "quick"
    st.query_params.update(like=digest[:12], scenario=str(again.scenario), preset=preset)


def stop_repeating() -> None:
    """Stop repeating an audit; the choices stay."""
    for key in ("like", "preset"):
        st.query_params.pop(key, None)


# Step 1: the general model and the hospital's, and what differs between them.


def draw_models(say: Words) -> Pair | None:
    """Draw the choice of models; return the pair, or None if it is incomplete or not comparable."""
    models = cached.models()
    left, right = st.columns(2, gap="large")
    with right:
        code = pick(say, "audit_model_hospital", model_names(say, models, with_adapters=True))
    hospital = registry.find_model(code, models=models)
    is_adapter = hospital is not None and hospital.adapter is not None
    with left:
        bases = registry.find_bases(hospital, models) if hospital and is_adapter else models
        base_names = model_names(say, bases)
        if hospital and hospital.adapter:
            for base in bases:
                if is_declared(hospital.adapter.base, name=base.name):
                    base_name = base_names[base.model_id]
                    base_names[base.model_id] = say.text("audit_base_declared", model=base_name)
        code = pick(say, "audit_model_general", base_names)
        general = registry.find_model(code, models=bases)
        if hospital and hospital.adapter:
            draw_bases(say, hospital.adapter, n_bases=len(bases))
            if general:
                conversion_panel.draw_rounding(say, general)
    draw_folders(say, models, is_pair_chosen=bool(general and hospital))
    if is_adapter and general is None:
        return None
    chosen_models = {"general": general, "hospital": hospital}
    pair = {field: model for field, model in chosen_models.items() if model is not None}
    return pair if pair and draw_pair(say, pair) else None


def draw_bases(say: Words, adapter: AdapterSummary, *, n_bases: int) -> None:
    """Draw what an adapter says about its base, and whether any listed model has its shapes."""
    declared = adapter.base or say.text("audit_base_unnamed")
    facts = {"rank": ", ".join(map(str, adapter.ranks)), "n": f"{adapter.n_parameters:,}"}
    draw_remark(say, "audit_bases" if n_bases else "audit_no_base", declared=declared, **facts)


def asks_causal_models(pair: Pair | None, *, again: AuditInputs | None) -> bool:
    """Return whether an audit asks causal models, by its pair or else by the one repeated."""
    if pair is not None:
        summary = find_text_model(pair).summary
        return summary is not None and summary.config.is_causal
    causal_settings = tuple(SETTINGS[True, number] for number in SCENARIOS)
    return again is not None and isinstance(again.settings, causal_settings)


def find_text_model(pair: Pair) -> RegisteredModel:
    """Return the model whose tokenizer splits text for both models of a pair."""
    return pair["general"] if pair["hospital"].adapter else pair["hospital"]


def draw_folders(say: Words, models: tuple[RegisteredModel, ...], *, is_pair_chosen: bool) -> None:
    """Draw which folders are searched for models, which models are refused, and conversions.

    How to register a folder is told until two models are chosen.
    """
    folders = registry.count_registered(models)
    if not folders and not is_pair_chosen:
        draw_absence(say, "audit_no_folder")
        st.code(f"{registry.VARIABLE}=DIR python -m streamlit run app.py", language="bash")
    for folder, n in folders.items():
        if not n:
            draw_remark(
                say, "audit_folder_gone" if n is None else "audit_folder_empty", folder=folder
            )
    if refused_models := [model for model in models if model.refusal]:
        with st.expander(
            say.text("audit_refused_models", n=len(refused_models)), key="refused_models"
        ):
            names = [model_name(say, model.model_id) for model in refused_models]
            reasons = [render_message(model.refusal, say.language) for model in refused_models]
            draw_table(say, "audit_refused", {"model": names, "reason": reasons})
            conversion_panel.draw_conversion(say, models)
    conversion_panel.JOBS.draw(say)
    conversion_panel.draw_converted(say)


def draw_pair(say: Words, pair: Pair) -> bool:
    """Draw the facts of the chosen models; return whether they are two models to compare."""
    paths = [model.path for model in pair.values()]
    try:
        check = cached.check_pair(paths[0], paths[-1])
        with st.spinner(say.text("audit_digest_wait")):
            digests = {field: look_up_digest(model.path) for field, model in pair.items()}
            if len(pair) == 2:
                digests["hospital"] = registry.look_up_hospital_digest(*paths)
    except AuditError as error:
        blocks.draw_refusal(say, error)
        return False
    is_pair, is_same = len(pair) == 2, len(set(digests.values())) == 1
    if check.refusal:
        why = render_message(check.refusal, say.language)
        st.html(blocks.heading(say.text("audit_pair_refused"), below=why))
    elif is_pair:
        draw_heading(say, "audit_pair_same" if is_same else "audit_pair_fits")
    if slowdowns := check.traits.get("slowdown"):
        st.caption(say.text("audit_plain_pass", n=max(slowdowns)))
    draw_traits(say, check, digests)
    return is_pair and not check.refusal and not is_same


def draw_traits(say: Words, check: PairCheck, digests: dict[str, str]) -> None:
    """Draw the facts of the chosen models, the differing ones first."""
    differing_codes = {code for code, traits in check.traits.items() if len(set(traits)) > 1}
    codes = sorted(check.traits, key=lambda code: code not in differing_codes)
    columns = {"what": [say.text(f"audit_trait_{code}") for code in codes]}
    for place, field in enumerate(digests):
        traits = [check.traits[code][place] for code in codes]
        columns[field] = [
            f"{trait:,}" if isinstance(trait, int) else str(trait) for trait in traits
        ]
    label = say.text("audit_facts")
    if len(digests) == 2:
        label = say.text("audit_differences", n=len(differing_codes))
        columns["compared"] = [
            say.text("audit_differs" if code in differing_codes else "audit_equal")
            for code in codes
        ]
    with st.expander(label, key="differences", expanded=bool(check.refusal)):
        draw_table(say, "audit_traits", columns)
        with section.fold_details(say, "digests"):
            draw_facts(say, "audit_digests", digests)


# Step 3: the attacker and the length of the attack.


def draw_attacker(
    say: Words,
    *,
    candidates: Candidates | None,
    again: AuditInputs | None,
    is_causal: bool,
    pair: Pair | None,
) -> Attacker:
    """Draw both scenarios, the presets and, folded away, every setting.

    A causal model that was trained here is asked after the text that stood before its notes.
    Raises as `Record.with_`.
    """
    scenario = int(choose(say, "audit_has", list(map(str, SCENARIOS)), parameter="scenario"))
    st.html(scenario_cards(say, chosen=scenario, is_causal=is_causal))
    draw_kart(say)
    presets = {code: pair[scenario - 1] for code, pair in PRESETS[is_causal].items()}
    last_settings = None if again is None else again.settings
    if isinstance(last_settings, SETTINGS[is_causal, scenario]):
        presets["same"] = last_settings
    codes = {code: say.text(f"audit_preset_{code}") for code in presets}
    attack = attack_code(scenario, is_causal=is_causal)
    preset = choose(say, f"audit_preset_{attack}", codes, parameter="preset")
    settings: Settings = presets[preset]
    if candidates is not None and preset != "same" and "prompt" in type(settings).model_fields:
        general = None if pair is None else pair["general"].path
        prompt = choose_prompt(candidates, is_causal=is_causal, general=general)
        settings = settings.with_(prompt=prompt)
    if is_causal and pair is not None and preset != "same":
        settings = settings.with_(header=find_header(pair["hospital"]))
    run_settings = again.run_settings if again is not None else RunSettings()

    def ask_settings(defaults: Any, *, words: str = "audit") -> Any:
        key = f"set_{type(defaults).__name__}"
        fields = list(type(defaults).model_fields)
        return defaults.with_(**ask_fields(say, defaults, words=words, fields=fields, key=key))

    with st.expander(say.text("audit_settings"), key="settings"):
        draw_remark(say, "audit_settings_below")
        settings = ask_settings(settings, words=f"audit_{CAUSAL}" if is_causal else "audit")
        fields = dict(ask_settings(run_settings))
        place = st.container()
    field = settings_field(scenario, is_causal=is_causal)
    return Attacker({"scenario_number": scenario, field: settings, **fields}, place)


def scenario_cards(say: Words, *, chosen: int, is_causal: bool) -> str:
    """Return both scenarios as HTML: the attacker and the attack."""
    cards = "".join(
        f'<section class="ka-card ka-kart{" ka-chosen" * (number == chosen)}">'
        f"<h3>{say.html(f'audit_scenario_{number}')}</h3>"
        f"<p>{say.html(f'audit_attacker_{number}')}</p>"
        f'<p class="ka-interval">'
        f"{say.html(f'audit_attack_{attack_code(number, is_causal=is_causal)}')}</p></section>"
        for number in SCENARIOS
    )
    return f'<div class="ka-cards">{cards}</div>'


def draw_kart(say: Words) -> None:
    """Draw both scenarios in the paper's symbols, folded."""
    columns = {"KART": [c.upper() for c in _KART], "": [say.text(f"audit_kart_{c}") for c in _KART]}
    for number, scenario in SCENARIOS.items():
        columns[f"audit_scenario_{number}"] = [
            f"{getattr(scenario, field)} · {say.text(f'audit_kart_{letter}_{number}')}"
            for letter, field in _KART.items()
        ]
    with section.fold_details(say, "kart"):
        draw_table(say, "audit_kart", columns)


# The plan, the start and the running jobs.


def draw_plan(
    say: Words,
    pair: Pair | None,
    names: KeptNames | None,
    passages: KeptPassages | None,
    attacker: Attacker,
) -> None:
    """Draw what the audit will take and its start, or what is missing; then the running jobs."""
    is_alone = attacker.fields["scenario_number"] == 1
    scenario_passages = None if is_alone else passages
    has_passages = is_alone or scenario_passages is not None
    if pair is None or names is None or not has_passages:
        has = {"models": pair is not None, "names": names is not None, "passages": has_passages}
        missing = [say.text(f"audit_missing_{field}") for field in has if not has[field]]
        draw_remark(say, "audit_missing")
        st.html(blocks.bullet_list(missing))
        JOBS.draw(say)
        return
    request = AuditRequest(
        general=pair["general"].path,
        hospital=pair["hospital"].path,
        candidates=names.candidates,
        passages=None if scenario_passages is None else scenario_passages.passages,
        **attacker.fields,
    )
    with attacker.settings_place:
        request = request.with_(sibling=draw_sibling(say, request))
    plan = cached.make_plan(request, names=names, passages=scenario_passages)
    lines = {"audit_models": " → ".join(model_name(say, model.model_id) for model in pair.values())}
    for list_field, choice in (("names", names), ("passages", scenario_passages)):
        if choice is not None:
            lines[f"audit_{list_field}_list"] = line_text(say, choice.line, field=list_field)
    draw_facts(say, "audit_plan", lines | plan_lines(say, plan, request))
    draw_reach(say, plan, request)
    draw_start(say, plan, request)
    draw_command(say, plan, names, scenario_passages)


def plan_lines(say: Words, plan: Plan, request: AuditRequest) -> dict[str, str]:
    """Return the device, the work, the time and the finished part of an audit."""
    sizes = request.sizes()
    n, n_asked = next(iter(sizes.values())), sizes.get("chain", 0)
    unit = "documents" if request.scenario_number == 1 else "chain" if n_asked else "inputs"
    unit += "_fewer" * (plan.n_chain_inputs < n_asked)
    unit += f"_{CAUSAL}" * request.is_causal
    lines = {
        "device": say.text(f"audit_device_{plan.device}"),
        "todo": say.text(
            f"audit_todo_{unit}",
            n=f"{n:,}",
            n_chain=f"{plan.n_chain_inputs:,}",
            n_asked=f"{n_asked:,}",
        ),
        "time": time_line(say, plan),
    }
    if plan.memory is not None and not is_kept(plan.digest, store=cached.store()):
        lines |= causal_lines(say, plan, plan.memory, request)
    store, digest = cached.store(), plan.digest
    part = {} if is_kept(digest, store=store) else read_finished_sizes(digest, store=store)
    if n_kept := max(part.values(), default=0):
        lines["kept"] = say.text("audit_plan_kept_n", n=f"{n_kept:,}")
    return lines


def draw_reach(say: Words, plan: Plan, request: AuditRequest) -> None:
    """Draw what this audit can and cannot conclude, and the number of controls it needs."""
    has_planted = any(map(request.candidates.is_canary, range(len(request.candidates))))
    truth_source = "planted" if has_planted else "sibling" if request.sibling else "none"
    lines = [
        say.text(f"audit_can_{request.control_source}"),
        say.text(f"audit_known_{truth_source}"),
    ]
    if not math.isnan(plan.smallest_auc):
        share = format_percent(min(plan.smallest_auc, 1.0))
        lines.append(say.text("audit_power", share=share))
    draw_heading(say, "audit_reach")
    st.html(blocks.bullet_list(lines))
    outcomes = []
    for need in plan.needs:
        scope = {None: "group", 1: "one"}.get(need.n_people, "some")
        share = format_percent(GROUP_AUC)
        outcomes.append(say.text(f"audit_needs_{scope}", n=need.n_people, share=share))
    columns: section.Columns = {
        "seen": outcomes,
        "needed": [
            say.text("audit_needs_never") if need.n_needed is None else need.n_needed
            for need in plan.needs
        ],
        "there": [
            Cell(
                f"{need.n_available:,}",
                say.text(f"audit_needs_{'met' if need.is_met else 'unmet'}"),
            )
            for need in plan.needs
        ],
    }
    draw_table(say, "audit_needs", columns)


def draw_sibling(say: Words, request: AuditRequest) -> str:
    """Draw the choice of a sibling's audit; return its digest, "" for none."""
    audits = find_siblings(request.question(digest_of=look_up_digest))
    if (linked_code := st.query_params.get("sibling", "")) and linked_code not in audits:
        set_pick("sibling", "")
        draw_remark(say, "audit_sibling_gone")
    options = {code: sibling_line(say, audit) for code, audit in audits.items()}
    if not options:
        draw_remark(say, "audit_sibling_none")
        return ""
    code = pick(say, "audit_sibling", options)
    return audits[code].digest if code else ""


def time_line(say: Words, plan: Plan) -> str:
    """Return the expected time, or that nothing is known."""
    if is_kept(plan.digest, store=cached.store()):
        return say.text("audit_time_none")
    return format_time(say, plan.seconds)


def format_time(say: Words, seconds: float) -> str:
    """Return a time in the unit that fits it."""
    if seconds < 90:
        return say.text("audit_time_seconds", n=10 * math.ceil(seconds / 10))
    if seconds < 5400:
        return say.text("audit_time_minutes", n=math.ceil(seconds / 60))
    return say.text("audit_time_hours", n=f"{seconds / 3600:.1f}")


def causal_lines(say: Words, plan: Plan, memory: Memory, request: AuditRequest) -> dict[str, str]:
    """Return the time of each causal model, the pace that it assumes, and the memory."""
    general, hospital = memory.weights["general"], memory.weights["hospital"]
    n_bytes = {
        "running": memory.running,
        "loading": memory.loading,
        "general": general,
        "hospital": hospital,
        "pass_": memory.cache + memory.working,
    }
    pace = plan.assumed_pace
    key = "adapter" if is_adapter(request.hospital) else "pair"
    return {
        "each": say.text(
            "audit_each",
            general=format_time(say, plan.seconds_of("general")),
            hospital=format_time(say, plan.seconds_of("hospital")),
        ),
        "pace": say.text("audit_pace_timed")
        if pace is None
        else say.text("audit_pace_assumed", n=f"{pace / 1e9:g}"),
        "memory": say.text(
            f"audit_memory_{key}_{plan.device}",
            **{name: format_gigabytes(n) for name, n in n_bytes.items()},
        ),
    }


def format_gigabytes(n_bytes: int) -> str:
    """Return a number of bytes in gigabytes, with two digits that count."""
    gigabytes = n_bytes / 1e9
    return f"{gigabytes:.0f}" if gigabytes >= 10 else f"{gigabytes:.2g}"


def draw_start(say: Words, plan: Plan, request: AuditRequest) -> None:
    """Draw the button that starts the audit, the one that opens its result, or its progress."""
    JOBS.draw(say)
    if is_kept(plan.digest, store=cached.store()):
        draw_heading(say, "audit_answered")
        if draw_button(say, "audit_open_answer", name="open_answer", kind="primary"):
            go_to("verdict", audit=plan.digest)
    elif service.active_job(plan.digest) is not None:
        draw_heading(say, "audit_active")
    elif may("ran") and draw_button(
        say, "audit_start", name="start", kind="primary", icon="play_arrow"
    ):
        with st.spinner(say.text("audit_starting")):
            if keep_new(say):
                JOBS.start(AuditTask(request=request).question(), n_names=len(request.candidates))
                st.rerun()


def draw_command(say: Words, plan: Plan, names: KeptNames, passages: KeptPassages | None) -> None:
    """Draw the command line for the same audit, and the files that it reads."""
    with st.expander(say.text("audit_command_title"), key="command_details"):
        draw_facts(say, "audit_same", {"audit_plan_digest": plan.digest})
        draw_remark(say, "audit_command")
        st.code(plan.command, language="bash", wrap_lines=True)
        files: dict[str, tuple[Callable[[], bytes], int]] = {
            "names.csv": (lambda: encode_names_csv(names.candidates), names.line.n)
        }
        if passages is not None:
            files[passages.file_name] = (lambda: passages.data, passages.line.n)
        for file_name, (make, n) in files.items():
            stem, _, form = file_name.partition(".")
            counts: dict[str, Any] = {f"n_{stem}": n}
            section.draw_file_button(
                say,
                stem,
                make,
                form=form,
                label=f"audit_{stem}_file",
                names="full",
                is_disabled=not may("exported_full"),
                **counts,
            )


section.draw_page("audit", draw)
