"""The command line that asks the same question as a request, for those who would rather type it."""

from __future__ import annotations

import shlex

from audit.request import AuditRequest, GenerationSettings, PosteriorSettings


def command_line(
    request: AuditRequest, *, names: str = "names.csv", passages: str = "passages.jsonl"
) -> str:
    """Return the command that asks the same question; settings left at their default are left out.

    `names` and `passages` are the files' names, as they are handed out beside the command.
    """
    words = [
        "python", "-m", "audit", "run", "--scenario", str(request.scenario_number),
        "--general", str(request.general), "--hospital", str(request.hospital), "--names", names,
    ]  # fmt: skip
    if request.scenario_number == 1:
        words += _generation_options(request.generation)
    else:
        words += ["--passages", passages, *_posterior_options(request.posterior)]
    for option, value, usual in (
        ("--seed", request.seed, 0),
        ("--threshold", request.threshold, None),
        ("--dtype", request.dtype, "float32"),
        ("--device", request.device, "auto"),
    ):
        words += _option(option, value, usual=usual)
    return shlex.join([*words, "--out", "results"])


def _generation_options(settings: GenerationSettings) -> list[str]:
    usual, words = GenerationSettings(), []
    for option, field in (
        ("--documents", "n_documents"),
        ("--steps", "n_steps"),
        ("--tokens", "n_tokens"),
        ("--top-k", "top_k"),
        ("--temperature", "temperature"),
        ("--prompt", "prompt"),
    ):
        words += _option(option, getattr(settings, field), usual=getattr(usual, field))
    return words if settings.is_remasked else [*words, "--keep-sampled"]


def _posterior_options(settings: PosteriorSettings) -> list[str]:
    usual, words = PosteriorSettings(), []
    for option, field in (
        ("--inputs", "n_inputs"),
        ("--chain-inputs", "n_chain_inputs"),
        ("--micro-batch", "micro_batch"),
        ("--max-tokens", "max_tokens"),
    ):
        words += _option(option, getattr(settings, field), usual=getattr(usual, field))
    return words if settings.is_dropout_on else [*words, "--no-dropout"]


def _option(name: str, value: object, *, usual: object) -> list[str]:
    if value == usual:
        return []
    text = repr(value) if isinstance(value, float) else str(value)
    return [f"{name}={text}"] if text.startswith("-") else [name, text]
