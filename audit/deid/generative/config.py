"""The file `tagger.json` of a generative tagger: what it is, beside its model; torch-free.

A tagger is a folder with `tagger.json` and `model/`, an ordinary causal language model.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import Field

from audit.deid.tagger import TaggerFile, Window, windows_of
from audit.errors import AuditError
from audit.task import Record
from audit.training.config import Rate, Rows, ScheduledSettings, Share

SPARE = 64
"""Tokens for tags that every answer has, however short the note is."""
GROWTH = 2.0
"""Tokens of an answer for one of its note, where no training has measured it."""
_LEAST_TOKENS = 16
_SHRINK = 0.8


@dataclass(frozen=True)
class Room:
    """How long a note and its answer may be.

    Attributes
    ----------
    n_note
        Tokens of a window at most.
    growth
        Tokens of an answer for one of its note, `SPARE` not counted.
    """

    n_note: int
    growth: float = GROWTH

    def __post_init__(self) -> None:
        """Check the numbers, once."""
        if self.n_note < 1 or not self.growth >= 1:
            raise ValueError(f"no room: {self}")

    def n_answer(self, n_note: int) -> int:
        """Return how many tokens an answer may have for so many of its note."""
        return math.ceil(self.growth * n_note) + SPARE


def room_in(n_context: int, *, n_frame: int, growth: float = GROWTH) -> Room:
    """Return the room in a context of so many tokens."""
    n_note = math.floor((n_context - n_frame - SPARE - 1) / (1 + growth))
    if n_note < _LEAST_TOKENS:
        raise AuditError(
            f"A context of {n_context} tokens has no room for a note and its copy.",
            where="language model",
            do="Take a model with a longer context, or set `max_tokens` higher.",
        )
    return Room(n_note, growth)


def pieces_of(
    text: str, *, n_tokens: Callable[[str], int], room: Room, overlap: int
) -> tuple[Window, ...]:
    """Cut a note into windows that fit; one window where it fits whole.

    Parameters
    ----------
    n_tokens
        Counts the tokens of a text.
    overlap
        Characters, as in `windows_of`; less where windows are short.
    """
    if not text:
        return ()
    n_whole = n_tokens(text)
    if n_whole <= room.n_note:
        return (Window(0, len(text)),)
    size = max(1, len(text) * room.n_note // n_whole)
    while True:
        windows = windows_of(text, size=size, overlap=min(overlap, size // 4))
        if all(n_tokens(text[one.start : one.end]) <= room.n_note for one in windows):
            return windows
        if size == 1:
            raise AuditError("A character of a note has more tokens than a window.")
        size = max(1, int(size * _SHRINK))


SYSTEM = {
    "ja": "以下の診療テキストから個人識別情報を抽出してください。",
    "en": "Extract the personal identifiers from the following clinical text.",
}
"""The instruction; the Japanese one is the paper's, word by word."""

_PLAIN = {"ja": ("入力", "出力"), "en": ("Input", "Output")}
_NOTE, _ANSWER = "\ue0f0", "\ue0f1"  # of a private area: no template holds them
_WHERE = "language model"
_LONE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Frame:
    """The tokens around a note and behind an answer.

    Attributes
    ----------
    head, middle
        Before the note, and between note and answer.
    tail
        Behind the answer; the last one is where the model must stop.
    stops
        Tokens that end an answer.
    """

    head: tuple[int, ...]
    middle: tuple[int, ...]
    tail: tuple[int, ...]
    stops: tuple[int, ...]

    @property
    def n_tokens(self) -> int:
        """Tokens beside note and answer."""
        return len(self.head) + len(self.middle) + len(self.tail)

    def prompt(self, note: Sequence[int]) -> list[int]:
        """Return the tokens that the model is given."""
        return [*self.head, *note, *self.middle]


def text_ids(tokenizer: Any, text: str) -> list[int]:
    """Return the tokens of a text; what is written like a special token is plain text.

    Half a surrogate pair, which no tokenizer takes, is read as the replacement character.
    """
    text = _LONE.sub("\ufffd", text)
    ids = tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    return list(ids)


def answer_text(tokenizer: Any, ids: Sequence[int]) -> str:
    """Return what tokens say, without special tokens and with every space as it is."""
    text = tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return str(text)


def frame_of(tokenizer: Any, *, language: str) -> Frame:
    """Return the frame of a model: by its chat template, else a plain one.

    The plain one, for base models as the paper's: instruction, empty line, `### 入力:`, note, empty
    line, `### 出力:`, answer, end token. In English `### Input:` and `### Output:`.
    """
    end = tokenizer.eos_token_id
    if getattr(tokenizer, "chat_template", None):
        head, middle, tail_text = _chat(tokenizer, language=language)
        leading: list[int] = []
        tail = _until_special(_marked_ids(tokenizer, tail_text), tokenizer)
    else:
        given, wanted = _PLAIN[language]
        head, middle = f"{SYSTEM[language]}\n\n### {given}:\n", f"\n\n### {wanted}:\n"
        leading, tail = _leading(tokenizer), ()
    if not tail and end is not None:
        tail = (end,)
    if not tail:
        raise AuditError("The tokenizer has no token that ends a text.", where=_WHERE)
    return Frame(
        head=(*leading, *_marked_ids(tokenizer, head)),
        middle=tuple(_marked_ids(tokenizer, middle)),
        tail=tail,
        stops=tuple(sorted({tail[-1], *([] if end is None else [end])})),
    )


def _chat(tokenizer: Any, *, language: str) -> tuple[str, str, str]:
    """Return the template's text before the note, between note and answer, and behind that."""
    own = {"role": "system", "content": SYSTEM[language]}
    note = {"role": "user", "content": _NOTE}
    in_one = {"role": "user", "content": f"{SYSTEM[language]}\n\n{_NOTE}"}
    answer = {"role": "assistant", "content": _ANSWER}
    for turns in ([own, note], [in_one]):  # some templates know no system turn
        try:
            asked = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
            whole = tokenizer.apply_chat_template([*turns, answer], tokenize=False)
        except Exception:  # noqa: BLE001 - a template is a program of its own and raises anything
            continue
        if asked.count(_NOTE) == whole.count(_ANSWER) == 1 and SYSTEM[language] in asked:
            head, _, middle = asked.partition(_NOTE)
            return head, middle, whole.partition(_ANSWER)[2]
    raise AuditError(
        "The chat template of this model does not take an instruction and a text.",
        where=_WHERE,
        do="Take another model, or remove the template for a plain prompt.",
    )


def _marked_ids(tokenizer: Any, text: str) -> list[int]:
    """Return the tokens of a template's text, special tokens among them."""
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def _until_special(ids: Sequence[int], tokenizer: Any) -> tuple[int, ...]:
    """Return tokens up to the first special one; none where there is no such."""
    special = set(tokenizer.all_special_ids) | _added(tokenizer)
    for n, one in enumerate(ids, start=1):
        if one in special:
            return tuple(ids[:n])
    return ()


def _added(tokenizer: Any) -> set[int]:
    decoder = getattr(tokenizer, "added_tokens_decoder", {})
    return {number for number, token in decoder.items() if getattr(token, "special", False)}


def _leading(tokenizer: Any) -> list[int]:
    first = tokenizer("a")["input_ids"][:1]
    begin = tokenizer.bos_token_id
    return [begin] if begin is not None and first == [begin] else []


WHERE = "tuning settings"
Language = Literal["ja", "en"]
LANGUAGES = get_args(Language)
ALL_LINEAR = "all-linear"
_FULL_RATE, _LORA_RATE = 2e-5, 2e-4


class Lora(Record):
    """A low-rank adapter beside frozen weights.

    Source: Hu et al. 2021, LoRA (arXiv 2106.09685).
    """

    rank: int = Field(default=16, ge=1, le=1024, description="of the adapter's matrices")
    alpha: float = Field(
        default=32.0, ge=1e-3, le=1e4, description="the adapter counts alpha / rank times"
    )
    dropout: float = Field(default=0.05, ge=0, le=0.9, description="of the adapter's input")
    targets: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        default=(ALL_LINEAR,), min_length=1, examples=["q_proj,v_proj"],
        description="modules that get an adapter; all-linear: all but the output layer",
    )  # fmt: skip


class TuningSettings(ScheduledSettings):
    """How to tune a language model to copy notes with tags.

    The paper gives the model, its 32,768 tokens and bfloat16, and neither learning rate nor epochs.
    Differs: those defaults are ours.
    """

    flags: ClassVar = {"gradient_checkpointing": "--gradient-checkpointing"}

    n_epochs: float = Field(
        default=2.0, ge=1e-6, le=1e5, description="times that every window is seen"
    )
    batch: Rows = Field(default=16, description="windows a step")
    micro_batch: Rows = Field(default=1, description="windows of one pass")
    learning_rate: Rate | None = Field(
        default=None, description="the highest; 2e-5, 2e-4 for an adapter"
    )
    warmup_share: Share = Field(default=0.05, description="share of the steps")
    max_tokens: int = Field(
        default=32_768, ge=64, le=1_000_000, description="of instruction, note and copy together"
    )
    """The model's own limit holds too."""
    overlap: int = Field(
        default=200, ge=0, le=10_000, description="characters that windows of a long note share"
    )
    language: Language = Field(default="ja", description="of tags and instruction")
    gradient_checkpointing: bool = Field(
        default=False, description="less memory, a third more time"
    )
    lora: Lora | None = None
    """None: all weights are tuned."""

    @property
    def highest_rate(self) -> float:
        """As it is set, else by what is tuned."""
        if self.learning_rate is not None:
            return self.learning_rate
        return _FULL_RATE if self.lora is None else _LORA_RATE

    def n_steps(self, n_windows: int) -> int:
        """Return how many steps a tuning on so many windows takes."""
        return max(1, math.ceil(self.n_epochs * n_windows / self.batch - 1e-9))


_MAX_TITLE_CHARS = 200


@dataclass(frozen=True)
class GenerativeOrder:
    """What to tune, on what, where to.

    Attributes
    ----------
    gold
        Files of notes with spans, in any format of `audit.notes.formats`, or folders of such.
    model
        Directory of the causal language model to start from.
    out
        Folder of the tagger: made, or gone on with.
    validation
        Notes whose loss is measured before and after; none is needed.
    device
        "auto", "cpu" or "cuda".
    """

    gold: tuple[Path, ...]
    model: Path
    out: Path
    settings: TuningSettings = field(default_factory=TuningSettings)
    title: str = ""
    validation: tuple[Path, ...] = ()
    device: str = "auto"

    def __post_init__(self) -> None:
        """Check that there is something to learn from, once."""
        if not self.gold:
            raise AuditError("There are no gold notes to train on.", where="gold notes")
        if len(self.title) > _MAX_TITLE_CHARS:
            raise AuditError(
                f"The title is longer than {_MAX_TITLE_CHARS} characters.", where=WHERE
            )


@dataclass(frozen=True)
class GenerativeResult:
    """What came of a tuning.

    `n_left_out`, `n_changed`, `n_cut` as in `Examples`; `loss` is of the last point, the
    others of the validation notes before and after, in nats a token; None where there are none.
    """

    directory: Path
    digest: str
    n_steps: int
    n_notes: int
    n_windows: int
    n_left_out: int
    n_changed: int
    n_cut: int
    loss: float
    first_validation: float | None
    validation: float | None


class GenerativeFacts(TaggerFile):
    """What is known of a generative tagger without its weights."""

    kind = "generative"
    decisive = ("labels", "n_note_tokens", "growth", "max_tokens", "overlap", "language", "model")

    model: str
    """Digest of the model's files."""
    n_note_tokens: int = Field(default=1_000_000, ge=1)
    growth: float = Field(default=GROWTH, ge=1)
    """Longest window of a note, and tokens of an answer for one of its note, as in `Room`."""
    max_tokens: int = Field(default=32_768, ge=1)
    """Prompt, note and copy together."""
    overlap: int = Field(default=200, ge=0)
    """Characters that a window shares with the one before it."""
    language: Language = "ja"
    """Of tags and instruction."""
