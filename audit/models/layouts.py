"""List the tensors of each supported architecture: their names and shapes, without torch."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from audit.models.model_config import ModelConfig

Shape = tuple[int, ...]


class _Layout(NamedTuple):
    """The tensors of an architecture, as the letters of `ModelConfig.sizes`.

    "vd" is a matrix of `vocab_size` rows and `hidden_size` columns. After a question mark stands a
    letter that is 0 in models without the tensor. Names of `body` and `layer` are relative to
    `root` and to a layer of `layers`; tensors of `not_in_first` are missing in the first layer.
    """

    root: str
    body: dict[str, str]
    layers: str
    layer: Mapping[str, str]
    head: Mapping[str, str]
    words: str
    decoder: str
    bias: str
    not_in_first: tuple[str, ...] = ()
    is_transposed: bool = False
    """Whether the matrices of the layers have a row for each input, as those of GPT-2 do."""


def _add_biases(parts: Mapping[str, str]) -> dict[str, str]:
    """Return weight and bias of each part; a bias has as many numbers as the weight has rows."""
    tensors: dict[str, str] = {}
    for part, letters in parts.items():
        shape, mark, condition = letters.partition("?")
        tensors |= {f"{part}.weight": letters, f"{part}.bias": shape[0] + mark + condition}
    return tensors


_WORDS = "embeddings.word_embeddings.weight"
_POSITIONS = "embeddings.position_embeddings.weight"
_TYPES = "embeddings.token_type_embeddings.weight"
_BERT_TABLES = {_WORDS: "vd", _POSITIONS: "pd", _TYPES: "td"}
_BERT_BODY = _BERT_TABLES | _add_biases({"embeddings.LayerNorm": "d"})
_SMALL_BODY = {_WORDS: "ve", _POSITIONS: "pe", _TYPES: "te"} | _add_biases(
    {"embeddings.LayerNorm": "e"}
)
_ATTENTION = {f"attention.self.{part}": "dd" for part in ("query", "key", "value")}
_FEED_FORWARD = {"intermediate.dense": "id", "output.dense": "di"}
_BERT_LAYER = _add_biases(
    {
        **_ATTENTION,
        "attention.output.dense": "dd",
        "attention.output.LayerNorm": "d",
        "output.LayerNorm": "d",
        **_FEED_FORWARD,
    }
)
_MEGATRON_LAYER = _add_biases(
    {"attention.ln": "d", **_ATTENTION, "attention.output.dense": "dd", "ln": "d", **_FEED_FORWARD}
)
_LONG_LAYER = _BERT_LAYER | _add_biases({f"{part}_global": "dd" for part in _ATTENTION})
_DEBERTA_OUTPUT = _add_biases(
    {
        "attention.output.dense": "dd",
        "attention.output.LayerNorm": "d",
        "output.LayerNorm": "d",
        **_FEED_FORWARD,
    }
)
# The bias stands before the decoder's: of two names of one tensor the first is written.
_BERT_HEAD = {"cls.predictions.bias": "v"} | _add_biases(
    {
        "cls.predictions.transform.dense": "dd",
        "cls.predictions.transform.LayerNorm": "d",
        "cls.predictions.decoder": "vd",
    }
)
_ROBERTA_HEAD = {"lm_head.bias": "v"} | _add_biases(
    {"lm_head.dense": "dd", "lm_head.layer_norm": "d", "lm_head.decoder": "vd"}
)

_BERT = _Layout(
    "bert",
    _BERT_BODY,
    "encoder.layer.{}",
    _BERT_LAYER,
    _BERT_HEAD,
    _WORDS,
    "cls.predictions.decoder",
    "cls.predictions.bias",
)
_ROBERTA = _BERT._replace(
    root="roberta", head=_ROBERTA_HEAD, decoder="lm_head.decoder", bias="lm_head.bias"
)
_DEBERTA = _BERT._replace(
    root="deberta",
    body=_add_biases({"embeddings.LayerNorm": "d"})
    | {_WORDS: "vd", _POSITIONS: "pd?p", _TYPES: "td?t", "encoder.rel_embeddings.weight": "rd?r"},
    layer=_DEBERTA_OUTPUT
    | {
        "attention.self.in_proj.weight": "qd",
        "attention.self.q_bias": "d",
        "attention.self.v_bias": "d",
        "attention.self.pos_proj.weight": "dd?c",
        "attention.self.pos_q_proj.weight": "dd?o",
        "attention.self.pos_q_proj.bias": "d?o",
    },
)
_GATED = {"mlp.gate_proj.weight": "id", "mlp.up_proj.weight": "id", "mlp.down_proj.weight": "di"}
_NORMS = {"input_layernorm.weight": "d", "post_attention_layernorm.weight": "d"}
_HEAD_NORMS = {"self_attn.q_norm.weight": "h", "self_attn.k_norm.weight": "h"}
_PROJECTIONS = {
    "self_attn.q_proj.weight": "qd",
    "self_attn.q_proj.bias": "q?a",
    "self_attn.k_proj.weight": "kd",
    "self_attn.k_proj.bias": "k?a",
    "self_attn.v_proj.weight": "kd",
    "self_attn.v_proj.bias": "k?a",
    "self_attn.o_proj.weight": "dq",
    "self_attn.o_proj.bias": "d?a",
}
_MLP_BIASES = {"mlp.gate_proj.bias": "i?m", "mlp.up_proj.bias": "i?m", "mlp.down_proj.bias": "d?m"}
_CAUSAL_HEAD = {"lm_head.weight": "vd"}
_LLAMA = _Layout(
    "model",
    {"embed_tokens.weight": "vd", "norm.weight": "d"},
    "layers.{}",
    _PROJECTIONS | _GATED | _MLP_BIASES | _NORMS,
    _CAUSAL_HEAD,
    "embed_tokens.weight",
    "lm_head",
    "lm_head.bias",
)
_QWEN2 = _LLAMA._replace(
    layer=_PROJECTIONS
    | {"self_attn.q_proj.bias": "q", "self_attn.k_proj.bias": "k", "self_attn.v_proj.bias": "k"}
    | _GATED
    | _NORMS
)
_GEMMA2 = _LLAMA._replace(
    layer={
        **_LLAMA.layer,
        "pre_feedforward_layernorm.weight": "d",
        "post_feedforward_layernorm.weight": "d",
    }
)
_LAYOUTS = {
    "llama": _LLAMA,
    "mistral": _LLAMA,
    "qwen2": _QWEN2,
    "qwen3": _LLAMA._replace(layer={**_LLAMA.layer, **_HEAD_NORMS}),
    "gemma2": _GEMMA2,
    "gemma3_text": _GEMMA2._replace(layer={**_GEMMA2.layer, **_HEAD_NORMS}),
    "phi3": _LLAMA._replace(
        layer={
            "self_attn.qkv_proj.weight": "cd",
            "self_attn.o_proj.weight": "dq",
            "mlp.gate_up_proj.weight": "gd",
            "mlp.down_proj.weight": "di",
        }
        | _NORMS
    ),
    "gpt2": _Layout(
        "transformer",
        {"wte.weight": "vd", "wpe.weight": "pd"} | _add_biases({"ln_f": "d"}),
        "h.{}",
        _add_biases({"ln_1": "d", "ln_2": "d"})
        | {
            "attn.c_attn.weight": "ds",
            "attn.c_attn.bias": "s",
            "attn.c_proj.weight": "dd",
            "attn.c_proj.bias": "d",
            "mlp.c_fc.weight": "di",
            "mlp.c_fc.bias": "i",
            "mlp.c_proj.weight": "id",
            "mlp.c_proj.bias": "d",
        },
        _CAUSAL_HEAD,
        "wte.weight",
        "lm_head",
        "lm_head.bias",
        is_transposed=True,
    ),
    "gpt_neox": _Layout(
        "gpt_neox",
        {"embed_in.weight": "vd"} | _add_biases({"final_layer_norm": "d"}),
        "layers.{}",
        _add_biases({"input_layernorm": "d", "post_attention_layernorm": "d"})
        | {
            "attention.query_key_value.weight": "sd",
            "attention.query_key_value.bias": "s?a",
            "attention.dense.weight": "dd",
            "attention.dense.bias": "d?a",
        }
        | _add_biases({"mlp.dense_h_to_4h": "id", "mlp.dense_4h_to_h": "di"}),
        _CAUSAL_HEAD,
        "embed_in.weight",
        "lm_head",
        "lm_head.bias",
    ),
    "bert": _BERT,
    "roberta": _ROBERTA,
    "distilbert": _Layout(
        "distilbert",
        {_WORDS: "vd", _POSITIONS: "pd"} | _add_biases({"embeddings.LayerNorm": "d"}),
        "transformer.layer.{}",
        _add_biases(
            {
                "attention.q_lin": "dd",
                "attention.k_lin": "dd",
                "attention.v_lin": "dd",
                "attention.out_lin": "dd",
                "sa_layer_norm": "d",
                "output_layer_norm": "d",
                "ffn.lin1": "id",
                "ffn.lin2": "di",
            }
        ),
        _add_biases({"vocab_transform": "dd", "vocab_layer_norm": "d", "vocab_projector": "vd"}),
        _WORDS,
        "vocab_projector",
        "vocab_projector.bias",
    ),
    "longformer": _ROBERTA._replace(root="longformer", layer=_LONG_LAYER),
    "big_bird": _BERT._replace(body=_BERT_BODY | _add_biases({"pooler": "dd"})),
    "megatron-bert": _BERT._replace(
        body=_BERT_TABLES | _add_biases({"encoder.ln": "d"}), layer=_MEGATRON_LAYER
    ),
    "electra": _Layout(
        "electra",
        _SMALL_BODY | _add_biases({"embeddings_project": "de?x"}),
        "encoder.layer.{}",
        _BERT_LAYER,
        _add_biases(
            {
                "generator_predictions.LayerNorm": "e",
                "generator_predictions.dense": "ed",
                "generator_lm_head": "ve",
            }
        ),
        _WORDS,
        "generator_lm_head",
        "generator_lm_head.bias",
    ),
    "albert": _Layout(
        "albert",
        _SMALL_BODY | _add_biases({"encoder.embedding_hidden_mapping_in": "de"}),
        "encoder.albert_layer_groups.{}.albert_layers.{}",
        _add_biases(
            {
                "full_layer_layer_norm": "d",
                "attention.query": "dd",
                "attention.key": "dd",
                "attention.value": "dd",
                "attention.dense": "dd",
                "attention.LayerNorm": "d",
                "ffn": "id",
                "ffn_output": "di",
            }
        ),
        {"predictions.bias": "v"}
        | _add_biases(
            {"predictions.LayerNorm": "e", "predictions.dense": "ed", "predictions.decoder": "ve"}
        ),
        _WORDS,
        "predictions.decoder",
        "predictions.bias",
    ),
    "deberta": _DEBERTA,
    "deberta-v2": _DEBERTA._replace(
        body=_DEBERTA.body
        | _add_biases({"encoder.LayerNorm": "d?n", "encoder.conv.LayerNorm": "d?k"})
        | {"encoder.conv.conv.weight": "ddk?k", "encoder.conv.conv.bias": "d?k"},
        layer=_DEBERTA_OUTPUT
        | _add_biases(
            {
                "attention.self.query_proj": "dd",
                "attention.self.key_proj": "dd",
                "attention.self.value_proj": "dd",
                "attention.self.pos_key_proj": "dd?c",
                "attention.self.pos_query_proj": "dd?o",
            }
        ),
    ),
    "modernbert": _Layout(
        "model",
        {
            "embeddings.tok_embeddings.weight": "vd",
            "embeddings.norm.weight": "d",
            "embeddings.norm.bias": "d?n",
            "final_norm.weight": "d",
            "final_norm.bias": "d?n",
        },
        "layers.{}",
        {
            "attn_norm.weight": "d",
            "attn_norm.bias": "d?n",
            "attn.Wqkv.weight": "qd",
            "attn.Wqkv.bias": "q?a",
            "attn.Wo.weight": "dd",
            "attn.Wo.bias": "d?a",
            "mlp_norm.weight": "d",
            "mlp_norm.bias": "d?n",
            "mlp.Wi.weight": "gd",
            "mlp.Wi.bias": "g?m",
            "mlp.Wo.weight": "di",
            "mlp.Wo.bias": "d?m",
        },
        {
            "head.dense.weight": "dd",
            "head.dense.bias": "d?h",
            "head.norm.weight": "d",
            "head.norm.bias": "d?n",
            "decoder.weight": "vd",
            "decoder.bias": "v?b",
        },
        "embeddings.tok_embeddings.weight",
        "decoder",
        "decoder.bias",
        not_in_first=("attn_norm.weight", "attn_norm.bias"),
    ),
}
_OLD_STARTS = {
    "embed_out.": "lm_head.",
    "language_model.model.": "model.",
    "language_model.lm_head.": "lm_head.",
    "model.language_model.": "model.",
}
# Tensors of pre-training checkpoints besides the masked-LM head, and buffers of old versions.
_KNOWN_EXTRA = re.compile(
    r"\w+\.(pooler\.(dense\.)?(weight|bias)|embeddings\.(position_ids|token_type_ids))"
    r"|cls\.seq_relationship\.(weight|bias)"
    r"|sop_classifier\.classifier\.(weight|bias)"
    r"|(lm_predictions|mask_predictions|discriminator_predictions)\.[\w.]+"
    r"|(transformer\.)?h\.\d+\.attn\.(masked_)?bias"
    r"|(gpt_neox\.)?layers\.\d+\.attention\.((masked_)?bias|rotary_emb\.inv_freq)"
    r"|(model\.)?layers\.\d+\.self_attn\.rotary_emb\.inv_freq"
    r"|(model\.)?(vision_tower|multi_modal_projector)\.[\w.]+"
)


def is_known_extra(name: str) -> bool:
    """Whether a tensor, beside those that a model uses, may be in a file of weights."""
    return _KNOWN_EXTRA.fullmatch(name) is not None


def update_tensor_name(name: str) -> str:
    """Return the current name of a tensor.

    gamma and beta became weight and bias, the head of GPT-NeoX is called as those of others, and
    the text part of a model of texts and pictures as if it were alone.
    """
    for old, new in _OLD_STARTS.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    name = name.replace("LayerNorm.gamma", "LayerNorm.weight")
    return name.replace("LayerNorm.beta", "LayerNorm.bias")


_Tensor = TypeVar("_Tensor")


def complete_names(tensors: Mapping[str, _Tensor], config: ModelConfig) -> dict[str, _Tensor]:
    """Return the tensors of a causal model that was saved without its body's prefix with it."""
    expected, prefix = compute_expected_shapes(config), find_body_prefix(config)
    is_whole = not config.is_causal or any(name.startswith(prefix) for name in tensors)
    return {
        prefix + name if not is_whole and prefix + name in expected else name: tensor
        for name, tensor in tensors.items()
    }


def find_body_prefix(config: ModelConfig) -> str:
    """Return what the names of the body's tensors begin with, such as "bert."."""
    return f"{_LAYOUTS[config.architecture].root}."


def list_head_tensors(config: ModelConfig) -> set[str]:
    """Return the names of the tensors of the head, which gives each word a probability."""
    root = find_body_prefix(config)
    return {name for name in compute_expected_shapes(config) if not name.startswith(root)}


def find_shared_tensors(config: ModelConfig) -> dict[str, str]:
    """Return a map from names of tensors to second names of the same tensors in this model."""
    layout = _LAYOUTS[config.architecture]
    decoder = layout.decoder
    same = {f"{decoder}.bias": layout.bias} if layout.bias != f"{decoder}.bias" else {}
    if config.is_tied:
        same[f"{decoder}.weight"] = f"{layout.root}.{layout.words}"
    return same


def compute_expected_shapes(config: ModelConfig) -> dict[str, Shape]:
    """Return name and shape of every parameter of a language model."""
    layout, sizes = _LAYOUTS[config.architecture], config.sizes
    tensors = {f"{layout.root}.{name}": letters for name, letters in layout.body.items()}
    for place in config.layer_places:
        prefix = f"{layout.root}.{layout.layers.format(*place)}"
        left_out = layout.not_in_first if not any(place) else ()
        tensors |= {
            f"{prefix}.{name}": letters
            for name, letters in layout.layer.items()
            if name not in left_out
        }
    shapes = {}
    for name, letters in (tensors | dict(layout.head)).items():
        shape, _, condition = letters.partition("?")
        if not condition or sizes[condition]:
            shapes[name] = tuple(sizes[letter] for letter in shape)
    return shapes


def list_embeddings(config: ModelConfig) -> set[str]:
    """Return the names of the modules that turn a token's number or place into a vector."""
    layout = _LAYOUTS[config.architecture]
    tables = {name for name, letters in layout.body.items() if letters[0] in "vp"}
    return {f"{layout.root}.{name}".removesuffix(".weight") for name in tables}


def list_module_sizes(config: ModelConfig) -> dict[str, tuple[int, int]]:
    """Return the numbers of inputs and outputs of each module with a matrix, by its name."""
    layout, embeddings = _LAYOUTS[config.architecture], list_embeddings(config)
    sizes = {}
    for name, shape in compute_expected_shapes(config).items():
        module = name.removesuffix(".weight")
        if len(shape) == 2 and module != name:
            is_in_layer = layout.is_transposed and module != layout.decoder
            has_row_for_input = module in embeddings or is_in_layer
            sizes[module] = (shape[0], shape[1]) if has_row_for_input else (shape[1], shape[0])
    return sizes


def has_row_for_input(config: ModelConfig) -> bool:
    """Return whether the matrices of the layers have a row for each input, as those of GPT-2 do."""
    return _LAYOUTS[config.architecture].is_transposed


def list_layer_matrices(config: ModelConfig) -> tuple[str, ...]:
    """Return the weights of the matrices of all layers, by name."""
    layout = _LAYOUTS[config.architecture]
    layers, _, _ = layout.layers.partition(".{}")
    return tuple(
        name
        for name, shape in compute_expected_shapes(config).items()
        if name.startswith(f"{layout.root}.{layers}.") and len(shape) == 2
    )


def count_parameters(config: ModelConfig) -> int:
    """Return the number of learnt parameters; shared tensors count once."""
    return _count_numbers(config, n_layer_runs=1)


def measure_pass(config: ModelConfig) -> float:
    """Return the work of a forward pass for one token, in parameters of a BERT.

    A layer counts as often as it is run, and the sum is multiplied by the slowdown of the
    architecture.
    """
    return config.slowdown * _count_numbers(config, n_layer_runs=config.n_layer_runs)


def _count_numbers(config: ModelConfig, *, n_layer_runs: int) -> int:
    layout, shared_tensors = _LAYOUTS[config.architecture], find_shared_tensors(config)
    layers, _, _ = layout.layers.partition(".{}")
    return sum(
        math.prod(shape) * (n_layer_runs if name.startswith(f"{layout.root}.{layers}.") else 1)
        for name, shape in compute_expected_shapes(config).items()
        if name not in shared_tensors
    )
