"""The tensors that a masked language model of each kind must have, by name and shape.

Checked on the files' headers, before anything is allocated: transformers fills missing tensors
with random numbers, and an audit of such a model would find nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from audit.errors import AuditError
from audit.models.config import ModelConfig
from audit.models.headers import TensorHeader

Shape = tuple[int, ...]

_FLOATS = ("F16", "BF16", "F32", "F64")
_LEGACY = (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias"))
_HEAD_PREFIX = {"bert": "cls.predictions.", "roberta": "lm_head.", "distilbert": "vocab_"}
# What a pre-training checkpoint carries besides its masked-LM head, and buffers of old versions.
_KNOWN_EXTRA = {
    "bert": r"bert\.pooler\.dense\.(weight|bias)|cls\.seq_relationship\.(weight|bias)"
    r"|bert\.embeddings\.(position_ids|token_type_ids)",
    "roberta": r"roberta\.pooler\.dense\.(weight|bias)"
    r"|roberta\.embeddings\.(position_ids|token_type_ids)",
    "distilbert": r"distilbert\.embeddings\.position_ids",
}
# (name, other name of the same tensor, whether only where the head is tied)
_SAME = {
    "bert": (
        ("cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight", True),
        ("cls.predictions.decoder.bias", "cls.predictions.bias", False),
    ),
    "roberta": (
        ("lm_head.decoder.weight", "roberta.embeddings.word_embeddings.weight", True),
        ("lm_head.decoder.bias", "lm_head.bias", False),
    ),
    "distilbert": (
        ("vocab_projector.weight", "distilbert.embeddings.word_embeddings.weight", True),
    ),
}


def current_name(name: str) -> str:
    """Return today's name of a tensor: gamma and beta became weight and bias."""
    for old, new in _LEGACY:
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


def same_tensors(config: ModelConfig) -> tuple[tuple[str, str], ...]:
    """Return pairs of names under which one and the same tensor is found in this model."""
    return tuple(
        (one, other)
        for one, other, only_if_tied in _SAME[config.architecture]
        if config.is_tied or not only_if_tied
    )


def expected_shapes(config: ModelConfig) -> dict[str, Shape]:
    """Return name and shape of every parameter of the masked language model."""
    if config.architecture == "distilbert":
        return dict(_distilbert(config))
    return dict(_bert_like(config))


def _linear(name: str, n_out: int, n_in: int) -> Iterator[tuple[str, Shape]]:
    yield f"{name}.weight", (n_out, n_in)
    yield f"{name}.bias", (n_out,)


def _norm(name: str, width: int) -> Iterator[tuple[str, Shape]]:
    yield f"{name}.weight", (width,)
    yield f"{name}.bias", (width,)


def _bert_like(config: ModelConfig) -> Iterator[tuple[str, Shape]]:
    root, d, v = config.architecture, config.hidden_size, config.vocab_size
    n_types = config.settings["type_vocab_size"]
    assert isinstance(n_types, int)
    yield f"{root}.embeddings.word_embeddings.weight", (v, d)
    yield f"{root}.embeddings.position_embeddings.weight", (config.n_position_rows, d)
    yield f"{root}.embeddings.token_type_embeddings.weight", (n_types, d)
    yield from _norm(f"{root}.embeddings.LayerNorm", d)
    for i in range(config.n_layers):
        layer = f"{root}.encoder.layer.{i}"
        for part in ("query", "key", "value"):
            yield from _linear(f"{layer}.attention.self.{part}", d, d)
        yield from _linear(f"{layer}.attention.output.dense", d, d)
        yield from _norm(f"{layer}.attention.output.LayerNorm", d)
        yield from _linear(f"{layer}.intermediate.dense", config.intermediate_size, d)
        yield from _linear(f"{layer}.output.dense", d, config.intermediate_size)
        yield from _norm(f"{layer}.output.LayerNorm", d)
    if root == "bert":
        head, transform, norm = "cls.predictions", "cls.predictions.transform", "LayerNorm"
    else:
        head, transform, norm = "lm_head", "lm_head", "layer_norm"
    yield from _linear(f"{transform}.dense", d, d)
    yield from _norm(f"{transform}.{norm}", d)
    yield f"{head}.bias", (v,)
    yield from _linear(f"{head}.decoder", v, d)


def _distilbert(config: ModelConfig) -> Iterator[tuple[str, Shape]]:
    d, v = config.hidden_size, config.vocab_size
    yield "distilbert.embeddings.word_embeddings.weight", (v, d)
    yield "distilbert.embeddings.position_embeddings.weight", (config.n_position_rows, d)
    yield from _norm("distilbert.embeddings.LayerNorm", d)
    for i in range(config.n_layers):
        layer = f"distilbert.transformer.layer.{i}"
        for part in ("q_lin", "k_lin", "v_lin", "out_lin"):
            yield from _linear(f"{layer}.attention.{part}", d, d)
        yield from _norm(f"{layer}.sa_layer_norm", d)
        yield from _linear(f"{layer}.ffn.lin1", config.intermediate_size, d)
        yield from _linear(f"{layer}.ffn.lin2", d, config.intermediate_size)
        yield from _norm(f"{layer}.output_layer_norm", d)
    yield from _linear("vocab_transform", d, d)
    yield from _norm("vocab_layer_norm", d)
    yield from _linear("vocab_projector", v, d)


def check_tensors(
    tensors: Sequence[TensorHeader], *, config: ModelConfig, where: str
) -> tuple[str, ...]:
    """Check the announced tensors against the configuration; return the known extra ones.

    Raises
    ------
    AuditError
        If there is no masked-LM head, a tensor is missing, twice there, of another shape or kind,
        or unknown.
    """
    by_name = {current_name(tensor.name): tensor for tensor in tensors}
    if len(by_name) != len(tensors):
        raise AuditError("A tensor is there under its old and its new name.", where=where)
    if not any(name.startswith(_HEAD_PREFIX[config.architecture]) for name in by_name):
        raise AuditError(
            "The model has no masked-language-model head, so it gives no word a probability.",
            where=where,
            do="Use the checkpoint that was saved as ...ForMaskedLM or ...ForPreTraining.",
        )
    expected = expected_shapes(config)
    _refuse_missing(expected, by_name, config=config, where=where)
    extra = sorted(name for name in by_name if name not in expected)
    _refuse_unknown(extra, config=config, where=where)
    for name, shape in expected.items():
        if name in by_name:
            _check_one(by_name[name], name=name, shape=shape, where=where)
    return tuple(extra)


def _refuse_unknown(extra: Sequence[str], *, config: ModelConfig, where: str) -> None:
    known = re.compile(_KNOWN_EXTRA[config.architecture])
    unknown = [name for name in extra if not known.fullmatch(name)]
    if unknown:
        raise AuditError(
            f"The files hold {len(unknown)} tensors that a {config.architecture} masked language "
            f'model does not have (first: "{_plain(unknown[0])}").',
            where=where,
            do="Check that config.json belongs to these weights.",
        )


def _check_one(tensor: TensorHeader, *, name: str, shape: Shape, where: str) -> None:
    if tensor.shape != shape:
        raise AuditError(
            f'The tensor "{name}" has the shape {list(tensor.shape)}; config.json promises '
            f"{list(shape)}.",
            where=where,
            do="Check that config.json belongs to these weights.",
        )
    if tensor.dtype not in _FLOATS:
        raise AuditError(
            f'The tensor "{name}" holds numbers of the kind {tensor.dtype}; only 16, 32 and '
            "64 bit floating point is read.",
            where=where,
            do="Save the model unquantised.",
        )


def _refuse_missing(
    expected: dict[str, Shape],
    found: dict[str, TensorHeader],
    *,
    config: ModelConfig,
    where: str,
) -> None:
    replaced = {
        name
        for pair in same_tensors(config)
        for name, other in (pair, pair[::-1])
        if other in found
    }
    missing = [name for name in expected if name not in found and name not in replaced]
    if missing:
        raise AuditError(
            f'{len(missing)} tensors are missing (first: "{missing[0]}"); they would be filled '
            "with random numbers.",
            where=where,
            do="Copy the model again, or save it as ...ForMaskedLM.",
        )


def _plain(name: str) -> str:
    return "".join(ch if ch.isprintable() and ch != '"' else "?" for ch in name[:60])
