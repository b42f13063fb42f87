"""What the model is asked and how its answer ends: the instruction, the note, the copy. Torch-free.

The parts are tokenised one by one, so that training and tagging see the same tokens, the loss knows
where the answer begins, and a note that holds the text of a special token has no such token.

Source: paper 002, section 2.3 and appendix B (system prompt; stop tokens in table 5).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from audit.errors import AuditError

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

    Raises
    ------
    AuditError
        If the template cannot be used, or no token ends an answer.
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
