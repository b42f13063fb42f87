"""A local causal language model: its loading, prompts and answers, and the tagger made of it.

The generative tagger copies a note with tags. The tags are moved into the note, and the model's
text is discarded. Long notes are read in windows (paper 002, section 2.3). Torch and transformers
are only imported when a model is loaded. Nothing is fetched, no code of the directory is run,
weights must be safetensors, and decoding is greedy.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.deid.find.copies import CopyReading, Piece, ShareListener, read_pieces
from audit.deid.find.decoding import WHERE, GenerationRequest, generate_answers
from audit.deid.find.held_copy import CopyRule, TokenSpelling, spell_tags, spell_tokens
from audit.deid.find.tagger import MODEL, TAGGER
from audit.deid.find.tagger_facts import GROWTH, GenerativeFacts, held_digest
from audit.deid.find.windows import Window, cut_windows
from audit.errors import AuditError
from audit.foreign import locate_errors, refuse_errors, refuse_without_memory
from audit.models.library import Tokenizer
from audit.notes.folding import fold_text
from audit.notes.spans import TaggedDocument, Tags
from audit.progress import StopQuestion
from audit.shelf import digest_json, fingerprint

if TYPE_CHECKING:
    import torch


STORED = "stored"
"""The precision that keeps a model in the number type of its files."""
_MOST_TOKENS = 32_768
_NOT_OF_THE_MODEL = {".md", ".txt", ".gitattributes", ".png", ".jpg"}
_KEPT_TEXTS = {"merges.txt", "vocab.txt"}


@dataclass(frozen=True, eq=False)
class CausalModel:
    """A causal language model in memory, in evaluation mode.

    The tokenizer pads on the left and has a padding token. `digest` covers the files that make the
    model, `n_context` is the most tokens that it can read and write together, `stored` the number
    type of its files.
    """

    model: Any
    tokenizer: Tokenizer
    directory: Path
    digest: str
    n_context: int
    device: str
    precision: str
    stored: torch.dtype


@dataclass(frozen=True, eq=False)
class CausalOutline:
    """A causal language model without its weights; `model` has shapes but no numbers."""

    model: Any
    tokenizer: Tokenizer
    n_context: int


def outline_causal(directory: Path) -> CausalOutline:
    """Return what a model is without loading its weights."""
    torch = importlib.import_module("torch")
    transformers = importlib.import_module("transformers")
    check_directory(directory)
    safe = {"local_files_only": True, "trust_remote_code": False}
    with refuse_errors(_make_load_error()):
        tokenizer = _load_tokenizer(directory)
        config = transformers.AutoConfig.from_pretrained(directory, **safe)
        with torch.device("meta"):
            model = transformers.AutoModelForCausalLM.from_config(config)
    return CausalOutline(model, tokenizer, _count_positions(model))


def _count_positions(model: Any) -> int:
    return getattr(model.config, "max_position_embeddings", None) or _MOST_TOKENS


def load_causal(
    directory: Path, *, device: str = "auto", precision: str = "auto", is_frozen: bool = True
) -> CausalModel:
    """Load a model to run it, or, unless `is_frozen`, to tune all its weights in float32.

    The precision "auto" is bfloat16 on a GPU that has it, else float32; `STORED` is possible too.
    """
    torch = importlib.import_module("torch")
    transformers = importlib.import_module("transformers")
    from audit.models.forward import pick_precision
    from audit.models.load import pick_device

    check_directory(directory)
    device_name = pick_device(device)
    precision = pick_precision(precision, device=device_name)
    dtype = torch.bfloat16 if precision == "bfloat16" and is_frozen else torch.float32
    tokenizer, model = _load_parts(directory, dtype="auto" if precision == STORED else dtype)
    try:
        model = model.to(device_name).eval()
    except torch.OutOfMemoryError:
        raise AuditError(
            "The device has not enough memory for this model.",
            where=WHERE,
            do="Take a smaller model or another device.",
        ) from None
    # The model's own settings may sample, penalise repeated words or use several beams.
    model.generation_config = transformers.GenerationConfig(do_sample=False, num_beams=1)
    with locate_errors(WHERE):
        config = json.loads((directory / "config.json").read_bytes())
    stored = {"bfloat16": torch.bfloat16, "float16": torch.float16}.get(
        str(config.get("dtype", config.get("torch_dtype"))), torch.float32
    )
    n_context = _count_positions(model)
    digest = directory_digest(directory)
    return CausalModel(
        model, tokenizer, directory, digest, n_context, device_name, precision, stored
    )


def _load_parts(directory: Path, *, dtype: torch.dtype | str) -> tuple[Tokenizer, Any]:
    """Load the tokenizer and the model of a directory, the model onto the CPU."""
    transformers = importlib.import_module("transformers")
    transformers.utils.logging.disable_progress_bar()
    safe = {"local_files_only": True, "trust_remote_code": False}
    try:
        tokenizer = _load_tokenizer(directory)
        model, loading_info = transformers.AutoModelForCausalLM.from_pretrained(
            directory,
            use_safetensors=True,
            output_loading_info=True,
            dtype=dtype,
            **safe,
        )
    except (OSError, ValueError, KeyError, RuntimeError, ImportError):
        raise _make_load_error() from None
    if loading_info["missing_keys"] or loading_info["mismatched_keys"]:
        raise AuditError(
            "The directory lacks tensors of the model that its config.json names.",
            where=WHERE,
            do="Copy the directory again, with all of its weights.",
        )
    return tokenizer, model


def _load_tokenizer(directory: Path) -> Tokenizer:
    transformers = importlib.import_module("transformers")
    loaded = transformers.AutoTokenizer.from_pretrained(
        directory, padding_side="left", local_files_only=True, trust_remote_code=False
    )
    if loaded.pad_token_id is None:
        loaded.pad_token = loaded.eos_token
    tokenizer: Tokenizer = loaded
    return tokenizer


def _make_load_error() -> AuditError:
    return AuditError(
        "The directory cannot be loaded as a causal language model.",
        where=WHERE,
        do="Give a directory with config.json, tokenizer files and safetensors weights.",
    )


def check_directory(directory: Path) -> None:
    """Refuse a directory that lacks the safetensors weights of a whole model."""
    if not (directory / "config.json").is_file():
        raise AuditError("There is no model directory with a config.json.", where=WHERE)
    weights = list(directory.glob("*.safetensors"))
    if not weights:
        raise AuditError(
            "The directory has no safetensors weights.",
            where=WHERE,
            do="Save the model with safetensors.",
        )
    if (directory / "adapter_config.json").exists():
        raise AuditError(
            "The directory holds an adapter; without it the model is another one.",
            where=WHERE,
            do="Merge the adapter into the model and save that.",
        )
    with locate_errors(WHERE):
        n_bytes = sum(path.stat().st_size for path in weights)
    refuse_without_memory(n_bytes, place=WHERE)


def directory_digest(directory: Path) -> str:
    """Return the SHA-256 of the names and bytes of the files that make a model."""
    digest = hashlib.sha256()
    with locate_errors(WHERE):
        for path in model_files(directory):
            digest.update(f"{path.name} {fingerprint(path)}\n".encode())
    return digest.hexdigest()


def model_files(directory: Path) -> list[Path]:
    """Return the files of a directory that make its model and tokenizer, by name."""
    return sorted(
        path
        for path in directory.iterdir()
        if path.is_file()
        and not path.name.startswith(".")
        and (path.suffix not in _NOT_OF_THE_MODEL or path.name in _KEPT_TEXTS)
    )


class LocalModel:
    """Answers prompts with greedy decoding, in at most `max_new_tokens` tokens.

    `digest` is the SHA-256 of weights, tokenizer, settings and the type of device.
    """

    n_batch = 8
    """The number of prompts that it should get at once."""

    def __init__(self, directory: Path, *, max_new_tokens: int = 512) -> None:
        self._loaded = loaded = load_causal(directory, precision=STORED)
        # A prompt gets at least half of a short context.
        self._n_answer = max(1, min(max_new_tokens, loaded.n_context // 2))
        content = [loaded.digest, max_new_tokens, self.n_batch, loaded.device]
        self.digest = digest_json(content)

    def __call__(self, prompts: Sequence[str]) -> list[str]:
        """Return an answer for each prompt, in the order of the prompts."""
        tokenizer, ends = self._loaded.tokenizer, self._loaded.model.config.eos_token_id
        stops = {tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends])} - {None}
        limit = max(1, self._loaded.n_context - self._n_answer)
        requests = []
        for prompt in prompts:
            text = prompt
            if getattr(tokenizer, "chat_template", None):
                turns = [{"role": "user", "content": prompt}]
                text = tokenizer.apply_chat_template(
                    turns, tokenize=False, add_generation_prompt=True
                )
            ids = tokenizer(text, truncation=True, max_length=limit)["input_ids"]
            requests.append(GenerationRequest(tuple(ids), self._n_answer))
        answers = generate_answers(self._loaded, requests, stops=sorted(stops))
        answer_tokens = [answer.tokens for answer in answers]
        return list(tokenizer.batch_decode(answer_tokens, skip_special_tokens=True))


SPARE = 64
"""Tokens that every answer has for tags, however short the note is."""
_LEAST_TOKENS = 16
_SHRINK = 0.8


def count_answer_tokens(n_note: int, *, growth: float = GROWTH) -> int:
    """Return the most tokens of an answer to a note of `n_note` tokens."""
    return math.ceil(growth * n_note) + SPARE


def compute_note_room(n_context: int, *, n_frame: int, growth: float = GROWTH) -> int:
    """Return the most tokens that a note may have in a context of `n_context` tokens."""
    n_note = math.floor((n_context - n_frame - SPARE - 1) / (1 + growth))
    if n_note < _LEAST_TOKENS:
        raise AuditError(
            "A context of {n_context} tokens has no room for a note and its copy.",
            where=WHERE,
            do="Take a model with a longer context, or set `max_tokens` higher.",
            n_context=n_context,
        )
    return n_note


def cut_note(
    text: str, *, count_tokens: Callable[[str], int], max_tokens: int, overlap: int
) -> tuple[Window, ...]:
    """Cut a note into windows that fit; a note that fits whole is one window.

    `count_tokens` counts the tokens of a text; a window has at most `max_tokens`. `overlap` is in
    characters, as in `cut_windows`; it is smaller if windows are short.
    """
    size = len(text)
    windows = cut_windows(text, size=size, overlap=0)
    n_longest = count_tokens(text)
    while n_longest > max_tokens:
        if size == 1:
            raise AuditError("A character of a note has more tokens than a window.")
        is_whole = size == len(text)
        size = max(1, size * max_tokens // n_longest if is_whole else int(size * _SHRINK))
        windows = cut_windows(text, size=size, overlap=min(overlap, size // 4))
        n_longest = max(count_tokens(text[window.start : window.end]) for window in windows)
    return windows


SYSTEM = {
    "ja": "以下の診療テキストから個人識別情報を抽出してください。",
    "en": "Extract the personal identifiers from the following clinical text.",
}
"""The instruction; the Japanese one is taken from the paper word by word."""

PLAIN_HEADINGS = {"ja": ("入力", "出力"), "en": ("Input", "Output")}
_NOTE, _ANSWER = "\ue0f0", "\ue0f1"  # from a private use area: no template contains them
_LONE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Frame:
    """The tokens around a note and behind an answer.

    `head` stands before the note, `middle` between note and answer, `tail` behind the answer. The
    model must stop at the last token of `tail`. Each of `stops` ends an answer.
    """

    head: tuple[int, ...]
    middle: tuple[int, ...]
    tail: tuple[int, ...]
    stops: tuple[int, ...]

    @property
    def n_tokens(self) -> int:
        """The number of tokens besides note and answer."""
        return len(self.head) + len(self.middle) + len(self.tail)

    def prompt(self, note: Sequence[int]) -> tuple[int, ...]:
        """Return the tokens of the prompt for a note."""
        return (*self.head, *note, *self.middle)


def encode_text(tokenizer: Tokenizer, text: str) -> list[int]:
    """Return the tokens of a text; text that looks like a special token is read as plain text.

    Half a surrogate pair, which no tokenizer accepts, is read as the replacement character.
    """
    text = _LONE.sub("\ufffd", text)
    ids = tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    return list(ids)


def decode_answer(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """Return the text of tokens, without special tokens and with all spaces unchanged."""
    text = tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return str(text)


def make_frame(tokenizer: Tokenizer, *, language: str) -> Frame:
    """Return the frame of a model: that of its chat template, else a plain one.

    The plain frame is for base models such as the paper's: instruction, empty line, `### 入力:`,
    note, empty line, `### 出力:`, answer, end token. In English `### Input:` and `### Output:`.
    """
    end_id = tokenizer.eos_token_id
    ends = () if end_id is None else (end_id,)
    begin_ids: list[int] = []
    if getattr(tokenizer, "chat_template", None):
        texts = _split_chat(tokenizer, language=language)
    else:
        note_heading, copy_heading = PLAIN_HEADINGS[language]
        texts = f"{SYSTEM[language]}\n\n### {note_heading}:\n", f"\n\n### {copy_heading}:\n", ""
        begin_id = tokenizer.bos_token_id
        begin_ids = [
            token_id for token_id in tokenizer("a")["input_ids"][:1] if token_id == begin_id
        ]
    head, middle, tail_ids = (
        list(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in texts
    )
    added_tokens = getattr(tokenizer, "added_tokens_decoder", {})
    special = {number for number, token in added_tokens.items() if getattr(token, "special", False)}
    special.update(tokenizer.all_special_ids)
    n_tail_ids = next((n for n, token_id in enumerate(tail_ids, start=1) if token_id in special), 0)
    tail = tuple(tail_ids[:n_tail_ids]) or ends
    if not tail:
        raise AuditError("The tokenizer has no token that ends a text.", where=WHERE)
    stops = tuple(sorted({tail[-1], *ends}))
    return Frame((*begin_ids, *head), tuple(middle), tail, stops)


def _split_chat(tokenizer: Tokenizer, *, language: str) -> tuple[str, str, str]:
    """Return the template's texts before the note, between note and answer, behind the answer."""
    system_turn = {"role": "system", "content": SYSTEM[language]}
    note_turn = {"role": "user", "content": _NOTE}
    joint_turn = {"role": "user", "content": f"{SYSTEM[language]}\n\n{_NOTE}"}
    answer_turn = {"role": "assistant", "content": _ANSWER}
    for turns in ([system_turn, note_turn], [joint_turn]):  # some templates have no system turn
        try:
            prompt = tokenizer.apply_chat_template(
                turns, tokenize=False, add_generation_prompt=True
            )
            conversation = tokenizer.apply_chat_template([*turns, answer_turn], tokenize=False)
        except Exception:  # noqa: BLE001 - a template is a program of its own and raises anything
            continue
        if prompt.count(_NOTE) == conversation.count(_ANSWER) == 1 and SYSTEM[language] in prompt:
            head, _, middle = prompt.partition(_NOTE)
            return head, middle, conversation.partition(_ANSWER)[2]
    raise AuditError(
        "The chat template of this model does not take an instruction and a text.",
        where=WHERE,
        do="Take another model, or remove the template for a plain prompt.",
    )


_TOKENS_AT_ONCE = {"cpu": 16_384, "cuda": 32_768}
"""Tokens of a batch, prompts and answers; if memory runs out, the batch is halved."""
_NOTES_AT_ONCE = {"cpu": 8, "cuda": 64}


@dataclass(frozen=True, eq=False)
class GenerativeTagger:
    """A tagger whose model is loaded.

    `frame` stands around a note of `n_note` tokens at most. Copies are held to their notes unless
    `is_free`, or unless the tokenizer's tokens do not add up to a text.
    """

    loaded: CausalModel
    facts: GenerativeFacts
    frame: Frame
    n_note: int
    is_free: bool = False

    name = "generative"

    @property
    def digest(self) -> str:
        """SHA-256 of weights, tokenizer and settings, and of the way in which copies are held."""
        return self.facts.digest() if self.is_free else held_digest(self.facts.digest())

    @cached_property
    def _spelled(self) -> tuple[TokenSpelling, Sequence[tuple[bytes, bytes]]] | None:
        """The bytes of the tokens and of the tags; None if copies are not held."""
        spelling = None if self.is_free else spell_tokens(self.loaded.tokenizer)
        if spelling is None:
            return None
        tags = spell_tags(spelling, self.labels, language=self.facts.language)
        return None if tags is None else (spelling, tags)

    def _make_rule(self, text: str, ids: Sequence[int]) -> CopyRule | None:
        """Return the rule for the copy of a text; None if the copy is free."""
        if self._spelled is None:
            return None
        spelling, tags = self._spelled
        return CopyRule(spelling, _LONE.sub("\ufffd", text), self.labels, tuple(tags), tuple(ids))

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that it was trained on."""
        return self.facts.labels

    @property
    def n_notes_at_once(self) -> int:
        """The most notes that it gets at once, so that little is lost when a run is stopped."""
        return _NOTES_AT_ONCE[self.loaded.device]

    def tag(self, texts: Sequence[str]) -> tuple[Tags, ...]:
        """Return the spans of each text."""
        notes = [TaggedDocument(doc_id=str(i), text=text) for i, text in enumerate(texts)]
        return tuple(reading.tags for reading in self.read(notes))

    def read(
        self,
        notes: Sequence[TaggedDocument],
        *,
        should_stop: StopQuestion = lambda: False,
        on_share: ShareListener = lambda share: None,
    ) -> tuple[CopyReading, ...]:
        """Return the reading of each note's copy; spans that the notes already have are ignored."""
        tokenizer = self.loaded.tokenizer
        source_notes, folded_texts = notes, [fold_text(note.text) for note in notes]
        notes = [
            replace(note, text=folded.text, spans=())
            for note, folded in zip(source_notes, folded_texts, strict=True)
        ]
        # White space is its own copy.
        pieces_of_notes: list[list[Piece]] = []
        places: list[tuple[list[Piece], int]] = []
        requests: list[GenerationRequest] = []
        for note in notes:
            windows = cut_note(
                note.text,
                count_tokens=lambda text: len(encode_text(tokenizer, text)),
                max_tokens=self.n_note,
                overlap=self.facts.overlap,
            )
            pieces_of_notes.append([])
            for start, end in windows:
                text = note.text[start:end]
                if text.strip():
                    places.append((pieces_of_notes[-1], len(pieces_of_notes[-1])))
                    requests.append(self.make_request(text))
                pieces_of_notes[-1].append(Piece(start, end, text))
        answers = generate_answers(
            self.loaded,
            requests,
            stops=self.frame.stops,
            n_tokens=_TOKENS_AT_ONCE[self.loaded.device],
            should_stop=should_stop,
            on_share=on_share,
        )
        for (note_pieces, i), request, answer in zip(places, requests, answers, strict=True):
            piece = note_pieces[i]
            if request.rule is None:
                text = decode_answer(tokenizer, answer.tokens)
                note_pieces[i] = piece._replace(output=text)
            else:
                scanned, forced = request.rule.read(*answer)
                note_pieces[i] = piece._replace(output=scanned, forced=forced)
        readings = (
            read_pieces(note, note_pieces, labels=self.facts.labels)
            for note, note_pieces in zip(notes, pieces_of_notes, strict=True)
        )
        return tuple(
            reading.to_source(note, folded)
            for reading, note, folded in zip(readings, source_notes, folded_texts, strict=True)
        )

    def make_request(self, text: str) -> GenerationRequest:
        """Return the request for the copy of a window."""
        ids = encode_text(self.loaded.tokenizer, text)
        n_answer = count_answer_tokens(len(ids), growth=self.facts.growth)
        return GenerationRequest(self.frame.prompt(ids), n_answer, self._make_rule(text, ids))


def load_generative(
    directory: Path, *, device: str = "auto", is_free: bool = False
) -> GenerativeTagger:
    """Load a tagger that was tuned here, from a folder with `tagger.json` and `model`.

    Its copies are held to their notes unless `is_free`.
    """
    facts = GenerativeFacts.of_folder(directory)
    loaded = load_causal(directory / MODEL, device=device)
    if loaded.digest != facts.model:
        raise AuditError(
            "The model is not the one that tagger.json describes.",
            where="{name}/{tagger}",
            do="Copy the tagger's folder again.",
            name=directory.name,
            tagger=TAGGER,
        )
    return make_tagger(loaded, facts, is_free=is_free)


def make_tagger(
    loaded: CausalModel, facts: GenerativeFacts, *, is_free: bool = False
) -> GenerativeTagger:
    """Return the tagger of a loaded model."""
    frame = make_frame(loaded.tokenizer, language=facts.language)
    n_context = min(loaded.n_context, facts.max_tokens)
    n_note = compute_note_room(n_context, n_frame=frame.n_tokens, growth=facts.growth)
    return GenerativeTagger(loaded, facts, frame, min(n_note, facts.n_note_tokens), is_free)
