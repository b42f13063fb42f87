"""What lies in a model's folder: what is accepted, why one is refused, and its digest."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.errors import AuditError
from audit.models.architectures import parse_config
from audit.models.inspect import compute_model_digest, inspect_model
from audit.models.layouts import compute_expected_shapes
from tests.models.editing import WEIGHTS, canary, edit_json, write_pickle, write_zeros
from tests.models.make_models import MAKERS, copy, good

__all__ = ["copy", "good"]


@pytest.mark.parametrize("kind", MAKERS)
def test_a_summary_says_what_transformers_says(kind, tmp_path):
    folder = MAKERS[kind](tmp_path / "model")
    summary, model = (
        inspect_model(folder),
        transformers.AutoModelForMaskedLM.from_pretrained(folder),
    )
    config, reference = summary.config, model.config
    architecture = "bert" if kind == "japanese" else kind
    # RoBERTa uses two rows less than its position table has.
    rows = json.loads((folder / "config.json").read_text())["max_position_embeddings"]
    assert (
        summary.name,
        summary.tokenizer,
        summary.n_parameters,
        config.architecture,
        config.n_layers,
        config.hidden_size,
        config.vocab_size,
        config.n_positions,
    ) == (
        "model",
        {
            "bert": "BertTokenizer",
            "roberta": "RobertaTokenizer",
            "japanese": "BertJapaneseTokenizer",
            "distilbert": "DistilBertTokenizer",
        }[kind],
        sum(p.numel() for p in model.parameters()),
        architecture,
        reference.num_hidden_layers,
        reference.hidden_size,
        reference.vocab_size,
        rows - 2 * (kind == "roberta"),
    )


@given(
    architecture=st.sampled_from(["bert", "roberta", "distilbert"]),
    n_layers=st.integers(1, 3),
    vocab=st.integers(4, 20),
    rows=st.integers(8, 20),
    is_tied=st.booleans(),
)
@settings(max_examples=12, deadline=None)
def test_expected_tensors_are_those_of_transformers(architecture, n_layers, vocab, rows, is_tied):
    names = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
    if architecture == "distilbert":
        names = ("dim", "n_layers", "n_heads", "hidden_dim")
    raw = dict(zip(names, (8, n_layers, 2, 24), strict=True)) | {
        "vocab_size": vocab,
        "max_position_embeddings": rows,
        "tie_word_embeddings": is_tied,
    }
    config = parse_config(raw | {"model_type": architecture}, place="config.json")
    kind = {"bert": "Bert", "roberta": "Roberta", "distilbert": "DistilBert"}[architecture]
    with torch.device("meta"):
        model_config = getattr(transformers, f"{kind}Config")(**raw)
        model = getattr(transformers, f"{kind}ForMaskedLM")(model_config)
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    assert compute_expected_shapes(config) == shapes


_values = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.sampled_from(["gelu", "absolute", "a/b", [], {}])
)


@given(
    key=st.sampled_from(
        [
            "model_type",
            "hidden_size",
            "num_hidden_layers",
            "vocab_size",
            "hidden_act",
            "hidden_dropout_prob",
            "layer_norm_eps",
            "pad_token_id",
            "tie_word_embeddings",
            "_attn_implementation",
            "pruned_heads",
            "architectures",
        ]
    ),
    value=_values,
)
@settings(max_examples=100, deadline=None)
def test_any_setting_is_either_in_bounds_or_refused(key, value):
    try:
        config = parse_config({"model_type": "bert", key: value}, place="config.json")
    except AuditError:
        return
    assert 1 <= config.n_layers <= 200 and 1 <= config.vocab_size <= 1_000_000
    assert config.hidden_size % config.n_heads == 0 and 0 <= config.hidden_dropout < 1


def test_harmless_settings_and_files_are_accepted(copy):
    edit_json(copy, "config.json", _attn_implementation="sdpa", pruned_heads={}, label2id={"a": 0})
    for name in ("pytorch_model.bin", "optimizer.pt"):
        write_pickle(copy, name)
    (copy / "README.md").write_text("a model")
    (copy / "runs").mkdir()
    (copy / "runs" / "x.py").write_text("never opened")
    assert inspect_model(copy).config.architecture == "bert"
    assert not canary(copy).exists()


def test_a_header_whose_length_looks_like_a_pickle_is_read(copy):
    data = (copy / WEIGHTS).read_bytes()
    n_header = int.from_bytes(data[:8], "little")
    for start in (b"\x80\x02\x01", b"\x80\x04\x01"):
        n_longer = int.from_bytes(start, "little")
        header = data[8 : 8 + n_header].ljust(n_longer)
        longer = n_longer.to_bytes(8, "little") + header + data[8 + n_header :]
        (copy / WEIGHTS).write_bytes(longer)
        assert inspect_model(copy).n_parameters > 0


def test_a_snapshot_of_a_hub_cache_may_link_into_its_own_blobs(good, tmp_path):
    home = tmp_path / "models--clinic--bert"
    snapshot = home / "snapshots" / "0a1b"
    snapshot.mkdir(parents=True)
    shutil.copytree(good, home / "blobs")
    for file in (home / "blobs").iterdir():
        (snapshot / file.name).symlink_to(Path("../../blobs") / file.name)
    assert inspect_model(snapshot).name == "models--clinic--bert"
    assert compute_model_digest(snapshot) == compute_model_digest(good)
    (tmp_path / "models--other").mkdir()
    (home / "blobs" / WEIGHTS).rename(tmp_path / "models--other" / WEIGHTS)
    (snapshot / WEIGHTS).unlink()
    (snapshot / WEIGHTS).symlink_to(tmp_path / "models--other" / WEIGHTS)
    with pytest.raises(
        AuditError, match=r"models--clinic--bert: model\.safetensors is a link that"
    ):
        inspect_model(snapshot)


def test_what_is_no_folder_is_refused(tmp_path):
    with pytest.raises(AuditError, match=r"gone: It cannot be read \(No such file"):
        inspect_model(tmp_path / "gone")


def test_the_digest_follows_what_determines_the_model_and_nothing_else(copy):
    def with_bit(file: str, offset: int) -> Callable[[], object]:
        data = (copy / file).read_bytes()
        return lambda: (copy / file).write_bytes(
            data[:offset] + bytes([data[offset] ^ 1]) + data[offset + 1 :]
        )

    digest = compute_model_digest(copy)
    edit_json(copy, "config.json", _name_or_path="/x", transformers_version="4", dtype="float16")
    edit_json(copy, "tokenizer_config.json", name_or_path="/home/x")
    write_pickle(copy, "optimizer.pt")
    copy = copy.rename(copy.parent / "renamed")
    assert compute_model_digest(copy) == digest
    n_bytes = (copy / WEIGHTS).stat().st_size
    changes = (
        with_bit(WEIGHTS, n_bytes - 1),
        with_bit(WEIGHTS, n_bytes // 2),
        with_bit("vocab.txt", -2),
        lambda: edit_json(copy, "config.json", hidden_dropout_prob=0.2),
        lambda: edit_json(copy, "tokenizer_config.json", do_lower_case=False),
    )
    digests = {digest}
    for change in changes:
        change()
        digests.add(compute_model_digest(copy))
    assert len(digests) == 1 + len(changes)


def test_the_digest_stays_what_it_was_in_kept_results(tmp_path):
    config = {
        "model_type": "bert",
        "vocab_size": 5,
        "hidden_size": 2,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "intermediate_size": 2,
        "max_position_embeddings": 8,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n")
    write_zeros(tmp_path)
    assert compute_model_digest(tmp_path) == (
        "0bc3a589df54ccfd21a0143edff19efa275a892146944dd5a4c3249995460183"
    )
