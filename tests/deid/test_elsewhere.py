"""Copies that are written elsewhere, in a file or by a server on this machine, are read as ours."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from audit.cli import main
from audit.deid.find import elsewhere
from audit.deid.find.elsewhere import ServerSettings, find_loopback, open_server_tagger
from audit.errors import AuditError

NOTES = {
    "a": "Patient: John Smith, MRN 4471902. He was seen on 04/11/2024.",
    "b": "氏名：高橋健一　受診。 電話 03-1234-5678。",
    "c": "Mrs. Linda Brown called her son, Peter Brown, on May 3, 2024.",
}
COPIES = {
    "a": "Patient: <identifier>John Smith</identifier>, MRN <MEDICALRECORD>4471902</MEDICALRECORD>."
    " He was seen on <準識別子>04/11/2024</準識別子>.",
    "b": "氏名：<識別子>高橋健一</識別子>　受診。 電話 <連絡先情報>03-1234-5678</連絡先情報>。",
}


def write_lines(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


def write_notes(folder: Path) -> Path:
    lines = [{"note_id": name, "text": text} for name, text in NOTES.items()]
    return write_lines(folder / "notes.jsonl", lines)


def tag(
    capsys: pytest.CaptureFixture[str], *options: object, code: int = 0
) -> tuple[dict[str, Any], str]:
    capsys.readouterr()
    assert main(["deid", "tag", *map(str, options), "--json"]) == code
    captured = capsys.readouterr()
    return ({} if code else dict(json.loads(captured.out))), captured.err


def released(folder: Path) -> list[str]:
    lines = (folder / "redacted.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line)["text"] for line in lines]


def test_copies_of_a_file_are_released_like_our_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notes, out = write_notes(tmp_path), tmp_path / "out"
    lines = [{"doc_id": name, "output": text} for name, text in COPIES.items()]
    outputs = write_lines(tmp_path / "o.jsonl", [*lines, {"doc_id": "z", "output": "<a>"}])
    census, stderr = tag(capsys, "--outputs", outputs, "--notes", notes, "--out", out)
    assert census["tagger"]["name"] == "outputs"
    assert census["copies"]["statuses"] == {
        "exact": 2,
        "normalised": 0,
        "edited": 0,
        "truncated": 0,
        "empty": 1,
    }
    assert census["uncopied"]["n_notes"] == 1
    assert "1 notes have no copy in the file" in stderr
    assert "1 copies belong to no note and are left out: lines 3." in stderr
    first, second, third = released(out)
    assert first == "Patient: [NAME], MRN [ID]. He was seen on [DATE]."
    assert second == "氏名：【氏名】　受診。 電話 【連絡先】。"
    assert "Brown" not in third, "the default tagger reads what has no copy"
    common = "--outputs", outputs, "--notes", notes
    census, _ = tag(capsys, *common, "--out", tmp_path / "w", "--uncopied", "withhold")
    assert census["uncopied"]["n_withheld"] == 1 and len(released(tmp_path / "w")) == 2
    census, _ = tag(capsys, *common, "--out", tmp_path / "b", "--beside", "rules")
    assert census["tagger"]["name"] == "outputs+rules" and census["n_notes"] == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"doc_id": "a", "output": "x"}\n{"doc_id": "a", "output": "y"}\n', "line 2: This note"),
        ('{"doc_id": "a", "output": "x"}\n{"doc_id": "b"}\n', "line 2"),
        ('{"doc_id": "z", "output": "x"}\n', "no note in common"),
        ("not json\n", "line 1"),
        ("\n", "no note in it"),
        ('{"doc_id": "a", "output": 3}\n', "line 1"),
    ],
)
def test_a_file_of_copies_that_does_not_fit_is_refused(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = tmp_path / "o.jsonl"
    outputs.write_text(text, "utf-8")
    notes, out = write_notes(tmp_path), tmp_path / "out"
    _, stderr = tag(capsys, "--outputs", outputs, "--notes", notes, "--out", out, code=2)
    assert message in stderr and "--outputs" in stderr and "Traceback" not in stderr
    assert not out.exists()


Answer = Callable[[dict[str, Any]], tuple[int, Any]]


@contextmanager
def serving(answer: Answer) -> Iterator[tuple[str, list[tuple[str, dict[str, Any]]]]]:
    """A server that answers questions; yields its address and all questions with their paths."""
    questions: list[tuple[str, dict[str, Any]]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            questions.append((self.path, question))
            status, content = answer(question)
            body = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", f"{self.path}/elsewhere")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", questions
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def copy_by_chat(question: dict[str, Any]) -> tuple[int, Any]:
    text = question["messages"][-1]["content"]
    copies = {NOTES[name]: copy for name, copy in COPIES.items()}
    return 200, {"choices": [{"message": {"content": copies.get(text)}}]}


def test_a_server_on_this_machine_writes_the_copies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    notes, out = write_notes(tmp_path), tmp_path / "out"
    with serving(copy_by_chat) as (address, questions):
        census, _ = tag(
            capsys, "--endpoint", address, "--model", "m", "--notes", notes, "--out", out
        )
    assert census["tagger"]["name"] == "server"
    assert released(out)[:2] == [
        "Patient: [NAME], MRN [ID]. He was seen on [DATE].",
        "氏名：【氏名】　受診。 電話 【連絡先】。",
    ]
    assert "Brown" not in released(out)[2], "the model said nothing about this note"
    assert {path for path, _ in questions} == {"/v1/chat/completions"}
    (question,) = [q for _, q in questions if q["messages"][1]["content"] == NOTES["a"]]
    assert question["messages"][0]["content"].startswith("以下の診療テキスト")
    assert (question["model"], question["temperature"], question["stream"]) == ("m", 0.0, False)
    assert question["max_tokens"] == 2 * len(NOTES["a"]) + 64


def test_a_base_model_is_asked_without_a_chat_and_a_long_note_in_windows(tmp_path: Path) -> None:
    def copy(question: dict[str, Any]) -> tuple[int, Any]:
        head, _, rest = question["prompt"].partition("\n\n### Input:\n")
        text, _, tail = rest.rpartition("\n\n### Output:\n")
        assert (head, tail) == ("Say who.", "")
        return 200, {"choices": [{"text": text.replace("Ann", "<identifier>Ann</identifier>")}]}

    instruction = tmp_path / "say.txt"
    instruction.write_text("Say who.\n", "utf-8")
    text = "Ann went home. " * 40
    with serving(copy) as (address, questions):
        settings = ServerSettings(
            endpoint=f"{address}/completions",
            model="base",
            language="en",
            instruction=instruction,
            n_window_chars=150,
            overlap=20,
        )
        (spans,) = open_server_tagger(settings).tag([text])
    assert len(questions) > 4
    assert [text[span.start : span.end] for span in spans] == ["Ann"] * 40
    assert {path for path, _ in questions} == {"/v1/completions"}


def test_a_stopped_run_asks_only_for_the_rest_and_tries_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elsewhere, "_WAITS", (0.01, 0.01))
    monkeypatch.setattr(elsewhere.ServerTagger, "n_notes_at_once", 1)
    notes, out = write_notes(tmp_path), tmp_path / "out"
    statuses = [503, 200, 400]

    def answer(question: dict[str, Any]) -> tuple[int, Any]:
        status = statuses.pop(0) if statuses else 200
        return status, copy_by_chat(question)[1] if status == 200 else {"error": NOTES["b"]}

    with serving(answer) as (address, questions):
        options = "--endpoint", address, "--model", "m", "--notes", notes, "--out", out
        _, stderr = tag(capsys, *options, code=2)
        assert "refused the question (status 400)" in stderr and "高橋" not in stderr
        assert len(questions) == 3, "the first one twice"
        tag(capsys, *options)
        assert len(questions) == 5, "the first note is not asked for again"
    assert released(out)[0].startswith("Patient: [NAME]")


@pytest.mark.parametrize(
    ("status", "content", "message"),
    [
        (307, b"", "sends on to another address"),
        (200, b"<html>", "cannot be understood"),
        (200, {"choices": []}, "cannot be understood"),
        (200, {"choices": [{"text": 3}]}, "cannot be understood"),
        (503, b"John Smith", "status 503"),
    ],
)
def test_what_a_server_says_wrongly_is_told_without_the_note(
    status: int, content: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elsewhere, "_WAITS", (0.01, 0.01))
    with serving(lambda question: (status, content)) as (address, questions):
        tagger = open_server_tagger(ServerSettings(endpoint=address, model="m"))
        with pytest.raises(AuditError, match=message) as refusal:
            tagger.tag([NOTES["a"]])
    assert "Smith" not in refusal.value.message
    assert len(questions) == (3 if status == 503 else 1)
    assert len({path for path, _ in questions}) == 1, "no redirect is followed"


def test_a_server_that_is_not_there_or_too_slow_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elsewhere, "_WAITS", (0.01, 0.01))
    release = threading.Event()

    def wait(question: dict[str, Any]) -> tuple[int, Any]:
        release.wait(5)
        return copy_by_chat(question)

    with serving(wait) as (address, questions):
        settings = ServerSettings(endpoint=address, model="m", n_seconds=0.05)
        with pytest.raises(AuditError, match=r"within 0\.05 seconds"):
            open_server_tagger(settings).tag([NOTES["a"]])
        release.set()
        assert len(questions) == 3
    with pytest.raises(AuditError, match="No server answers on port"):
        open_server_tagger(settings).tag([NOTES["a"]])
    with pytest.raises(AuditError, match="Which model"):
        open_server_tagger(ServerSettings(endpoint=address))


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://10.0.0.1:8000/v1",
        "http://example.org/v1",
        "http://127.0.0.1.example.org/v1",
        "http://localhost.example.org:8000/v1",
        "http://0.0.0.0:8000/v1",
        "http://[::]:8000/v1",
        "http://user@127.0.0.1:8000/v1",
        "https://127.0.0.1:8000/v1",
        "http://127.0.0.1:8000/v1?to=x",
        "http://127.0.0.1:port/v1",
        "http://2130706433/v1",
        "127.0.0.1:8000/v1",
        "file:///etc/passwd",
        "http://",
    ],
)
def test_notes_are_sent_to_no_other_machine(endpoint: str) -> None:
    with pytest.raises(AuditError, match="no address of a server on this machine"):
        find_loopback(endpoint)


def test_the_loopback_has_several_names(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_loopback("http://127.8.9.1:80/v1/") == ("127.8.9.1", 80, "/v1/chat/completions")
    assert find_loopback("http://[::1]:8/v1") == ("::1", 8, "/v1/chat/completions")
    assert find_loopback("http://127.0.0.1/v1/completions") == ("127.0.0.1", 80, "/v1/completions")
    assert find_loopback("http://LOCALHOST:9/v1").host in ("127.0.0.1", "::1")
    monkeypatch.setattr(
        elsewhere.socket, "getaddrinfo", lambda *_, **__: [(2, 1, 6, "", ("10.0.0.9", 9))]
    )
    with pytest.raises(AuditError, match="no address of a server on this machine"):
        find_loopback("http://localhost:9/v1")


def test_options_that_have_no_effect_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notes = write_notes(tmp_path)
    common = "--notes", notes, "--out", tmp_path / "out"
    for options in (
        ("--model", "m"),
        ("--outputs", notes, "--endpoint", "http://127.0.0.1:1/v1", "--model", "m"),
        ("--outputs", notes, "--tagger", "rules"),
        ("--copying", "free"),
    ):
        tag(capsys, *common, *options, code=2)
