"""Foreign bytes: whatever they are, they are read or refused, in little time and memory."""

from __future__ import annotations

import io
import json
import lzma
import random
import shutil
import struct
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

from audit.deid.given import keep_given, keep_outputs, notes_lines
from audit.deid.network.decode import KINDS
from audit.errors import AuditCancelled, AuditError
from audit.foreign import MAX_VALUES, json_value, refusing, zip_members
from audit.home import HOME_VARIABLE
from tests.base.child_bounds import Ended, run_bounded
from tests.models.editing import WEIGHTS, config, edit_json
from tests.models.make_models import make_bert

N_SECONDS, N_MB = 10, 500
REFUSAL = AuditError("No.", where="file", do="Go.")


def zipped(files: Mapping[str, bytes], *, how: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", how) as folder:
        for name, data in files.items():
            folder.writestr(name, data)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "fault", [OverflowError(), lzma.LZMAError(), struct.error(), MemoryError(), RecursionError()]
)
def test_whatever_a_parser_raises_is_the_refusal(fault: Exception) -> None:
    with pytest.raises(AuditError) as refused, refusing(REFUSAL):
        raise fault
    assert str(refused.value) == "file: No. Go."


def test_an_error_that_has_its_own_words_and_a_wish_to_stop_pass() -> None:
    for fault in (AuditError("Mine."), AuditCancelled()):
        with pytest.raises(type(fault)) as passed, refusing(REFUSAL):
            raise fault
        assert passed.value is fault


@pytest.mark.parametrize(
    "text",
    ["", "{", "[NaN]", "[1e999]", f"[{10**400}]", f"[-{10**301}]", "[" * 100_000, '{"a":1,"a":2}',
     f"[{'9' * 5000}]", b"\xff"],
)  # fmt: skip
def test_json_that_is_not_plainly_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(AuditError, match="Go"):
        json_value(text, refusal=REFUSAL)


def test_json_that_is_plain_is_read() -> None:
    value = {"a": [1, -2.5, None, True, "x", 2**63], "b": {}}
    assert json_value(json.dumps(value), refusal=REFUSAL) == value
    assert json_value(b"\xef\xbb\xbf" + json.dumps(value).encode(), refusal=REFUSAL) == value
    with pytest.raises(AuditError, match="Go"):
        json_value(f"[{'1,' * MAX_VALUES}1]", refusal=REFUSAL)


def test_members_of_an_archive_are_bounded_in_number_and_size() -> None:
    data = zipped({"a.txt": b"12345", "b.txt": b"67890", ".hidden": b"0" * 99})
    read = list(zip_members(data, where="x", max_bytes=10, max_files=3))
    assert read == [("a.txt", b"12345"), ("b.txt", b"67890")]
    with pytest.raises(AuditError, match="too large when unpacked"):
        list(zip_members(data, where="x", max_bytes=9, max_files=3))
    with pytest.raises(AuditError, match="more than 1 files"):
        list(zip_members(data, where="x", max_bytes=10, max_files=1))


@pytest.mark.parametrize("how", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_only_the_packing_that_can_be_bounded_is_read(how: int) -> None:
    data = zipped({"a.txt": b"some note"}, how=how)
    with pytest.raises(AuditError, match="packed in a way"):
        notes_lines([("a.zip", data)])
    with pytest.raises(AuditError, match="packed in a way"):
        keep_given(data, name="a.zip", what="gold notes")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_bert(tmp_path_factory.mktemp("good") / "model")


@pytest.fixture
def copy(model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(model, tmp_path / "model"))


def _newlines(folder: Path) -> None:
    (folder / "vocab.txt").write_bytes(b"\n" * 60_000_000)


def _three_million(folder: Path) -> None:
    with (folder / "vocab.txt").open("w") as file:
        file.writelines(f"w{i}\n" for i in range(3_000_000))


def _nested_lists(folder: Path) -> None:
    (folder / "tokenizer.json").write_text('{"a":[' + "[]," * 20_000_000 + "[]]}")


def _wide_strings(folder: Path) -> None:
    (folder / "tokenizer.json").write_text('{"a":["' + "\U0001f600" + "x" * 60_000_000 + '"]}')


def _long_header(folder: Path) -> None:
    header = b'{"__metadata__":{' + b'"a":"",' * 3_400_000
    header = header[:-1] + b"}}"
    (folder / WEIGHTS).write_bytes(len(header).to_bytes(8, "little") + header)


def _long_index(folder: Path) -> None:
    names = ",".join(f'"{i}":"model-{i % 200}.safetensors"' for i in range(250_000))
    (folder / "model.safetensors.index.json").write_text('{"weight_map":{' + names + "}}")
    (folder / WEIGHTS).unlink()


def _special_tokens(folder: Path) -> None:
    tokens = {str(37 + i): {"content": f"[t{i}]", "special": True} for i in range(100_000)}
    edit_json(folder, "tokenizer_config.json", added_tokens_decoder=tokens)


def _special_words(folder: Path) -> None:
    edit_json(
        folder,
        "tokenizer_config.json",
        additional_special_tokens=[f"[t{i}]" for i in range(100_000)],
    )


def _added(folder: Path) -> None:
    (folder / "added_tokens.json").write_text(
        json.dumps({f"[t{i}]": 37 + i for i in range(100_000)})
    )


def _added_fast(folder: Path) -> None:
    words = (folder / "vocab.txt").read_text().split()
    added = [{"id": 37 + i, "content": f"[t{i}]", "special": True} for i in range(100_000)]
    state = {
        "added_tokens": added,
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": {"type": "WordPiece", "unk_token": "[UNK]",
                  "vocab": {word: i for i, word in enumerate(words)}},
    }  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(state))


def _sparse(folder: Path) -> None:
    config(hidden_size=4096, num_attention_heads=16, intermediate_size=16384, num_hidden_layers=12)(
        folder
    )
    from audit.models.inspect import expected_shapes, parse_config

    shapes = expected_shapes(parse_config(json.loads((folder / "config.json").read_text()),
                                          where=""))  # fmt: skip
    header, at = {}, 0
    for name, shape in shapes.items():
        n = 4
        for size in shape:
            n *= size
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + n]}
        at += n
    data = json.dumps(header).encode()
    with (folder / WEIGHTS).open("wb") as file:
        file.write(len(data).to_bytes(8, "little") + data)
        file.truncate(8 + len(data) + at)
    assert at > 9e9


LARGE = (
    _newlines, _three_million, _nested_lists, _wide_strings, _long_header, _long_index,
    _special_tokens, _special_words, _added, _added_fast,
)  # fmt: skip


@pytest.mark.parametrize("spoil", LARGE)
def test_a_large_model_folder_is_refused_early(spoil: Callable[[Path], None], copy: Path) -> None:
    spoil(copy)
    ended = run_bounded(
        "import sys\nfrom pathlib import Path\nfrom audit.models.inspect import inspect_model",
        "inspect_model(Path(sys.argv[1]))",
        copy,
    )
    within(ended)
    assert ended.refusal


def test_weights_that_do_not_fit_into_free_memory_are_not_loaded(copy: Path) -> None:
    _sparse(copy)
    ended = run_bounded(
        "import sys\nfrom pathlib import Path\nfrom audit import foreign\n"
        "from audit.models.load import load_model\nforeign.free_memory = lambda: 8e9",
        "load_model(Path(sys.argv[1]))",
        copy,
    )
    within(ended)
    assert "free memory" in ended.refusal


def test_taggers_and_text_models_that_do_not_fit_into_free_memory_are_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from audit.deid.generative.model import check_directory
    from audit.deid.network.model import load_model_folder, model_of_encoder

    monkeypatch.setattr("audit.foreign.free_memory", lambda: 8e9)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with (tmp_path / WEIGHTS).open("wb") as file:
        file.truncate(10_000_000_000)
    doors: tuple[Callable[[], object], ...] = (
        lambda: check_directory(tmp_path),
        lambda: load_model_folder(tmp_path, n_tags=3, device="cpu"),
        lambda: model_of_encoder(tmp_path, n_tags=3, seed=0),
    )
    for door in doors:
        with pytest.raises(AuditError, match="free memory"):
            door()


@pytest.mark.parametrize(
    ("config", "extra"),
    [
        ({"model_type": "bert", "hidden_size": 120_000, "intermediate_size": 480_000}, {}),
        ({"model_type": "character_net", "width": 4096, "dilations": [1] * 64},
         {"characters.json": {"version": 1, "kinds": list(KINDS), "characters": "ab"}}),
    ],
)  # fmt: skip
def test_a_tagger_that_promises_more_than_the_memory_is_not_built(
    config: dict[str, object], extra: dict[str, object], tmp_path: Path
) -> None:
    for name, content in {"config.json": config, **extra}.items():
        (tmp_path / name).write_text(json.dumps(content))
    (tmp_path / WEIGHTS).write_bytes((2).to_bytes(8, "little") + b"{}")
    ended = run_bounded(
        "import sys\nfrom pathlib import Path\n"
        "from audit.deid.network.model import load_model_folder\n"
        "import transformers.models.bert.modeling_bert",
        "load_model_folder(Path(sys.argv[1]), n_tags=3, device='cpu')",
        tmp_path,
    )
    within(ended)
    assert ended.refusal


def _gold(line: str) -> bytes:
    return zipped({"notes.jsonl": (line * (390_000_000 // len(line.encode()))).encode()})


def _spans() -> bytes:
    spans = ",".join(f'{{"start":0,"end":1,"label":"{i}"}}' for i in range(200_000))
    lines = "".join(
        f'{{"doc_id":"{i}","text":"x","spans":[{spans}]}}\n' for i in range(20)
    )  # fmt: skip
    return zipped({"notes.jsonl": lines.encode()})


def _many_files() -> bytes:
    return zipped({f"{i}.txt": b"" for i in range(160_000)}, how=zipfile.ZIP_STORED)


def _many_notes() -> bytes:
    lines = "".join(f'{{"doc_id":"{i}","text":"\U0001f600"}}\n' for i in range(1_500_000))
    return zipped({"notes.jsonl": lines.encode()})


@cache
def _archive(kind: str) -> bytes:
    return ARCHIVES[kind]()


ARCHIVES: dict[str, Callable[[], bytes]] = {
    "notes": lambda: _gold('{"doc_id": 1, "text": "fever", "spans": []}\n'),
    "text": lambda: zipped({"a.txt": "\U0001f600".encode() + b"fever " * 65_000_000}),
    "bz2": lambda: zipped({"a.txt": b"\n" * 600_000_000}, how=zipfile.ZIP_BZIP2),
    "spans": _spans,
    "files": _many_files,
    "small_notes": _many_notes,
    "xml": lambda: zipped({"a.xml": b"<r><TEXT>" + b"<a/>" * 20_000_000 + b"</TEXT></r>"}),
}


@pytest.mark.parametrize("kind", ARCHIVES)
@pytest.mark.parametrize("door", ["given", "handed_in"])
def test_a_bomb_is_refused_or_read_in_bounds(kind: str, door: str, tmp_path: Path) -> None:
    path = tmp_path / "notes.zip"
    path.write_bytes(_archive(kind))
    calls = {
        "given": "keep_given(data, name='notes.zip', what='gold notes')",
        "handed_in": "notes_lines([('notes.zip', data)])",
    }
    ended = run_bounded(
        f"""
        import os, sys
        from pathlib import Path
        os.environ[{HOME_VARIABLE!r}] = str(Path(sys.argv[1]).with_name("home"))
        from audit.deid.given import keep_given
        from audit.deid.given import notes_lines
        data = Path(sys.argv[1]).read_bytes()
        """,
        calls[door],
        path,
    )
    within(ended)


UPLOADS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "cells": ("read_table(data, what='table')", lambda: b"a,b,c\n" + b"ab,cd,ef\n" * 5_500_000),
    "blank_rows": ("read_table(data, what='table')", lambda: b"name\n" + b"\n" * 49_000_000),
    "blank_lines": ("read_passages(data, file_name='p.jsonl')", lambda: b"\n" * 49_000_000),
    "blank_outputs": ("keep_outputs(data, what='copies')", lambda: b"\n" * 49_000_000),
    "one_emoji": (
        "read_table(data, what='table')",
        lambda: "name\n😀\n".encode() + b"fever\n" * 900_000,
    ),
}


@pytest.mark.parametrize("kind", UPLOADS)
def test_a_large_upload_is_refused_or_read_in_bounds(kind: str, tmp_path: Path) -> None:
    call, make = UPLOADS[kind]
    (tmp_path / "upload").write_bytes(make())
    ended = run_bounded(
        """
        import sys
        from pathlib import Path
        from audit.notes.passages import read_passages
        from audit.deid.given import keep_outputs
        from audit.tables import read_table
        data = Path(sys.argv[1]).read_bytes()
        """,
        call,
        tmp_path / "upload",
    )
    within(ended)


def test_a_table_of_numbers_that_no_float_holds_is_read_as_text(tmp_path: Path) -> None:
    from audit.notes.read import Note, open_notes

    (tmp_path / "n.jsonl").write_text(
        '{"patient_id": 1' + "0" * 399 + ', "text": "a"}\n{"patient_id": 7.0, "text": "b"}\n'
        '{"patient_id": 70, "text": "c"}\n{"patient_id": 1e999, "text": "d"}\n'
    )
    found = list(open_notes(tmp_path / "n.jsonl").read())
    assert [one.patient_id for one in found if isinstance(one, Note)] == ["7", "70", "1e999"]
    assert len(found) == 4


def test_a_damaged_parquet_file_is_read_or_refused(tmp_path: Path) -> None:
    from audit.notes.read import open_notes

    arrow = pytest.importorskip("pyarrow")
    parquet, path = pytest.importorskip("pyarrow.parquet"), tmp_path / "notes.parquet"
    table = {"note_id": [1, 2, 3] * 50, "text": ["fever", "cough " * 40, "氏名"] * 50}
    for packing in ("snappy", "none"):
        parquet.write_table(arrow.table(table), path, compression=packing)
        good, rng = path.read_bytes(), random.Random(packing)
        for _ in range(250):
            bad = bytearray(good)
            for _ in range(rng.randint(1, 3)):
                bad[rng.randrange(len(bad))] = rng.randrange(256)
            path.write_bytes(bad)
            with suppress(AuditError):
                list(open_notes(path).read())


def test_outputs_with_wrong_bytes_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    good, rng = b'{"doc_id": "a", "output": "b"}\n', random.Random(0)
    for _ in range(200):
        bad = bytearray(good)
        bad[rng.randrange(len(bad))] = rng.randrange(256)
        try:
            keep_outputs(bytes(bad), what="copies")
        except AuditError as refused:
            assert "copies" in str(refused)


def within(ended: Ended) -> None:
    assert ended.seconds < N_SECONDS, ended
    assert ended.n_mb < N_MB, ended
