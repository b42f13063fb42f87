"""Plans: the digest of the run, what is kept, honest time, and a command that asks the same."""

from __future__ import annotations

import shlex
import time
from pathlib import Path

import pytest

from audit.attack import scenarios
from audit.attack.cohort import count_group_controls
from audit.attack.plan import EVIDENCE, list_control_needs, make_plan, refuse_too_large
from audit.attack.question import AuditRequest, GenerationSettings, PosteriorSettings
from audit.attack.run_memory import ModelSize, PassLoad, measure_memory
from audit.attack.scenarios import add_references
from audit.cli.command_line import parse_words
from audit.cli.commands import Command
from audit.errors import AuditError
from audit.home import HOME_VARIABLE
from audit.models.adapters import WEIGHTS_FILE
from audit.models.architectures import parse_config
from audit.models.causal_architectures import CausalConfig
from audit.models.layouts import count_parameters
from audit.models.load import load_pair
from audit.names.candidates import OF_HOSPITAL, ControlSource, make_candidates
from audit.names.controls import N_REFERENCE
from audit.names.pools import pool_for
from audit.report.audit_store import is_kept, read_finished_sizes
from audit.run import run_audit
from cache.store import Store
from tests import small_audit
from tests.models.make_causal import make_adapter, make_causal
from tests.small_audit import Models, models, small

__all__ = ["models", "small"]


def request_of(models: Models, scenario: int, n: int) -> AuditRequest:
    request = small_audit.request_of(models, scenario)
    return request.with_(
        generation=request.generation.with_(n_documents=n, n_steps=3),
        posterior=request.posterior.with_(n_inputs=n, n_chain_inputs=2),
    )


@pytest.mark.long
@pytest.mark.parametrize("scenario", [1, 2])
def test_a_plan_knows_the_run_before_and_after_it(
    models: Models, tmp_path: Path, scenario: int
) -> None:
    request = request_of(models, scenario, 100)
    plan = make_plan(request)
    with Store(tmp_path / "results") as store:
        assert not is_kept(plan.digest, store=store) and plan.seconds > 0
        assert plan.digest == run_audit(request, store=store).digest
        assert is_kept(plan.digest, store=store)
        assert not is_kept(make_plan(request.with_(seed=5)).digest, store=store)


@pytest.mark.long
@pytest.mark.parametrize("scenario", [1, 2])
def test_expected_time_is_the_work_that_the_run_announces_at_the_paces_of_the_last(
    models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scenario: int
) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "data"))
    request = request_of(models, scenario, 50)
    pair = load_pair(request.general, request.hospital)
    names = add_references(request, pair, pool=pool_for(request.candidates))
    task = scenarios.make_task(request, pair, names)
    work = {phase.name: phase.n_units for phase in make_plan(request).phases}
    for kind, n in request.sizes().items():
        for model_role, model in (("general", pair.general), ("hospital", pair.hospital)):
            rows = task.n_rows(kind, n) * task.n_tokens
            assert work[f"{model_role} model: {EVIDENCE[kind]}"] == rows * model.n_parameters
    with Store(tmp_path / "results") as store:
        unknown = make_plan(request).seconds
        began = time.monotonic()
        run_audit(request, store=store)
        took = time.monotonic() - began
        warm_seconds = make_plan(request.with_(seed=1)).seconds
    assert unknown > 0 and warm_seconds != unknown
    assert warm_seconds == pytest.approx(took, rel=0.5, abs=2)


@pytest.mark.long
@pytest.mark.parametrize(
    ("max_rows", "expected"), [(10**6, 60), (1100, 42), (519, 0), (520, 20), (0, 0)]
)
def test_chain_takes_no_more_rows_than_its_budget_in_the_plan_as_in_the_run(
    models: Models, tmp_path: Path, max_rows: int, expected: int
) -> None:
    request = request_of(models, 2, 50)
    # 26 rows an input: 1 + 11 + 11 of eleven names of one and one piece, 1 + 1 + 1 of the twelfth.
    few = request.candidates.rows(range(12))
    settings = request.posterior.with_(n_chain_inputs=60, max_chain_rows=max_rows)
    request = request.with_(candidates=few, posterior=settings)
    plan = make_plan(request)
    assert plan.n_chain_inputs == expected
    with Store(tmp_path / "results") as store:
        report = run_audit(request, store=store)
        assert read_finished_sizes(report.digest, store=store)["n_chain_inputs"] == expected
    assert ("chain_difference" in report.columns) == (expected > 0)
    chain_notes = [note for note in report.notes if "chain rule" in note]
    assert len(chain_notes) == (expected < 60) and all(
        f"{expected} of 60" in note for note in chain_notes
    )


def settings_of(command: str) -> dict[str, object]:
    words = shlex.split(command)
    assert words[:3] == ["python", "-m", "audit"]
    run, options = parse_words(words[3:])
    assert isinstance(run, Command)
    arguments = run.collect_arguments(options)
    return arguments | arguments["generation"] | arguments["posterior"]


@pytest.mark.parametrize(
    ("source", "n_available"),
    [
        ("held_out", [8, 8, 8]),
        ("own", [8, 8, 8]),
        ("invented", [14] + [N_REFERENCE] * 2),
        ("drawn", [14] + [N_REFERENCE] * 2),
    ],
)
def test_a_plan_says_how_many_controls_are_needed_beside_those_that_take_part(
    models: Models, source: ControlSource, n_available: list[int]
) -> None:
    members = [(f"Ada{i}", f"Byron{i}") for i in range(20)]
    listed = make_candidates(members, is_member=True)
    for kind, n in (("own", 8), ("easy", 6), ("hard", 9)):
        names = [(f"{kind}{i}", f"Lee{i}") for i in range(n)]
        listed += make_candidates(names, is_member=False, control_kind=kind)
    request = request_of(models, 1, 10).with_(candidates=listed.with_source(source))
    needs = list_control_needs(request)
    assert [need.n_people for need in needs] == [None, 1, 10]  # no thirty of twenty
    assert [need.n_available for need in needs] == n_available
    assert [need.n_needed for need in needs] == [count_group_controls(20), 399, 39]
    assert [need.is_met for need in needs] == [False] + [source not in OF_HOSPITAL] * 2


def test_the_command_line_says_every_setting(models: Models) -> None:
    settings = GenerationSettings(
        n_documents=7,
        n_steps=8,
        n_tokens=9,
        top_k=10,
        temperature=0.5,
        prompt='-it\'s [MASK] "x" $HOME',
        is_remasked=False,
    )
    request = request_of(models, 1, 7).with_(generation=settings, seed=3, dtype="bfloat16")
    options = settings_of(make_plan(request).command)
    expected = settings.plain() | {
        "seed": 3,
        "dtype": "bfloat16",
        "device": "cpu",
        "general": str(models.general),
        "hospital": str(models.hospital),
    }
    assert {name: options[name] for name in expected} == expected
    posterior = PosteriorSettings(
        n_inputs=5,
        n_chain_inputs=0,
        is_dropout_on=False,
        is_sequential=True,
        micro_batch=4,
        max_tokens=99,
    )
    two = request_of(models, 2, 7).with_(posterior=posterior)
    options = settings_of(make_plan(two, passages_file="passages.csv").command)
    assert {name: options[name] for name in posterior.plain()} == posterior.plain()
    assert (options["names"].name, options["passages"].name) == ("names.csv", "passages.csv")


def causal_request(
    models: Models, folder: Path, scenario: int, *, is_adapter: bool
) -> AuditRequest:
    general = make_causal(folder / "general", "llama 3", n_more_rows=0)
    if is_adapter:
        make_adapter(folder / "hospital", general)
    else:
        make_causal(folder / "hospital", "llama 3", seed=1)
    request = small_audit.request_of(models, scenario)
    return request.with_(general=general, hospital=folder / "hospital", device="cpu")


@pytest.mark.parametrize("is_adapter", [False, True])
def test_a_plan_of_causal_models_counts_the_bytes_of_their_parameters(
    models: Models, tmp_path: Path, is_adapter: bool
) -> None:
    request = causal_request(models, tmp_path, 2, is_adapter=is_adapter)
    memory = make_plan(request).memory
    assert memory is not None
    pair = load_pair(request.general, request.hospital)
    n_bytes = {id(p): p.nbytes for p in pair.general.model.parameters()}
    n_bytes |= {id(p): p.nbytes for p in pair.hospital.model.parameters()}
    # An adapter's numbers are no parameters of the module that both models share.
    n_adapter = (tmp_path / "hospital" / WEIGHTS_FILE).stat().st_size if is_adapter else 0
    n_weight_bytes = sum(memory.weights.values())
    assert sum(n_bytes.values()) <= n_weight_bytes <= sum(n_bytes.values()) + n_adapter
    assert memory.running > n_weight_bytes and memory.loading > n_weight_bytes
    assert make_plan(small_audit.request_of(models, 2)).memory is None
    plan = make_plan(request)
    parts = [plan.seconds_of(model_role) for model_role in ("general", "hospital")]
    assert parts[0] == pytest.approx(parts[1], rel=0.1) and sum(parts) < plan.seconds


@pytest.mark.parametrize("scenario", [1, 2])
def test_causal_models_that_do_not_fit_are_refused_before_they_are_read(
    models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scenario: int
) -> None:
    request = causal_request(models, tmp_path, scenario, is_adapter=False)
    memory = make_plan(request).memory
    assert memory is not None
    needed = max(memory.running, memory.loading)
    monkeypatch.setattr("audit.foreign.find_free_memory", lambda: needed)
    refuse_too_large(request)
    monkeypatch.setattr("audit.foreign.find_free_memory", lambda: needed - 1)
    monkeypatch.setattr("audit.models.load.load_pair", None)
    with (
        Store(tmp_path / "results") as store,
        pytest.raises(AuditError, match="of free memory are left"),
    ):
        run_audit(request, store=store)


SEVEN_BILLION = {
    "model_type": "llama",
    "vocab_size": 32_000,
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "intermediate_size": 11_008,
    "max_position_embeddings": 4096,
}


def test_seven_billion_parameters_take_what_arithmetic_says() -> None:
    config = parse_config(SEVEN_BILLION, place="config.json")
    assert isinstance(config, CausalConfig)
    n = count_parameters(config)
    assert n == 6_738_415_616  # Llama 2 7B
    whole_model, adapter = ModelSize(n, n * 2 // 3), ModelSize(20_000_000, 80_000_000)
    load = PassLoad(n_rows=1, n_kept=768, n_new=512, n_asked=256)

    def measure(hospital: ModelSize, dtype: str, device: str = "cpu") -> tuple[float, float, float]:
        sizes = {"general": whole_model, "hospital": hospital}
        memory = measure_memory(config, sizes, load=load, dtype=dtype, device=device)
        # 32 layers x 4096 numbers for keys and as many for values, of each token
        assert memory.cache == 768 * 2 * 32 * 4096 * (4 if dtype == "float32" else 2)
        return tuple(
            round(x / 1e9, 1)
            for x in (sum(memory.weights.values()), memory.running, memory.loading)
        )

    assert measure(whole_model, "float32") == (53.9, 54.9, 62.9)
    assert measure(adapter, "float32") == (27.0, 28.0, 35.9)
    assert measure(adapter, "bfloat16") == (13.5, 14.1, 35.9)
    assert measure(whole_model, "auto", device="cuda") == (27.0, 27.5, 35.9)
