"""Split text that goes on after other text, with tokenizers that mark the beginning of a text.

SentencePiece puts a space before every text, so a text of its own has other pieces than the same
text after a bracket, or after a name in a script without spaces.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache

from pydantic import JsonValue

from audit.models.components import MARKED_BEGINNINGS, SPACES_AROUND
from audit.models.library import Tokenizer

Encoder = Callable[[str], list[int]]


@lru_cache(maxsize=8)
def build_joined_encoder(tokenizer: Tokenizer) -> Encoder | None:
    """Return a function from a text after other text to its ids; None if it needs none.

    The text may begin with a space. None means that the tokenizer splits it as any other.
    """
    if not getattr(tokenizer, "is_fast", False):
        return None
    whole = tokenizer.backend_tokenizer
    state = {
        name: None if part is None else json.loads(part.__getstate__())
        for name, part in (("normalizer", whole.normalizer), ("pre_tokenizer", whole.pre_tokenizer))
    }
    parts = [component for part in state.values() for component in _list_components(part)]
    marks = [part for part in parts if part.get("prepend_scheme", "never") != "never"]
    prefixes = [part for part in parts if part["type"] == "Prepend"]
    beginnings = [part for part in parts if _read_expression(part) in MARKED_BEGINNINGS]
    if not (marks or prefixes or beginnings):
        return None
    for part in marks:
        part["prepend_scheme"] = "never"
    for part in prefixes:
        part["prepend"] = ""
    for part in beginnings:
        part["content"] = MARKED_BEGINNINGS[_read_expression(part)][1:]
    from tokenizers import Tokenizer

    state |= {"truncation": None, "padding": None}
    backend = Tokenizer.from_str(json.dumps(json.loads(whole.to_str()) | state))
    # Words that are split at white space lose it, and with it the mark of the words that follow.
    is_split = any(part["type"] == "WhitespaceSplit" for part in parts)
    is_stripped = any(
        part.get("strip_left") or _read_expression(part) == SPACES_AROUND for part in parts
    )

    def encode(text: str) -> list[int]:
        # A space that is lost comes back as the mark of a beginning.
        is_marked = text[0].isspace() and (is_split or is_stripped)
        word = "" if is_marked else text.split(maxsplit=1)[0] if is_split else text
        ids: list[int] = backend.encode(word, add_special_tokens=False).ids if word else []
        rest = text[len(word) :]
        following = tokenizer.convert_tokens_to_ids(tokenizer.tokenize(rest)) if rest else []
        return [*ids, *following]

    return encode


def _read_expression(part: dict[str, JsonValue]) -> str:
    """Return the regular expression of a component; "" if it has none."""
    pattern = part.get("pattern")
    return str(pattern.get("Regex", "")) if isinstance(pattern, dict) else ""


def _list_components(part: dict[str, JsonValue] | None) -> list[dict[str, JsonValue]]:
    """Return the components of a part of a tokenizer, with sequences flattened."""
    if part is None or part["type"] != "Sequence":
        return [part] if part else []
    inside = part.get("normalizers") or part.get("pretokenizers") or []
    return [
        component
        for element in (inside if isinstance(inside, list) else [])
        if isinstance(element, dict)
        for component in _list_components(element)
    ]
