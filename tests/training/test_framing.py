"""What a causal model reads of notes: tokens by hand, rows, and which tokens receive loss."""

from __future__ import annotations

import json
import math
from array import array
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.errors import AuditError
from audit.models.chat_template import read_chat_frame
from audit.models.load import load_model
from audit.notes.read import open_notes
from audit.training.config import TrainSettings
from audit.training.framing import (
    PackedRows,
    draw_packed_held_out,
    make_framing,
)
from audit.training.tokens import Split, Stream, TokenFile, read_or_make_tokens
from tests.models.make_causal import TOKENIZERS, make_causal

TEMPLATES = {
    "gpt2": "{% for message in messages %}<{{ message.role }}>\n{{ message.content }}"
    "<|endoftext|>\n{% endfor %}",
    "llama 3": "{{ bos_token }}{% for message in messages %}[{{ message.role }}] "
    "{{ message.content }}<|end_of_text|>{% endfor %}",
}
HEAD = "<user>\nWrite a note.<|endoftext|>\n<assistant>\n"
LLAMA3_HEAD = "[user] Write a note.<|end_of_text|>[assistant] "
TEXT = "Jo [**Name 3**] sat in___. é\n\nJohn <|endoftext|>it"


def load_tokenizer(folder: Path, name: str) -> Any:
    folder.mkdir(exist_ok=True)
    TOKENIZERS[name](folder)
    return transformers.AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def plain_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return load_tokenizer(tmp_path_factory.mktemp("gpt2"), "gpt2")


def quick(**changes: Any) -> TrainSettings:
    values = {"is_causal": True, "n_tokens": 8, "batch": 4, "micro_batch": 2, "n_steps": 3}
    return TrainSettings(**values | changes)


def test_a_note_is_read_whole_without_placeholders(plain_tokenizer: Any) -> None:
    framing = make_framing(plain_tokenizer, quick())
    note = framing.frame(TEXT)
    decoded = plain_tokenizer.decode(note.ids)
    assert decoded == "Jo sat in. é\n\nJohn it<|endoftext|>"
    assert note.n_head == 0 and framing.encode(TEXT) == (note.ids, 0)
    # Each token is where it stands in the note, whatever was left out before it.
    pieces = [TEXT[start:stop] for start, stop in note.spans.tolist()]
    assert pieces[-1] == ""
    assert "".join(pieces[:-1]).replace("éé", "é") == "Jo sat in. é\n\nJohn it"
    (place,) = [i for i, piece in enumerate(pieces) if piece == "John"] or [-1]
    assert note.spans[place].tolist() == [TEXT.index("John"), TEXT.index("John") + 4]
    for empty in ("", " \n", "[**Name**]", "<|endoftext|>"):
        assert framing.encode(empty) == ([], 0)


@pytest.mark.parametrize(
    ("name", "begin"), [("gpt2", []), ("llama 3", ["<|begin_of_text|>"]), ("llama 2", ["<s>"])]
)
def test_a_note_begins_as_the_tokenizer_begins_a_text(
    name: str, begin: list[str], tmp_path: Path
) -> None:
    tokenizer = load_tokenizer(tmp_path, name)
    ids, n_head = make_framing(tokenizer, quick()).encode("John sat")
    assert tokenizer.convert_ids_to_tokens(ids[:n_head]) == begin
    assert ids == [*tokenizer("John sat")["input_ids"], tokenizer.eos_token_id]
    # Under a header the whole is split as one text.
    headed = make_framing(tokenizer, quick(header="A note:\n"))
    ids, n_head = headed.encode("John sat")
    assert ids == [*tokenizer("A note:\nJohn sat")["input_ids"], tokenizer.eos_token_id]
    assert tokenizer.decode(ids[n_head:-1]).strip() == "John sat"
    assert headed.form != make_framing(tokenizer, quick()).form


def test_a_note_stands_in_the_template_as_the_answer(tmp_path: Path) -> None:
    settings = quick(frame="template", header="Write a note.")
    for name, head in (("llama 3", LLAMA3_HEAD), ("gpt2", HEAD)):
        folder = make_causal(tmp_path / name, name)
        with pytest.raises(AuditError, match="no chat template that takes a question"):
            make_framing(load_model(folder).tokenizer, settings, model=folder)
        template = TEMPLATES[name]
        (folder / "chat_template.jinja").write_text(template)
        tokenizer = load_model(folder).tokenizer
        framing = make_framing(tokenizer, settings, model=folder)
        # What an audit puts before a note, with what the tokenizer adds by itself.
        assert framing.head == head
        ids, n_head = framing.encode("John sat")
        assert ids[:n_head] == tokenizer(head)["input_ids"]
        assert tokenizer.decode(ids[n_head:]) == f"John sat{tokenizer.eos_token}"
        (folder / "chat_template.jinja").unlink()
        tokenizer_settings = json.loads((folder / "tokenizer_config.json").read_bytes())
        for value in (template, [{"name": "default", "template": template}]):
            changed = json.dumps(tokenizer_settings | {"chat_template": value})
            (folder / "tokenizer_config.json").write_text(changed)
            assert make_framing(tokenizer, settings, model=folder).head == head


@pytest.mark.parametrize(
    "template",
    [
        pytest.param(
            "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
            marks=pytest.mark.long,
        ),
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages[1].content }}{{ messages[1].content }}",
        "{{ messages[0].content }}",
        "{% for",
    ],
)
def test_a_template_that_cannot_be_used_is_refused(template: str, tmp_path: Path) -> None:
    folder = make_causal(tmp_path / "m", "gpt2")
    (folder / "chat_template.jinja").write_text(template)
    with pytest.raises(AuditError, match="no chat template that takes a question"):
        read_chat_frame(folder, "Write.", tokenizer=load_model(folder).tokenizer)


def make_tokens(lengths: list[int], heads: list[int] | None = None) -> TokenFile:
    """Notes in which no token is there twice; the first tokens of each may be of a head."""
    ends = np.cumsum(lengths)
    return TokenFile(
        np.arange(ends[-1], dtype=np.uint32),
        ends,
        np.arange(len(lengths)),
        np.zeros(0, dtype=np.int64),
        heads=np.array(heads or [], dtype=np.int64),
    )


def whole_stream(tokens: TokenFile) -> Stream:
    return Stream(tokens, np.arange(len(tokens.ends)))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(1, 30), min_size=3, max_size=20),
    st.integers(8, 14),
    st.integers(1, 6),
    st.integers(0, 99),
    st.integers(1, 12),
)
def test_an_epoch_predicts_every_token_once_and_what_has_loss_is_known(
    lengths: list[int], n_tokens: int, batch: int, seed: int, n_steps: int
) -> None:
    tokens = make_tokens(lengths)
    n = len(tokens.ids)
    settings = quick(n_tokens=n_tokens, batch=batch, micro_batch=batch, seed=seed)
    if n < n_tokens:
        with pytest.raises(AuditError, match="fewer than one row"):
            PackedRows(whole_stream(tokens), settings)
        return
    rows = PackedRows(whole_stream(tokens), settings)
    predicted: Counter[int] = Counter()
    n_epoch_steps = math.ceil(rows.n_rows / batch)
    for step in range(1, max(n_steps, n_epoch_steps) + 1):
        read = rows.of_step(step)
        assert read.ids.shape == (batch, n_tokens + 1) and read.n_asked == batch * n_tokens
        following = (read.ids[:, :-1] + 1) % n
        assert (read.ids[:, 1:] == following).all()  # each token behind the one before it
        if step <= n_steps:
            predicted.update(read.ids[:, 1:].ravel().tolist())
    has_loss = rows.is_learned(np.arange(n), n_steps=n_steps)
    assert {*np.flatnonzero(has_loss).tolist()} == {*predicted}
    if n_steps * batch == rows.n_rows:
        assert set(predicted.values()) == {1} and 0 <= n - len(predicted) < n_tokens


def test_the_loss_is_on_all_tokens_or_on_the_note_alone() -> None:
    tokens = make_tokens([10, 12, 9, 20], heads=[2, 3, 2, 4])
    stream = whole_stream(tokens)
    note_tokens = [*range(2, 10), *range(13, 22), *range(24, 31), *range(35, 51)]
    for loss_on, expected in (("all", [*range(51)]), ("note", note_tokens)):
        rows = PackedRows(stream, quick(loss_on=loss_on))
        predicted: set[int] = set()
        for step in range(1, 12):
            read = rows.of_step(step)
            predicted.update(read.ids[:, 1:][read.is_asked].tolist())
            assert read.n_asked == sum(part.n_asked for part in read.parts(1))
            assert {part.n_step for part in read.parts(3)} == {read.n_asked}
        assert sorted(predicted) == expected
        has_loss = rows.is_learned(np.arange(51), n_steps=11)
        assert np.flatnonzero(has_loss).tolist() == expected
    assert stream.locate(1, np.array([0, 5])).tolist() == [10, 15]  # type: ignore[union-attr]
    stream = Stream(tokens, np.array([0, 2]))
    assert stream.locate(2, np.array([1])).tolist() == [11]  # type: ignore[union-attr]
    assert stream.locate(1, np.array([0])) is None and stream.locate(3, np.array([0])) is None


def test_held_out_rows_are_the_same_and_have_a_baseline() -> None:
    tokens = make_tokens([40] * 10, heads=[3] * 10)
    split = Split(np.arange(7), np.arange(7, 10))
    held_out = draw_packed_held_out(tokens, split, n_vocabulary=400, settings=quick())
    assert held_out is not None
    assert held_out.rows.ids.min() >= 280 and held_out.rows.ids.shape == (13, 9)
    # None of them is in the training notes: each has a count of one in 280 and 400 more.
    assert held_out.unigram_loss == pytest.approx(math.log(680))
    alone = draw_packed_held_out(tokens, split, n_vocabulary=400, settings=quick(loss_on="note"))
    assert alone is not None and alone.rows.n_asked < held_out.rows.n_asked
    nothing = Split(np.arange(10), np.arange(0))
    assert draw_packed_held_out(tokens, nothing, n_vocabulary=400, settings=quick()) is None


def test_the_tokens_of_a_file_are_made_once_for_each_frame(
    plain_tokenizer: Any, tmp_path: Path
) -> None:
    notes = tmp_path / "notes.jsonl"
    texts = ["John sat", "", "[**Name**]", "a\nb"]
    notes.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    plain, headed = (
        make_framing(plain_tokenizer, quick(header=header)) for header in ("", "Note: ")
    )
    files = [
        read_or_make_tokens(open_notes(notes), plain_tokenizer, store=tmp_path / "t", encoder=e)
        for e in (plain, headed, headed)
    ]
    assert len(list((tmp_path / "t").iterdir())) == 2
    first = files[0]
    assert first.ids[: first.ends[0]].tolist() == plain.encode("John sat")[0]
    assert first.heads.tolist() == [] and files[1].heads.tolist() == [6, 6]
    assert files[1].missing.tolist() == array("q", [1, 2]).tolist()
    assert files[1].digest() == files[2].digest() != first.digest()
