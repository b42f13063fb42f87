"""A local causal language model: loaded, what it is asked, what it answers; the tagger it makes.

The generative tagger writes a note again with tags, and the tags are brought back to the note; of
the model's text nothing is kept. Long notes are read in windows (paper 002, section 2.3). Torch and
transformers are imported when a model is loaded, and not before. Nothing is fetched, no
code of the directory is run, weights must be safetensors. Answers are greedy.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from audit.deid.copies import CopyReading, Piece, ShareListener, read_pieces
from audit.deid.network.decode import side_by_side
from audit.deid.tagger import MODEL, TAGGER, Tags, Window, windows_of
from audit.deid.tagger_config import GROWTH, GenerativeFacts
from audit.errors import AuditCancelled, AuditError
from audit.foreign import reading, refuse_without_memory
from audit.notes.folding import fold_text
from audit.notes.spans import TaggedDocument
from audit.progress import StopQuestion
from audit.shelf import fingerprint

WHERE = "language model"
STORED = "stored"
"""The precision of a model in the type of number in which its files have it."""
_MOST_TOKENS = 32_768
_NOT_OF_THE_MODEL = {".md", ".txt", ".gitattributes", ".png", ".jpg"}
_KEPT_TEXTS = {"merges.txt", "vocab.txt"}


@dataclass(frozen=True, eq=False)
class CausalModel:
    """A causal language model in memory, in evaluation mode.

    The tokenizer pads on the left and has a padding token; `digest` is of the files that make the
    model, `n_context` what it can read and write together, `stored` the type of number in its
    files.
    """

    model: Any
    tokenizer: Any
    directory: Path
    digest: str
    n_context: int
    device: str
    precision: str
    stored: Any


def load_causal(
    directory: Path, *, device: str = "auto", precision: str = "auto", is_frozen: bool = True
) -> CausalModel:
    """Load a model to run, or to tune: all its weights, in float32, unless `is_frozen`.

    The precision "auto" is bfloat16 on a GPU that has it, else float32; or `STORED`.
    """
    torch: Any = importlib.import_module("torch")
    transformers: Any = importlib.import_module("transformers")
    from audit.models.forward import pick_precision
    from audit.models.load import pick_device

    check_directory(directory)
    place = pick_device(device)
    precision = pick_precision(precision, device=place)
    dtype = torch.bfloat16 if precision == "bfloat16" and is_frozen else torch.float32
    tokenizer, model = _parts(directory, dtype="auto" if precision == STORED else dtype)
    try:
        model = model.to(place).eval()
    except torch.OutOfMemoryError:
        raise AuditError(
            "The device has not enough memory for this model.",
            where=WHERE,
            do="Take a smaller model or another device.",
        ) from None
    # Its own settings may ask for chance, for a penalty on repeated words or for several beams.
    model.generation_config = transformers.GenerationConfig(do_sample=False, num_beams=1)
    with reading(WHERE):
        config = json.loads((directory / "config.json").read_bytes())
    stored = {"bfloat16": torch.bfloat16, "float16": torch.float16}.get(
        str(config.get("dtype", config.get("torch_dtype"))), torch.float32
    )
    n_context = getattr(model.config, "max_position_embeddings", None) or _MOST_TOKENS
    digest = directory_digest(directory)
    return CausalModel(model, tokenizer, directory, digest, n_context, place, precision, stored)


def _parts(directory: Path, *, dtype: Any) -> tuple[Any, Any]:
    """Return tokenizer and model of a directory, the model on the CPU."""
    transformers: Any = importlib.import_module("transformers")
    transformers.utils.logging.disable_progress_bar()
    safe = {"local_files_only": True, "trust_remote_code": False}
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            directory, padding_side="left", **safe
        )
        model, told = transformers.AutoModelForCausalLM.from_pretrained(
            directory,
            use_safetensors=True,
            output_loading_info=True,
            dtype=dtype,
            **safe,
        )
    except (OSError, ValueError, KeyError, RuntimeError, ImportError):
        raise AuditError(
            "The directory cannot be loaded as a causal language model.",
            where=WHERE,
            do="Give a directory with config.json, tokenizer files and safetensors weights.",
        ) from None
    if told["missing_keys"] or told["mismatched_keys"]:
        raise AuditError(
            "The directory lacks tensors of the model that its config.json names.",
            where=WHERE,
            do="Copy the directory again, with all of its weights.",
        )
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer, model


def check_directory(directory: Path) -> None:
    """Refuse what is no directory with safetensors weights of a whole model."""
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
    with reading(WHERE):
        n_bytes = sum(path.stat().st_size for path in weights)
    refuse_without_memory(n_bytes, where=WHERE)


def directory_digest(directory: Path) -> str:
    """Return the SHA-256 of the names and bytes of the files that make a model."""
    digest = hashlib.sha256()
    with reading(WHERE):
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


@dataclass(frozen=True)
class Asked:
    """A prompt as tokens, and how many tokens its answer may have."""

    prompt: tuple[int, ...]
    n_answer: int

    @property
    def n_tokens(self) -> int:
        """Prompt and answer together."""
        return len(self.prompt) + self.n_answer


def generated(
    loaded: CausalModel,
    asked: Sequence[Asked],
    *,
    stops: Sequence[int],
    n_tokens: float = math.inf,
    should_stop: StopQuestion = lambda: False,
    on_share: Callable[[float], None] = lambda share: None,
) -> list[list[int]]:
    """Return the tokens of each answer, the one of `stops` that ends it left out.

    A batch has `n_tokens` at most, prompts and answers with their padding; one prompt is always
    taken. Where memory runs out, halves are tried. `on_share` is told with every token which share
    of all answers' limits was written or not needed.
    """
    torch: Any = importlib.import_module("torch")
    answers: list[list[int]] = [[] for _ in asked]
    waiting = side_by_side([one.n_tokens for one in asked], most=n_tokens)
    n_all, n_done = sum(one.n_answer for one in asked), 0
    while waiting:
        batch = waiting.pop(0)
        rows = [asked[i] for i in batch]
        n_part = sum(row.n_answer for row in rows)

        def told(share: float, *, n_done: int = n_done, n_part: int = n_part) -> None:
            if should_stop():
                raise AuditCancelled
            on_share((n_done + share * n_part) / n_all)

        try:
            found = _one_batch(loaded, rows, stops=stops, told=told)
        except torch.OutOfMemoryError:
            if len(batch) == 1:
                raise AuditError(
                    "Memory ran out with a single window.",
                    where="language model",
                    do="Set `max_tokens` lower, or take a smaller model.",
                ) from None
            torch.cuda.empty_cache()
            waiting[:0] = batch[: len(batch) // 2], batch[len(batch) // 2 :]
            continue
        n_done += n_part
        on_share(n_done / n_all)
        for i, answer in zip(batch, found, strict=True):
            answers[i] = answer
    return answers


def _one_batch(
    loaded: CausalModel,
    rows: Sequence[Asked],
    *,
    stops: Sequence[int],
    told: Callable[[float], None],
) -> list[list[int]]:
    """Answer rows together; each ends at its own limit."""
    torch: Any = importlib.import_module("torch")
    n_prompt, n_most = max(len(row.prompt) for row in rows), max(row.n_answer for row in rows)
    pad = loaded.tokenizer.pad_token_id or 0
    ids = torch.full((len(rows), n_prompt), pad, dtype=torch.long)
    attended = torch.zeros_like(ids)
    for i, row in enumerate(rows):
        ids[i, n_prompt - len(row.prompt) :] = torch.tensor(row.prompt)
        attended[i, n_prompt - len(row.prompt) :] = 1
    limits = torch.tensor([row.n_answer for row in rows], device=loaded.device)

    def is_over(input_ids: Any, scores: object, **_: object) -> Any:
        n_written = input_ids.shape[1] - n_prompt
        told(n_written / n_most)
        return limits <= n_written

    with torch.inference_mode():
        written = loaded.model.generate(  # [B, prompt + answer]
            input_ids=ids.to(loaded.device),
            attention_mask=attended.to(loaded.device),
            do_sample=False,
            max_new_tokens=n_most,
            eos_token_id=list(stops),
            pad_token_id=pad,
            stopping_criteria=[is_over],
        )
    answers = []
    for row, answer in zip(rows, written[:, n_prompt:].tolist(), strict=True):
        ends = [answer.index(stop) for stop in stops if stop in answer]
        answers.append(answer[: min([row.n_answer, *ends])])
    return answers


class LocalModel:
    """Answers prompts with greedy decoding, `max_new_tokens` at most.

    `digest` is the SHA-256 of weights, tokenizer, settings and the kind of device.
    """

    n_batch = 8
    """Prompts that it should be given at once."""

    def __init__(self, directory: Path, *, max_new_tokens: int = 512) -> None:
        self._loaded = loaded = load_causal(directory, precision=STORED)
        # A prompt has half of a short context at least.
        self._n_answer = max(1, min(max_new_tokens, loaded.n_context // 2))
        said = [loaded.digest, max_new_tokens, self.n_batch, loaded.device]
        self.digest = hashlib.sha256(json.dumps(said).encode("ascii")).hexdigest()

    def __call__(self, prompts: Sequence[str]) -> list[str]:
        """Return an answer for each prompt, in the order of the prompts."""
        tokenizer, ends = self._loaded.tokenizer, self._loaded.model.config.eos_token_id
        stops = {tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends])} - {None}
        limit = max(1, self._loaded.n_context - self._n_answer)
        asked = []
        for prompt in prompts:
            text = prompt
            if getattr(tokenizer, "chat_template", None):
                turns = [{"role": "user", "content": prompt}]
                text = tokenizer.apply_chat_template(
                    turns, tokenize=False, add_generation_prompt=True
                )
            ids = tokenizer(text, truncation=True, max_length=limit)["input_ids"]
            asked.append(Asked(tuple(ids), self._n_answer))
        answers = generated(self._loaded, asked, stops=sorted(stops))
        return list(tokenizer.batch_decode(answers, skip_special_tokens=True))


SPARE = 64
"""Tokens for tags that every answer has, however short the note is."""
_LEAST_TOKENS = 16
_SHRINK = 0.8


def answer_tokens(n_note: int, *, growth: float = GROWTH) -> int:
    """Return how many tokens an answer may have for so many of its note."""
    return math.ceil(growth * n_note) + SPARE


def room_in(n_context: int, *, n_frame: int, growth: float = GROWTH) -> int:
    """Return how many tokens a note may have in a context of so many."""
    n_note = math.floor((n_context - n_frame - SPARE - 1) / (1 + growth))
    if n_note < _LEAST_TOKENS:
        raise AuditError(
            "A context of {n_context} tokens has no room for a note and its copy.",
            where=WHERE,
            do="Take a model with a longer context, or set `max_tokens` higher.",
            n_context=n_context,
        )
    return n_note


def pieces_of(
    text: str, *, n_tokens: Callable[[str], int], most: int, overlap: int
) -> tuple[Window, ...]:
    """Cut a note into windows that fit; one window where it fits whole.

    `n_tokens` counts the tokens of a text, of which a window has `most`; `overlap` is in
    characters, as in `windows_of`, less where windows are short.
    """
    size = len(text)
    windows = windows_of(text, size=size, overlap=0)
    n_longest = n_tokens(text)
    while n_longest > most:
        if size == 1:
            raise AuditError("A character of a note has more tokens than a window.")
        is_whole = size == len(text)
        size = max(1, size * most // n_longest if is_whole else int(size * _SHRINK))
        windows = windows_of(text, size=size, overlap=min(overlap, size // 4))
        n_longest = max(n_tokens(text[one.start : one.end]) for one in windows)
    return windows


SYSTEM = {
    "ja": "以下の診療テキストから個人識別情報を抽出してください。",
    "en": "Extract the personal identifiers from the following clinical text.",
}
"""The instruction; the Japanese one is the paper's, word by word."""

_PLAIN = {"ja": ("入力", "出力"), "en": ("Input", "Output")}
_NOTE, _ANSWER = "\ue0f0", "\ue0f1"  # of a private area: no template holds them
_LONE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Frame:
    """The tokens around a note and behind an answer.

    `head` stands before the note, `middle` between note and answer, `tail` behind the answer: its
    last one is where the model must stop. `stops` end an answer.
    """

    head: tuple[int, ...]
    middle: tuple[int, ...]
    tail: tuple[int, ...]
    stops: tuple[int, ...]

    @property
    def n_tokens(self) -> int:
        """Tokens beside note and answer."""
        return len(self.head) + len(self.middle) + len(self.tail)

    def prompt(self, note: Sequence[int]) -> tuple[int, ...]:
        """Return the tokens that the model is given."""
        return (*self.head, *note, *self.middle)


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
    ends = () if end is None else (end,)
    first: list[int] = []
    if getattr(tokenizer, "chat_template", None):
        texts = _chat(tokenizer, language=language)
    else:
        given, wanted = _PLAIN[language]
        texts = f"{SYSTEM[language]}\n\n### {given}:\n", f"\n\n### {wanted}:\n", ""
        begin = tokenizer.bos_token_id
        first = [one for one in tokenizer("a")["input_ids"][:1] if one == begin]
    head, middle, behind = (
        list(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in texts
    )
    added = getattr(tokenizer, "added_tokens_decoder", {})
    special = {number for number, token in added.items() if getattr(token, "special", False)}
    special.update(tokenizer.all_special_ids)
    last = next((n for n, one in enumerate(behind, start=1) if one in special), 0)
    tail = tuple(behind[:last]) or ends
    if not tail:
        raise AuditError("The tokenizer has no token that ends a text.", where=WHERE)
    stops = tuple(sorted({tail[-1], *ends}))
    return Frame((*first, *head), tuple(middle), tail, stops)


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
        where=WHERE,
        do="Take another model, or remove the template for a plain prompt.",
    )


_TOKENS_AT_ONCE = {"cpu": 16_384, "cuda": 32_768}
"""Of a batch, prompts and answers; where memory runs out, halves of it are tried."""
_NOTES_AT_ONCE = {"cpu": 8, "cuda": 64}


@dataclass(frozen=True, eq=False)
class GenerativeTagger:
    """A tagger whose model is loaded.

    `frame` stands around a note of `n_note` tokens at most.
    """

    loaded: CausalModel
    facts: GenerativeFacts
    frame: Frame
    n_note: int

    name = "generative"

    @property
    def digest(self) -> str:
        """SHA-256 of weights, tokenizer and settings."""
        return self.facts.digest()

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that it was taught."""
        return self.facts.labels

    @property
    def n_notes_at_once(self) -> int:
        """How many notes it is given at most, so that little is lost when a run is stopped."""
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
        """Return what the model's copies say of each note; spans that notes have are ignored."""
        tokenizer = self.loaded.tokenizer
        given, folded = notes, [fold_text(note.text) for note in notes]
        notes = [
            replace(note, text=one.text, spans=()) for note, one in zip(given, folded, strict=True)
        ]
        # White space is its own copy.
        pieces = [
            [
                Piece(one.start, one.end, note.text[one.start : one.end])
                for one in pieces_of(
                    note.text,
                    n_tokens=lambda text: len(text_ids(tokenizer, text)),
                    most=self.n_note,
                    overlap=self.facts.overlap,
                )
            ]
            for note in notes
        ]
        places = [(own, i) for own in pieces for i, one in enumerate(own) if one.output.strip()]
        ids = [text_ids(tokenizer, own[i].output) for own, i in places]
        growth = self.facts.growth
        asked = [Asked(self.frame.prompt(x), answer_tokens(len(x), growth=growth)) for x in ids]
        answers = generated(
            self.loaded,
            asked,
            stops=self.frame.stops,
            n_tokens=_TOKENS_AT_ONCE[self.loaded.device],
            should_stop=should_stop,
            on_share=on_share,
        )
        for (own, i), answer in zip(places, answers, strict=True):
            own[i] = own[i]._replace(output=answer_text(tokenizer, answer))
        readings = (
            read_pieces(note, own, labels=self.facts.labels)
            for note, own in zip(notes, pieces, strict=True)
        )
        return tuple(
            reading.in_source(note, one)
            for reading, note, one in zip(readings, given, folded, strict=True)
        )


def load_generative(directory: Path, *, device: str = "auto") -> GenerativeTagger:
    """Load a tagger that was tuned here, from a folder with `tagger.json` and `model`."""
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
    return tagger_of(loaded, facts)


def tagger_of(loaded: CausalModel, facts: GenerativeFacts) -> GenerativeTagger:
    """Return the tagger of a model that is loaded."""
    frame = frame_of(loaded.tokenizer, language=facts.language)
    n_context = min(loaded.n_context, facts.max_tokens)
    n_note = room_in(n_context, n_frame=frame.n_tokens, growth=facts.growth)
    return GenerativeTagger(loaded, facts, frame, min(n_note, facts.n_note_tokens))
