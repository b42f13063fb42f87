"""Taggers whose copies are written elsewhere: in a file, or by a server on this machine.

The copies are read like those of a model of our own: their tags are moved into the note, and what
was not copied counts as such. A server is asked on the loopback alone, by the plain protocol that
vLLM and llama.cpp speak; no proxy, no redirect and no name server of elsewhere is used. Torch-free.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import re
import socket
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from urllib.parse import urlsplit

from pydantic import Field

from audit.deid.find.causal_model import PLAIN_HEADINGS, SYSTEM, count_answer_tokens
from audit.deid.find.copies import (
    OUTPUTS,
    CopyReading,
    Output,
    Piece,
    ShareListener,
    no_common_note,
    read_outputs,
    read_pieces,
)
from audit.deid.find.windows import cut_windows
from audit.errors import AuditCancelled, AuditError
from audit.foreign import decode_text, locate_errors, read_file_bytes, refuse_errors
from audit.notes.folding import fold_text
from audit.notes.spans import (
    FIVE_TYPES,
    FOREIGN,
    TYPES,
    Span,
    TaggedDocument,
    Tags,
    drop_overlaps,
    fold_label,
)
from audit.progress import StopQuestion
from audit.shelf import digest_json
from audit.task import Record
from audit.words import Language

_VERSION = 1
_CLOSING_TAG = re.compile(r"[<＜]\s*[/／]\s*([^<>＜＞]{1,60}?)\s*[>＞]")


def _read_copy(note: TaggedDocument, pieces: Sequence[Piece]) -> CopyReading:
    """Return the reading of a folded note's copy, with its labels as the five types.

    Tags of i2b2, MEDDOCAN and others are read if a closing tag shows that they are tags: notes hold
    `<DATE>` as a placeholder.
    """
    outputs = (piece.output for piece in pieces if isinstance(piece.output, str))
    closed = {fold_label(label) for output in outputs for label in _CLOSING_TAG.findall(output)}
    reading = read_pieces(note, pieces, labels=closed & FOREIGN.keys())
    spans = sorted(set(_map_types(reading.document.spans)))
    lost = [FIVE_TYPES.map_label(label) or label for label in reading.document.unaligned]
    document = reading.document.with_spans(spans, unaligned=lost)
    return replace(reading, document=document, tags=drop_overlaps(_map_types(reading.tags)))


def _map_types(spans: Iterable[Span]) -> Iterator[Span]:
    for span in spans:
        yield replace(span, label=FIVE_TYPES.map_label(span.label) or span.label)


@dataclass(frozen=True)
class FileTagger:
    """The tagger whose copies stand in a file, each under the name of its note.

    A note without a copy counts as not copied at all. `subject` is the name of the file in errors.
    """

    outputs: Mapping[str, Output]
    subject: str = field(default="copies", compare=False)
    name: ClassVar[str] = OUTPUTS
    labels: ClassVar[tuple[str, ...]] = TYPES
    n_notes_at_once: ClassVar[int] = 64

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all copies."""
        texts = {doc_id: output.text for doc_id, output in self.outputs.items()}
        return digest_json([self.name, _VERSION, texts])

    def tag(self, texts: Sequence[str]) -> tuple[Tags, ...]:
        """Refuse texts, because only notes have names."""
        raise AuditError(
            "Copies from a file belong to notes with names.",
            where=self.subject,
            do="Tag a file of notes.",
        )

    def read(
        self,
        notes: Sequence[TaggedDocument],
        *,
        should_stop: StopQuestion = lambda: False,
        on_share: ShareListener = lambda share: None,
    ) -> tuple[CopyReading, ...]:
        """Return the reading of each note's copy."""
        readings: list[CopyReading] = []
        for note in notes:
            if should_stop():
                raise AuditCancelled
            folded = fold_text(note.text)
            output = self.outputs.get(note.doc_id)
            pieces = [Piece(0, len(folded.text), output.text)] if output else []
            plain_note = replace(note, text=folded.text, spans=())
            readings.append(_read_copy(plain_note, pieces).to_source(note, folded))
            on_share(len(readings) / len(notes))
        return tuple(readings)

    def compare_names(self, doc_ids: Collection[str]) -> OutputNames:
        """Compare the names of all notes with those of the copies.

        Raises
        ------
        AuditError
            If no copy belongs to a note.
        """
        names = set(doc_ids)
        unknown = [output.line for name, output in self.outputs.items() if name not in names]
        if len(unknown) == len(self.outputs):
            raise no_common_note(self.subject)
        return OutputNames(len(names - self.outputs.keys()), tuple(unknown))


class OutputNames(NamedTuple):
    """The number of notes without a copy, and the lines of copies without a note."""

    n_notes_without: int
    lines_without_note: tuple[int, ...]


def read_file_tagger(path: Path, *, subject: str) -> FileTagger:
    """Return the tagger of a file of copies; AuditError with the line if one cannot be read."""
    return FileTagger(read_outputs(path, subject=subject), subject)


class ServerSettings(Record):
    """The server of a language model on this machine, and what it is asked."""

    flags: ClassVar = {"n_seconds": "--timeout"}

    endpoint: str = Field(
        default="",
        description="address of an OpenAI-compatible server on this machine that writes the "
        "copies, as http://127.0.0.1:8000/v1; ending in /completions it gets the prompt without a "
        "chat",
    )
    model: str = Field(
        default="", max_length=500, description="the name under which the server has the model"
    )
    language: Language = Field(default="ja", description="of the instruction")
    instruction: Path | None = Field(
        default=None, description="file with another instruction than the paper's"
    )
    n_window_chars: int = Field(
        default=2000, ge=100, le=1_000_000, description="of a note in one question"
    )
    overlap: int = Field(
        default=200, ge=0, le=10_000, description="characters that windows of a long note share"
    )
    n_seconds: float = Field(
        default=600.0, gt=0, le=86_400, description="seconds to wait for an answer"
    )


class _Address(NamedTuple):
    """A numeric address on the loopback, its port, and a path."""

    host: str
    port: int
    path: str


_CHAT, _PLAIN = "/chat/completions", "/completions"


def find_loopback(endpoint: str) -> _Address:
    """Return the address of an endpoint; AuditError unless it is on this machine."""
    refusal = AuditError(
        "This is no address of a server on this machine. Notes are sent nowhere else.",
        where="--endpoint",
        do="Give http://127.0.0.1:PORT/v1, http://[::1]:PORT/v1 or http://localhost:PORT/v1.",
    )
    with refuse_errors(refusal):
        parts = urlsplit(endpoint)
        host, port = parts.hostname or "", parts.port or 80
        is_plain = parts.scheme == "http" and not (
            parts.query or parts.fragment or parts.username or parts.password
        )
        is_local_name = host == "localhost"
        hosts = [host]
        if is_local_name:
            addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            hosts = [str(address[4][0]) for address in addresses]
        if not is_plain or not all(ipaddress.ip_address(name).is_loopback for name in hosts):
            raise refusal
    path = parts.path.rstrip("/")
    if not path.endswith(_PLAIN):
        path += _CHAT
    return _Address(hosts[0], port, path)


_WAITS = (1.0, 4.0)
"""Seconds before the second and the third attempt."""
_PASSING = {408, 425, 429, 500, 502, 503, 504}
"""Statuses of a server that is busy or starting."""
_MAX_ANSWER_BYTES = 50_000_000
_N_AT_ONCE = 8


@dataclass(frozen=True)
class ServerTagger:
    """The tagger whose copies a server on this machine writes, greedily.

    `address` is the place of the server, `instruction` what it is told before each note.
    """

    address: _Address
    settings: ServerSettings
    instruction: str
    name: ClassVar[str] = "server"
    labels: ClassVar[tuple[str, ...]] = TYPES
    n_notes_at_once: ClassVar[int] = 2 * _N_AT_ONCE

    @property
    def digest(self) -> str:
        """SHA-256 of address, model and question; a server does not tell its weights."""
        plain = self.settings.plain()
        del plain["n_seconds"], plain["instruction"]
        return digest_json([self.name, _VERSION, plain, self.instruction])

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
        """Return the reading of each note's copy; several windows are asked for at once."""
        settings = self.settings
        folded_texts = [fold_text(note.text) for note in notes]
        windows_of_notes = [
            cut_windows(
                folded.text,
                size=settings.n_window_chars,
                overlap=min(settings.overlap, settings.n_window_chars // 4),
            )
            for folded in folded_texts
        ]
        texts = [
            folded.text[start:end]
            for folded, windows in zip(folded_texts, windows_of_notes, strict=True)
            for start, end in windows
        ]
        answers = iter(self._ask_all(texts, should_stop=should_stop, on_share=on_share))
        readings = []
        for note, folded, windows in zip(notes, folded_texts, windows_of_notes, strict=True):
            pieces = [Piece(start, end, next(answers)) for start, end in windows]
            plain_note = replace(note, text=folded.text, spans=())
            readings.append(_read_copy(plain_note, pieces).to_source(note, folded))
        return tuple(readings)

    def _ask_all(
        self, texts: Sequence[str], *, should_stop: StopQuestion, on_share: ShareListener
    ) -> list[str]:
        """Return the answer to each text; the first error ends all questions."""
        answers: list[str] = []
        is_over = threading.Event()
        with ThreadPoolExecutor(_N_AT_ONCE) as executor:
            futures = [executor.submit(self._ask, text, is_over) for text in texts]
            try:
                for future in futures:
                    answers.append(future.result())
                    if should_stop():
                        raise AuditCancelled
                    on_share(len(answers) / len(texts))
            finally:
                is_over.set()
                for future in futures:
                    future.cancel()
        return answers

    def _ask(self, text: str, is_over: threading.Event) -> str:
        """Return the copy of a text; white space is its own copy."""
        if not text.strip():
            return text
        body = json.dumps(self._make_question(text)).encode()
        for wait in (*_WAITS, None):
            try:
                status, content = self._post(body)
            except (OSError, http.client.HTTPException) as error:
                if wait is None:
                    raise self._no_answer(error) from None
            else:
                if status == http.client.OK:
                    return _read_answer(content)
                if wait is None or status not in _PASSING:
                    raise _refused_question(status)
            if is_over.wait(wait):
                raise AuditCancelled
        raise AssertionError("the last attempt returns or raises")

    def _make_question(self, text: str) -> dict[str, Any]:
        question: dict[str, Any] = {
            "model": self.settings.model,
            "temperature": 0.0,
            "top_p": 1.0,
            "seed": 0,
            "n": 1,
            "stream": False,
            "max_tokens": count_answer_tokens(len(text)),
        }
        if self.address.path.endswith(_CHAT):
            system, user = ("system", self.instruction), ("user", text)
            messages = [{"role": role, "content": content} for role, content in (system, user)]
            return question | {"messages": messages}
        note_heading, copy_heading = PLAIN_HEADINGS[self.settings.language]
        prompt = f"{self.instruction}\n\n### {note_heading}:\n{text}\n\n### {copy_heading}:\n"
        return question | {"prompt": prompt}

    def _post(self, body: bytes) -> tuple[int, bytes]:
        """Send a question; return the status and the content of the answer."""
        host, port, path = self.address
        connection = http.client.HTTPConnection(host, port, timeout=self.settings.n_seconds)
        with closing(connection):
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read(_MAX_ANSWER_BYTES)

    def _no_answer(self, error: Exception) -> AuditError:
        if isinstance(error, TimeoutError):
            return AuditError(
                "The server did not answer within {n_seconds:g} seconds.",
                where="--endpoint",
                do="Wait longer with --timeout, or ask for less with --window-chars.",
                n_seconds=self.settings.n_seconds,
            )
        return AuditError(
            "No server answers on port {port} of this machine.",
            where="--endpoint",
            do="Start it, or correct the address; the same command goes on where it stopped.",
            port=self.address.port,
        )


def _refused_question(status: int) -> AuditError:
    """Return the error for a status; the server's own words may repeat the note."""
    if 300 <= status < 400:
        return AuditError(
            "The server sends on to another address, which is not followed.",
            where="--endpoint",
            do="Give the address of the server itself.",
        )
    return AuditError(
        "The server refused the question (status {status}).",
        where="--endpoint",
        do="Check address and model; if a window and its copy do not fit into its context, set "
        "--window-chars lower.",
        status=status,
    )


def _read_answer(content: bytes) -> str:
    """Return the text of an answer; a model that says nothing has an empty one."""
    refusal = AuditError(
        "The answer of the server cannot be understood.",
        where="--endpoint",
        do="Give the address of an OpenAI-compatible server, as http://127.0.0.1:8000/v1.",
    )
    with refuse_errors(refusal):
        choice = json.loads(content)["choices"][0]
        text = choice["message"]["content"] if "message" in choice else choice["text"]
        if text is not None and not isinstance(text, str):
            raise refusal
    return text or ""


def open_server_tagger(settings: ServerSettings) -> ServerTagger:
    """Return the tagger of a server; AuditError if it is not on this machine."""
    if not settings.model:
        raise AuditError(
            "Which model shall the server use?", where="--model", do="Give the name it has there."
        )
    address = find_loopback(settings.endpoint)
    instruction = SYSTEM[settings.language]
    if settings.instruction is not None:
        with locate_errors("--instruction"):
            content = read_file_bytes(settings.instruction)
        instruction = decode_text(content, subject="--instruction")[0].strip()
    return ServerTagger(address, settings, instruction)
