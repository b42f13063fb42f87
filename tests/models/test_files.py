from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.errors import AuditError
from audit.models.inspect import (
    expected_shapes,
    inspect_model,
    model_digest,
    parse_config,
    read_model_files,
)
from tests.models.editing import WEIGHTS, canary, edit_json, write_pickle
from tests.models.hostile_models import BEFORE_LOADING, Spoiled
from tests.models.make_models import make_bert, make_distilbert, make_japanese_bert, make_roberta

MAKERS = {
    "bert": make_bert,
    "roberta": make_roberta,
    "distilbert": make_distilbert,
}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_bert(tmp_path_factory.mktemp("good") / "model")


@pytest.fixture
def copy(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "model"))


@pytest.mark.parametrize("case", BEFORE_LOADING, ids=[case.name for case in BEFORE_LOADING])
def test_hostile_directory_is_refused_with_its_reason(case: Spoiled, copy: Path) -> None:
    case.spoil(copy)
    with pytest.raises(AuditError) as refused:
        inspect_model(copy)
    assert case.says in str(refused.value)
    assert str(copy.parent) not in str(refused.value)
    assert len(str(refused.value)) < 600
    assert not canary(copy).exists()


def test_canary_of_the_tests_works(tmp_path: Path) -> None:
    import pickle

    (tmp_path / "model").mkdir()
    write_pickle(tmp_path / "model", "x.bin")
    pickle.loads((tmp_path / "model" / "x.bin").read_bytes())
    assert canary(tmp_path / "model").exists()


@pytest.mark.parametrize("architecture", MAKERS)
def test_summary_equals_what_transformers_says(architecture: str, tmp_path: Path) -> None:
    folder = MAKERS[architecture](tmp_path / "model")
    summary = inspect_model(folder)
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder)
    assert summary.architecture == architecture
    assert summary.n_parameters == sum(p.numel() for p in model.parameters())
    assert summary.n_layers == model.config.num_hidden_layers
    assert summary.hidden_size == model.config.hidden_size
    assert summary.vocab_size == model.config.vocab_size
    assert summary.n_positions == 64
    assert summary.digest() == model_digest(folder)


def test_roberta_uses_two_rows_less_than_its_position_table(tmp_path: Path) -> None:
    folder = make_roberta(tmp_path / "model")
    assert json.loads((folder / "config.json").read_text())["max_position_embeddings"] == 66
    assert inspect_model(folder).n_positions == 64


@given(
    architecture=st.sampled_from(["bert", "roberta", "distilbert"]),
    n_layers=st.integers(1, 3),
    width=st.sampled_from([4, 8]),
    vocab=st.integers(4, 20),
    rows=st.integers(8, 20),
    is_tied=st.booleans(),
)
@settings(max_examples=12, deadline=None)
def test_expected_tensors_are_those_of_transformers(
    architecture: str, n_layers: int, width: int, vocab: int, rows: int, is_tied: bool
) -> None:
    names = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
    if architecture == "distilbert":
        names = ("dim", "n_layers", "n_heads", "hidden_dim")
    raw = dict(zip(names, (width, n_layers, 2, 3 * width), strict=True)) | {
        "vocab_size": vocab,
        "max_position_embeddings": rows,
        "tie_word_embeddings": is_tied,
    }
    config = parse_config(raw | {"model_type": architecture}, where="config.json")
    kind = {"bert": "Bert", "roberta": "Roberta", "distilbert": "DistilBert"}[architecture]
    settings_class = getattr(transformers, f"{kind}Config")
    with torch.device("meta"):
        model = getattr(transformers, f"{kind}ForMaskedLM")(settings_class(**raw))
    found = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    assert expected_shapes(config) == found


_json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.sampled_from(["gelu", "absolute", "a/b"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=4,
)


@given(
    key=st.sampled_from(
        ["model_type", "hidden_size", "num_hidden_layers", "vocab_size", "hidden_act",
         "hidden_dropout_prob", "layer_norm_eps", "pad_token_id", "tie_word_embeddings",
         "_attn_implementation", "pruned_heads", "architectures"]
    ),
    value=_json_values,
)  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_any_setting_is_either_in_bounds_or_refused(key: str, value: object) -> None:
    try:
        config = parse_config({"model_type": "bert", key: value}, where="config.json")
    except AuditError:
        return
    assert 1 <= config.n_layers <= 200
    assert 1 <= config.vocab_size <= 1_000_000
    assert config.hidden_size % config.n_heads == 0
    assert 0 <= config.hidden_dropout < 1


def test_pickles_beside_safetensors_are_named_and_not_opened(copy: Path) -> None:
    for name in ("pytorch_model.bin", "training_args.bin", "optimizer.pt"):
        write_pickle(copy, name)
    summary = inspect_model(copy)
    assert summary.notes == ("Not opened: optimizer.pt, pytorch_model.bin, training_args.bin.",)
    assert not canary(copy).exists()


def test_harmless_settings_and_files_are_accepted(copy: Path) -> None:
    edit_json(copy, "config.json", _attn_implementation="sdpa", pruned_heads={}, label2id={"a": 0})
    (copy / "README.md").write_text("a model")
    (copy / "runs").mkdir()
    (copy / "runs" / "x.py").write_text("never opened")
    assert inspect_model(copy).notes == ()


def test_kind_is_read_from_the_class_name_of_old_configurations(copy: Path) -> None:
    config = json.loads((copy / "config.json").read_text())
    del config["model_type"]
    (copy / "config.json").write_text(json.dumps(config))
    assert inspect_model(copy).architecture == "bert"


def test_snapshot_of_a_hub_cache_may_link_into_its_own_blobs(good: Path, tmp_path: Path) -> None:
    home = tmp_path / "models--clinic--bert"
    snapshot = home / "snapshots" / "0a1b"
    snapshot.mkdir(parents=True)
    shutil.copytree(good, home / "blobs")
    for file in (home / "blobs").iterdir():
        (snapshot / file.name).symlink_to(Path("../../blobs") / file.name)
    assert inspect_model(snapshot).name == "models--clinic--bert"
    assert model_digest(snapshot) == model_digest(good)


def test_link_out_of_a_snapshot_is_refused(good: Path, tmp_path: Path) -> None:
    snapshot = tmp_path / "models--clinic--bert" / "snapshots" / "0a1b"
    shutil.copytree(good, snapshot)
    (tmp_path / "models--other--bert").mkdir()
    (snapshot / WEIGHTS).rename(tmp_path / "models--other--bert" / WEIGHTS)
    (snapshot / WEIGHTS).symlink_to(tmp_path / "models--other--bert" / WEIGHTS)
    with pytest.raises(AuditError, match="leads out"):
        inspect_model(snapshot)


def test_missing_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="cannot be read"):
        inspect_model(tmp_path / "nothing")


def test_file_in_place_of_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(AuditError, match="not a directory"):
        inspect_model(tmp_path / "file")


def test_different_vocabulary_files_are_noted(copy: Path) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(copy)
    tokenizer.save_pretrained(copy)
    assert (copy / "tokenizer.json").exists()
    assert read_model_files(copy).notes == ()
    (copy / "vocab.txt").write_text((copy / "vocab.txt").read_text().replace("john", "joan"))
    assert "hold different vocabularies" in read_model_files(copy).notes[0]


@pytest.mark.parametrize("file", [WEIGHTS, "vocab.txt", "tokenizer_config.json", "config.json"])
def test_digest_changes_with_what_determines_the_model(file: str, copy: Path) -> None:
    before = model_digest(copy)
    if file.endswith(".json"):
        change = {"do_lower_case": False} if "tokenizer" in file else {"hidden_dropout_prob": 0.2}
        edit_json(copy, file, **change)
    else:
        data = bytearray((copy / file).read_bytes())
        data[-2] ^= 1
        (copy / file).write_bytes(data)
    assert model_digest(copy) != before


def test_digest_does_not_depend_on_where_and_by_what_it_was_saved(copy: Path) -> None:
    before = model_digest(copy)
    edit_json(
        copy, "config.json", _name_or_path="/home/x", transformers_version="4.1", dtype="float16"
    )
    edit_json(copy, "tokenizer_config.json", name_or_path="/home/x")
    write_pickle(copy, "optimizer.pt")
    renamed = copy.rename(copy.parent / "renamed")
    assert model_digest(renamed) == before


def test_digest_of_every_bit_of_a_tensor(copy: Path) -> None:
    digests = {model_digest(copy)}
    data = (copy / WEIGHTS).read_bytes()
    for i in (len(data) // 2, len(data) - 1):
        (copy / WEIGHTS).write_bytes(data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :])
        digests.add(model_digest(copy))
    assert len(digests) == 3


def test_japanese_tokenizer_is_recognised(tmp_path: Path) -> None:
    assert inspect_model(make_japanese_bert(tmp_path / "m")).tokenizer == "BertJapaneseTokenizer"


def test_inspection_needs_neither_torch_nor_transformers(good: Path) -> None:
    script = (
        "import sys, pathlib\n"
        "for name in ('torch', 'transformers', 'tokenizers'):\n"
        "    sys.modules[name] = None\n"
        "import audit.models.registry\n"
        "from audit.models.inspect import inspect_model\n"
        "print(inspect_model(pathlib.Path(sys.argv[1])).architecture)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(good)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout.strip() == "bert", done.stderr
