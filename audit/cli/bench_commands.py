"""Commands that measure what the engine costs on this machine."""

from __future__ import annotations

from typing import Annotated

from audit.bench.race import BenchSettings
from audit.cli.commands import FieldsOf, Options, Result, command

_OF_TUNING = tuple(
    name for name in BenchSettings.model_fields if name not in ("n_steps", "n_names")
)


_OF_POSTERIOR = ("n_names", *(name for name in _OF_TUNING if name != "is_checkpointed"))


_OF_GENERATION = ("n_steps", *(name for name in _OF_POSTERIOR if name != "n_names"))


_OF_CAUSAL = tuple(name for name in _OF_POSTERIOR if name != "batch")


_OF_TRAINING = tuple(name for name in _OF_POSTERIOR if name != "n_names")


@command()
def bench_generation(
    *, options: Annotated[Options, FieldsOf(BenchSettings, only=_OF_GENERATION)]
) -> Result:
    """Race scenario 1 against the published sampler's way, on a model with random weights."""
    from audit.bench.attacks import measure_generation

    return measure_generation(BenchSettings(**options))


@command()
def bench_posterior(
    *, options: Annotated[Options, FieldsOf(BenchSettings, only=_OF_POSTERIOR)]
) -> Result:
    """Race scenario 2 against the plain way, dropout on."""
    from audit.bench.attacks import measure_posterior

    return measure_posterior(BenchSettings(**options))


@command()
def bench_causal(
    *, options: Annotated[Options, FieldsOf(BenchSettings, only=_OF_CAUSAL)]
) -> Result:
    """Race scenario 2 of a causal model against one name at a time."""
    from audit.bench.causal import measure_causal

    return measure_causal(BenchSettings(**options))


@command()
def bench_pretrain(
    *, options: Annotated[Options, FieldsOf(BenchSettings, only=_OF_TRAINING)]
) -> Result:
    """Race pre-training against the plain float32 loop."""
    from audit.bench.pretrain import measure_pretraining

    return measure_pretraining(BenchSettings(**options))


@command()
def bench_tuning(
    *, options: Annotated[Options, FieldsOf(BenchSettings, only=_OF_TUNING)]
) -> Result:
    """Race the tuning of a generative tagger, by an adapter, against the plain loop."""
    from audit.bench.tagger_tuning import measure_tuning

    return measure_tuning(BenchSettings(**options))


@command()
def bench_corpus(*, megabytes: Annotated[int, "of notes"] = 10) -> Result:
    """Time making a corpus beside `wc` and `gzip` of the same file."""
    from audit.bench.corpus_building import measure_corpora

    return measure_corpora(megabytes)
