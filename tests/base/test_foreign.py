"""Foreign bytes: whatever they are, they are read or refused, in little time and memory."""

from __future__ import annotations

import io
import json
import lzma
import os
import random
import struct
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from audit.cli import main
from audit.deid.find.network.word_features import FLAGS, KINDS
from audit.errors import AuditCancelled, AuditError
from audit.foreign import (
    MAX_VALUES,
    parse_json_value,
    read_file_bytes,
    read_zip_members,
    refuse_errors,
)
from audit.home import HOME_VARIABLE
from audit.shelf import fingerprint
from tests.base.child_bounds import told_in_bounds
from tests.models.editing import WEIGHTS, config, edit_json, write_header, write_zeros
from tests.models.hostile_models import fast
from tests.models.make_models import copy, good

__all__ = ["copy", "good"]

REFUSAL = AuditError("No.", where="file", do="Go.")


def zipped(files: Mapping[str, bytes], *, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as folder:
        for name, data in files.items():
            folder.writestr(name, data)
    return buffer.getvalue()


def test_whatever_a_parser_raises_is_the_refusal_but_for_own_words_and_a_wish_to_stop():
    for fault in (OverflowError(), lzma.LZMAError(), struct.error(), MemoryError()):
        with pytest.raises(AuditError, match=r"^file: No\. Go\.$"), refuse_errors(REFUSAL):
            raise fault
    for error in (AuditError("Mine."), AuditCancelled()):
        with pytest.raises(type(error)) as passed, refuse_errors(REFUSAL):
            raise error
        assert passed.value is error


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[NaN]",
        "[1e999]",
        f"[{10**400}]",
        f"[-{10**301}]",
        "[" * 100_000,
        '{"a":1,"a":2}',
        f"[{'9' * 5000}]",
        b"\xff",
    ],
)
def test_json_that_is_not_plainly_json_is_refused(text):
    with pytest.raises(AuditError, match="Go"):
        parse_json_value(text, refusal=REFUSAL)


def test_json_that_is_plain_is_read():
    value = {"a": [1, -2.5, None, True, "x", 2**63], "b": {}}
    assert parse_json_value(json.dumps(value), refusal=REFUSAL) == value
    assert parse_json_value(b"\xef\xbb\xbf" + json.dumps(value).encode(), refusal=REFUSAL) == value
    with pytest.raises(AuditError, match="Go"):
        parse_json_value(f"[{'1,' * MAX_VALUES}1]", refusal=REFUSAL)
    assert parse_json_value("[1, {}]", refusal=REFUSAL, max_values=3, max_objects=1) == [1, {}]
    for bounds in ({"max_values": 2}, {"max_objects": 0}):
        with pytest.raises(AuditError, match="Go"):
            parse_json_value("[1, {}]", refusal=REFUSAL, **bounds)


def test_an_archive_that_no_bound_can_be_kept_for_is_refused():
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        data = zipped({"a.txt": b"some note"}, method=method)
        with pytest.raises(AuditError, match="packed in a way"):
            list(read_zip_members(data, place="x", max_bytes=10, max_files=1))


MANY = {f"[t{i}]": 37 + i for i in range(100_000)}
ADDED = [{"id": i, "content": token, "special": True} for token, i in MANY.items()]
LARGE: dict[str, Callable[[Path], object]] = {
    "newlines": lambda f: (f / "vocab.txt").write_bytes(b"\n" * 60_000_000),
    "words": lambda f: (f / "vocab.txt").write_text("".join(f"w{i}\n" for i in range(3_000_000))),
    "nested lists": lambda f: (f / "tokenizer.json").write_text(
        '{"a":[' + "[]," * 20_000_000 + "[]]}"
    ),
    "wide strings": lambda f: (f / "tokenizer.json").write_text(
        '{"a":["' + "\U0001f600" + "x" * 47_000_000 + '"]}'
    ),
    "long header": lambda f: write_header(
        f, b'{"__metadata__":{' + b'"a":"",' * 3_399_999 + b'"a":""}}'
    ),
    "long index": lambda f: (
        (f / "model.safetensors.index.json").write_text(
            json.dumps({"weight_map": {i: f"model-{i % 200}.safetensors" for i in range(250_000)}})
        ),
        (f / WEIGHTS).unlink(),
    ),
    "special tokens": lambda f: edit_json(
        f,
        "tokenizer_config.json",
        added_tokens_decoder={str(token["id"]): token for token in ADDED},
    ),
    "special words": lambda f: edit_json(
        f, "tokenizer_config.json", additional_special_tokens=list(MANY)
    ),
    "added": lambda f: (f / "added_tokens.json").write_text(json.dumps(MANY)),
    "added fast": lambda f: fast(added_tokens=ADDED)(f),
}


@pytest.mark.long
@pytest.mark.parametrize("kind", LARGE)
def test_a_large_model_folder_is_refused_early(kind, copy):
    LARGE[kind](copy)
    assert told_in_bounds(
        "from audit.models.inspect import inspect_model", "inspect_model(path)", copy
    )


def test_weights_that_do_not_fit_into_free_memory_are_not_loaded(copy, tmp_path, monkeypatch):
    from audit.deid.find.causal_model import check_directory
    from audit.deid.find.network.token_model import model_of_encoder
    from audit.deid.find.network.token_tagger import load_model as load_tokens
    from audit.models.load import load_model

    monkeypatch.setattr("audit.foreign.find_free_memory", lambda: 8e9)
    config(hidden_size=4096, num_attention_heads=16, intermediate_size=16384, num_hidden_layers=12)(
        copy
    )
    assert write_zeros(copy) > 9e9
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    write_header(tmp_path, b"", n_bytes=10_000_000_000)
    doors: tuple[Callable[[], object], ...] = (
        lambda: load_model(copy),
        lambda: check_directory(tmp_path),
        lambda: load_tokens(tmp_path, n_tags=3, device="cpu"),
        lambda: model_of_encoder(tmp_path, n_tags=3, seed=0),
    )
    for door in doors:
        with pytest.raises(AuditError, match="free memory"):
            door()


@pytest.mark.long
@pytest.mark.parametrize(
    ("config", "extra"),
    [
        ({"model_type": "bert", "hidden_size": 120_000, "intermediate_size": 480_000}, {}),
        (
            {"model_type": "word_net", "width": 4096, "dilations": [1] * 64},
            {"lists.json": {"version": 2, "kinds": list(KINDS), "flags": list(FLAGS), "lists": {}}},
        ),
    ],
)
def test_a_tagger_that_promises_more_than_the_memory_is_not_built(config, extra, tmp_path):
    for name, content in {"config.json": config, **extra}.items():
        (tmp_path / name).write_text(json.dumps(content))
    write_header(tmp_path, b"{}")
    assert told_in_bounds(
        "from audit.deid.find.network.token_tagger import load_model\n"
        "import transformers.models.bert.modeling_bert",
        "load_model(path, n_tags=3, device='cpu')",
        tmp_path,
    )


def _spans() -> bytes:
    spans = ",".join(f'{{"start":0,"end":1,"label":"{i}"}}' for i in range(200_000))
    lines = (f'{{"doc_id":"{i}","text":"x","spans":[{spans}]}}\n' for i in range(20))
    return zipped({"notes.jsonl": "".join(lines).encode()})


def _many_notes() -> bytes:
    lines = (f'{{"doc_id":"{i}","text":"\U0001f600"}}\n' for i in range(1_500_000))
    return zipped({"notes.jsonl": "".join(lines).encode()})


GIVEN = (
    "keep_upload(data, name='notes.zip', subject='g')",
    "notes_as_jsonl([('notes.zip', data)])",
)
TABLE = ("read_table(data, subject='table')",)
NAMES = ("read_names(data)",)
HANDED_IN: dict[str, tuple[tuple[str, ...], Callable[[], bytes]]] = {
    "notes": (
        GIVEN,
        lambda: zipped(
            {"notes.jsonl": b'{"doc_id": 1, "text": "fever", "spans": []}\n' * 8_863_636}
        ),
    ),
    "text": (GIVEN, lambda: zipped({"a.txt": "\U0001f600".encode() + b"fever " * 65_000_000})),
    "bz2": (GIVEN, lambda: zipped({"a.txt": b"\n" * 600_000_000}, method=zipfile.ZIP_BZIP2)),
    "spans": (GIVEN, _spans),
    "files": (
        GIVEN,
        lambda: zipped({f"{i}.txt": b"" for i in range(160_000)}, method=zipfile.ZIP_STORED),
    ),
    "small_notes": (GIVEN, _many_notes),
    "xml": (GIVEN, lambda: zipped({"a.xml": b"<r><TEXT>" + b"<a/>" * 20_000_000 + b"</TEXT></r>"})),
    "cells": (TABLE, lambda: b"a,b,c\n" + b"ab,cd,ef\n" * 5_500_000),
    "json_cells": (
        NAMES,
        lambda: b"".join(
            b'{"k%d": "", "first": "a", "last": "%d"}\n' % (n % 250, n) for n in range(100_000)
        ),
    ),
    "sheet": (NAMES, lambda: zipped({"xl/worksheets/sheet1.xml": b"<c/>" * 90_000_000})),
    "blank_rows": (TABLE, lambda: b"name\n" + b"\n" * 49_000_000),
    "one_emoji": (TABLE, lambda: "name\n😀\n".encode() + b"fever\n" * 900_000),
    "blank_lines": (
        ("read_passages(data, file_name='p.jsonl')", "keep_outputs(data, subject='c')"),
        lambda: b"\n" * 49_000_000,
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("kind", HANDED_IN)
def test_a_bomb_or_a_large_upload_is_refused_or_read_in_bounds(kind, tmp_path):
    calls, make = HANDED_IN[kind]
    (tmp_path / "notes").write_bytes(make())
    for call in calls:
        told_in_bounds(
            f"import os\nos.environ[{HOME_VARIABLE!r}] = str(path.with_name('home'))\n"
            "from audit.deid.sets.incoming_notes import keep_outputs, keep_upload, notes_as_jsonl\n"
            "from audit.names.files import read_names\n"
            "from audit.notes.passages import read_passages\n"
            "from audit.tables import read_table\ndata = path.read_bytes()",
            call,
            tmp_path / "notes",
        )


def test_a_table_of_numbers_that_no_float_holds_is_read_as_text(tmp_path):
    from audit.notes.read import Note, open_notes

    (tmp_path / "n.jsonl").write_text(
        '{"patient_id": 1' + "0" * 399 + ', "text": "a"}\n{"patient_id": 7.0, "text": "b"}\n'
        '{"patient_id": 70, "text": "c"}\n{"patient_id": 1e999, "text": "d"}\n'
    )
    notes = list(open_notes(tmp_path / "n.jsonl").read())
    assert [note.patient_id for note in notes if isinstance(note, Note)] == ["7", "70", "1e999"]
    assert len(notes) == 4


@pytest.mark.long
def test_a_damaged_parquet_file_is_read_or_refused(tmp_path):
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


def test_a_pipe_in_a_files_place_is_refused_and_waits_for_nobody(tmp_path, capsys):
    pipe, model = tmp_path / "pipe.csv", tmp_path / "model"
    os.mkfifo(pipe)
    model.mkdir()
    names = tmp_path / "names.csv"
    names.write_text("first_name,last_name,is_member\nMary,Smith,1\n")
    run = ["run", "--scenario", "2", "--general", model, "--hospital", model]
    for words in (
        [*run, "--names", pipe],
        [*run, "--names", names, "--passages", pipe],
        ["deid", "policy", pipe],
        ["deid", "tag", "--tagger", "rules", "--notes", pipe, "--out", tmp_path / "out"],
        ["deid", "score", "--gold", pipe, "--pred", pipe],
        ["run", "--scenario", "2", "--general", model, "--hospital", model, "--names", "/dev/zero"],
    ):
        assert main(list(map(str, words))) == 2, words
        printed = capsys.readouterr().err
        assert "Traceback" not in printed and (
            "not a file" in printed or "is not there" in printed
        ), printed
    for read in (read_file_bytes, fingerprint):
        with pytest.raises(AuditError, match="This is a pipe or a device, not a file"):
            read(pipe)
