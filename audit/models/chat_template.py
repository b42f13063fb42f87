"""What a model's chat template writes around an answer.

A template is a program in a file of the model. transformers runs it without access to anything, but
it may take forever, so it runs in a process with limits (`call_limited`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import JsonValue

from audit.errors import AuditError
from audit.models.library import Tokenizer
from audit.models.limited import call_limited
from audit.models.model_folder import TOKENIZER_CONFIG_FILE, ModelFolder, open_folder

CHAT_TEMPLATE_FILE = "chat_template.jinja"
_KEY = "chat_template"
_MAX_BYTES = 1_000_000
_SECONDS = 3
"""Processor time of a template. Usual ones take milliseconds."""
_ANSWER = "\ue0f0"  # from a private use area: no template contains it


def read_chat_frame(path: Path, instruction: str, *, tokenizer: Tokenizer) -> tuple[str, str]:
    """Return the texts that a model's template writes before and behind an answer.

    The answer follows a question of the user, `instruction`. A token with which the tokenizer
    begins every text is left out at the beginning.
    """
    folder = open_folder(path)
    template = _read_template(folder)
    tokens = {"bos_token": tokenizer.bos_token or "", "eos_token": tokenizer.eos_token or ""}
    unusable = AuditError(
        "The model has no chat template that takes a question and an answer.",
        where=folder.name,
        do="Train on plain notes.",
    )
    text = call_limited(
        render_conversation,
        template,
        instruction,
        tokens,
        place=folder.name,
        seconds=_SECONDS,
        refusal=unusable,
    )
    head, _, tail = text.partition(_ANSWER)
    if text.count(_ANSWER) != 1 or instruction.strip() not in head:
        raise unusable
    if tokenizer("a")["input_ids"][:1] == [tokenizer.bos_token_id]:
        head = head.removeprefix(tokens["bos_token"])
    return head, tail


def _read_template(folder: ModelFolder) -> str:
    """Return the template of a model, "" if it has none; the file counts before the setting."""
    if CHAT_TEMPLATE_FILE in folder.files:
        return folder.read(CHAT_TEMPLATE_FILE, max_bytes=_MAX_BYTES).decode("utf-8", "replace")
    if TOKENIZER_CONFIG_FILE not in folder.files:
        return ""
    value = folder.json(TOKENIZER_CONFIG_FILE, max_bytes=_MAX_BYTES * 10).get(_KEY)
    return value if isinstance(value, str) else _find_default(value)


def _find_default(value: JsonValue) -> str:
    """Return the template of the name "default" in a list of named templates."""
    for entry in value if isinstance(value, list) else []:
        if isinstance(entry, dict) and entry.get("name") == "default":
            return str(entry.get("template"))
    return ""


def render_conversation(template: str, instruction: str, tokens: Mapping[str, str]) -> str:
    """Return a question and its answer as a template writes them; "" if it fails."""
    from transformers.utils.chat_template_utils import render_jinja_template

    turns = [{"role": "user", "content": instruction}, {"role": "assistant", "content": _ANSWER}]
    try:
        texts, _ = render_jinja_template([turns], chat_template=template, **tokens)
    except Exception:  # noqa: BLE001 - a template is a program of its own and raises anything
        return ""
    return str(texts[0])
