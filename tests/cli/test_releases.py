"""Releases with surrogates: the key of each is secret, survives, and goes with its release."""

from __future__ import annotations

import base64
import json
import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from audit import backup
from audit.cli import deid_commands
from audit.deid.find.rules import RuleTagger
from audit.deid.find.taggers import list_taggers
from audit.deid.redact.keys import KEY
from audit.deid.redact.release import Release
from audit.deid.sets.releases import RELEASES
from audit.deid.sets.tagged_sets import ASKED, TAGGED_SETS, read_notes
from audit.deid.tasks import TaggingTask, single_text, tagging_task
from audit.errors import AuditError
from audit.home import HOME_VARIABLE
from tests.deid.make_scores import Killed, quiet
from tests.deid.test_tagging import Dying, notes_file

TEXT = "Patient: Ann Whitlock, MRN: 4471902, seen on 2024-05-03."
SURROGATE = Release(mode="surrogate")


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return notes_file(tmp_path / "notes.jsonl", n=60)


@pytest.fixture
def tag(home, run, notes: Path, tmp_path: Path) -> Any:
    """Tag the notes with surrogates into a folder; gives what the command says, and its texts."""

    def tag(name: str, *words: str, mode: str = "surrogate") -> tuple[Any, bytes]:
        out = tmp_path / name
        reply = run(
            "deid",
            "tag",
            "--tagger",
            "rules",
            "--notes",
            notes,
            "--out",
            out,
            "--mode",
            mode,
            *words,
        )
        texts = out / "redacted.jsonl"
        return reply, texts.read_bytes() if texts.exists() else b""

    return tag


def list_releases(run: Any, *words: object) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = run("deid", "releases", *words)["releases"]
    return rows


def keys_in(home: Path) -> dict[str, bytes]:
    return {
        path.parent.name: path.read_bytes()
        for path in home.rglob(KEY)
        if path.parent.parent.name in ("releases", "tagged")
    }


def written_forms(key: bytes) -> list[bytes]:
    return [key, key.hex().encode(), base64.b64encode(key), repr(key)[2:-1].encode()]


def make_set(release: Release) -> str:
    task = tagging_task(
        single_text(TEXT, source="pasted"),
        tagger=list_taggers()[1],
        release=release,
        title="Ward 7",
    )
    (tagged_id,) = TaggingTask.from_order(task.question().order).run(quiet())
    return tagged_id


def text_of(tagged_id: str) -> str:
    (note,) = read_notes(TAGGED_SETS.get(tagged_id))
    return note.released


def test_each_release_has_a_key_of_its_own_that_stands_in_no_file_but_its_own(
    home, run, tag, tmp_path
) -> None:
    (reply, texts), (_, other_texts) = tag("one"), tag("other")
    assert reply["code"] == 0 and texts != other_texts
    assert reply["surrogates"] == {"drawn_from": "a secret key", "reversible": False}
    rows, keys = list_releases(run), keys_in(home)
    assert [row["title"] for row in rows] == ["other", "one"]
    assert not any(row["is_reversible"] or row["linked"] or row["is_kept"] for row in rows)
    assert {*keys} == {row["identifier"] for row in rows} and len({*keys.values()}) == 2
    assert rows[1]["identifier"] in reply["said"]
    for code, key in keys.items():
        path = home / "releases" / code / KEY
        assert len(key) == 32 and stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        files = [
            file
            for top in (home, tmp_path)
            for file in top.rglob("*")
            if file.is_file() and file != path
        ]
        readable = [str(reply).encode(), str(rows).encode(), *(file.read_bytes() for file in files)]
        assert not [form for form in written_forms(key) for text in readable if form in text]


@pytest.mark.long
def test_a_stopped_run_keeps_its_key_and_the_next_release_into_the_folder_has_another(
    home, run, tag, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr("audit.deid.sets.tagging._BATCH_NOTES", 20)
    monkeypatch.setattr(deid_commands, "load_tagger", lambda *_, **__: Dying(n_left=1))
    clock = iter(range(0, 10**9, 10))
    monkeypatch.setattr("time.monotonic", lambda: float(next(clock)))
    with pytest.raises(Killed):
        tag("out")
    old_keys = keys_in(home)
    assert len(old_keys) == 1 and not (tmp_path / "out").exists()
    monkeypatch.setattr(deid_commands, "load_tagger", lambda *_, **__: RuleTagger())
    _, texts = tag("out")
    assert keys_in(home) == old_keys, "the same key"
    _, again = tag("again", "--key-of", *old_keys)
    assert again == texts, "which gives the same bytes"
    (tmp_path / "out").rename(tmp_path / "moved")
    _, anew = tag("out")
    assert anew != texts and len(keys_in(home)) == 3 and len({*keys_in(home).values()}) == 2


def test_a_stopped_run_with_a_shared_key_does_not_hand_it_to_one_without(
    home, run, tag, monkeypatch
) -> None:
    _, first = tag("first")
    (row,) = list_releases(run)
    monkeypatch.setattr("audit.deid.sets.tagging._BATCH_NOTES", 20)
    clock = iter(range(0, 10**9, 10))
    monkeypatch.setattr("time.monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(deid_commands, "load_tagger", lambda *_, **__: Dying(n_left=1))
    with pytest.raises(Killed):
        tag("out", "--key-of", row["identifier"])
    monkeypatch.setattr(deid_commands, "load_tagger", lambda *_, **__: RuleTagger())
    _, texts = tag("out")
    assert texts != first and not list_releases(run)[0]["linked"]


@pytest.mark.long
def test_one_key_for_two_releases_on_request_alone_and_the_list_says_so(home, run, tag) -> None:
    _, texts = tag("one")
    (row,) = list_releases(run)
    _, two = tag("two", "--key-of", row["identifier"])
    assert texts == two
    rows = list_releases(run)
    assert [r["linked"] for r in rows] == [[rows[1]["identifier"]], [rows[0]["identifier"]]]
    # Each has the key for itself: one is removed, the other stays what it was.
    assert run("deid", "forget", row["identifier"])["code"] == 0
    _, three = tag("three", "--key-of", rows[0]["identifier"])
    assert three == texts and row["identifier"] not in keys_in(home)
    tagged_id = make_set(SURROGATE)
    assert (
        list_releases(run)[0]["identifier"] == tagged_id
        and tag("four", "--key-of", tagged_id)[0]["code"] == 0
    )
    for words, why in (
        (("--key-of", row["identifier"]), "no such release"),
        (("--key-of", "../x"), "no such"),
        (("--key-of", tagged_id, "--seed", "1"), "Leave --seed or --key-of out"),
    ):
        reply, text = tag("refused", *words)
        assert reply["code"] == 2 and why in reply["said"] and not text
    for words in (("--key-of", tagged_id), ("--seed", "1")):
        assert "Add --mode surrogate" in tag("refused", *words, mode="mask")[0]["said"]


def test_a_seed_is_public_and_the_release_is_marked_wherever_it_is_described(
    home, run, tag, tmp_path
) -> None:
    reply, texts = tag("seeded", "--seed", "3")
    assert tag("again", "--seed", "3")[1] == texts and not keys_in(home)
    assert reply["surrogates"] == {"drawn_from": "a public seed", "reversible": True, "seed": 3}
    assert "A seed is public" in reply["said"]
    census = json.loads((tmp_path / "seeded" / "census.json").read_bytes())
    assert census["surrogates"]["reversible"] is True
    answer = run("deid", "releases")
    assert [row["is_reversible"] for row in answer["releases"]] == [True, True]
    assert "2 can be reversed" in answer["said"] and "delete it" in answer["said"]
    assert (
        "no secret key"
        in tag("refused", "--key-of", answer["releases"][0]["identifier"])[0]["said"]
    )
    # A folder of before says nothing of a key.
    del census["surrogates"]
    (tmp_path / "seeded" / "census.json").write_text(json.dumps(census))
    row = list_releases(run, "--tagged", tmp_path / "seeded")[-1]
    assert (row["title"], row["is_reversible"]) == ("seeded", True)
    tag("keyed")
    assert not list_releases(run, "--tagged", tmp_path / "keyed")[-1]["is_reversible"]
    for odd in (b"{", b"[]", b'{"mode": "surrogate", "surrogates": 1}'):
        (tmp_path / "seeded" / "census.json").write_bytes(odd)
        reply = run("deid", "releases", "--tagged", tmp_path / "seeded")
        assert reply["code"] == 2 and "no folder of `deid tag`" in reply["said"]


def test_a_run_that_is_refused_leaves_no_record(home, run, tag, tmp_path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    assert tag("full")[0]["code"] == 2
    assert list_releases(run) == [] and keys_in(home) == {}


def test_a_backup_holds_the_keys_and_a_restored_set_goes_on_with_its_own(
    home, run, tag, tmp_path, monkeypatch
) -> None:
    task = tagging_task(
        single_text(TEXT, source="pasted"), tagger=list_taggers()[1], release=SURROGATE
    )
    order = task.question().order
    _, texts = tag("out")
    (folder_row, set_row), keys = (
        sorted(list_releases(run), key=lambda row: row["is_kept"]),
        keys_in(home),
    )
    assert set_row["identifier"] == task.tagged_id and len(keys) == 2
    backup.back_up(tmp_path / "b.tar")
    (tagged_id,) = TaggingTask.from_order(order).run(quiet())
    expected = text_of(tagged_id)
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "elsewhere"))
    backup.restore(tmp_path / "b.tar")
    assert keys_in(tmp_path / "elsewhere") == keys
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "elsewhere").rglob(KEY)} == {
        0o600
    }
    assert (
        TaggingTask.from_order(order).run(quiet()) == (tagged_id,)
        and text_of(tagged_id) == expected
    )
    assert tag("again", "--key-of", folder_row["identifier"])[1] == texts


def test_a_key_goes_with_its_release(home, run, tag) -> None:
    tag("out")
    tagged_id = make_set(SURROGATE)
    assert len(keys_in(home)) == 2
    TAGGED_SETS.forget(tagged_id)
    assert tagged_id not in keys_in(home)
    (row,) = list_releases(run)
    old = time.time() - 100 * 86_400
    record = home / "releases" / row["identifier"] / "release.json"
    plain = json.loads(record.read_bytes()) | {"created": "2020-01-01T00:00:00+00:00"}
    record.write_text(json.dumps(plain))
    os.utime(record.parent, (old, old))
    assert run("purge", "--kind", "tagged", "--older-than", "90")["code"] == 0
    assert keys_in(home) == {} and list_releases(run) == []


@pytest.mark.parametrize("changes", [{"version": 1}, {"how": {"mode": "mask", "language": "ja"}}])
def test_a_release_of_another_version_is_refused(home, run, tag, changes) -> None:
    tag("out")
    (row,) = list_releases(run)
    path = home / "releases" / row["identifier"] / "release.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | changes))
    with pytest.raises(AuditError, match="release: This was written by another version"):
        RELEASES.get(row["identifier"])
    assert list_releases(run) == []


def test_the_same_notes_asked_again_are_another_release_and_an_unfinished_one_goes_on() -> None:
    question = single_text(TEXT + " again", source="pasted")
    ask = {"tagger": list_taggers()[1], "title": "Ward"}
    first, same = (
        tagging_task(question, release=Release(mode="surrogate"), **ask) for _ in range(2)
    )
    assert first.tagged_id == same.tagged_id, "not whole: it goes on, with its key"
    key = TAGGED_SETS.get(first.tagged_id).how.key
    first.run(quiet())
    assert TAGGED_SETS.get(first.tagged_id).how.key == key
    second = tagging_task(question, release=Release(mode="surrogate"), **ask)
    assert second.tagged_id != first.tagged_id
    second.run(quiet())
    assert text_of(first.tagged_id) != text_of(second.tagged_id)
    # On request with the same key: the same texts, which are one set.
    shared = Release(mode="surrogate", key=key, is_linked=True)
    third = tagging_task(question, release=shared, **ask)
    third.run(quiet())
    fourth = tagging_task(question, release=shared, **ask)
    assert fourth.tagged_id == third.tagged_id not in (first.tagged_id, second.tagged_id)
    assert text_of(third.tagged_id) == text_of(first.tagged_id)
    # Without surrogates nothing is drawn, and the same question is the same set.
    plain = [tagging_task(question, release=Release(mode="mask"), **ask) for _ in range(2)]
    plain[0].run(quiet())
    assert plain[0].tagged_id == plain[1].tagged_id


def test_sets_of_before_are_reversible_and_one_whose_key_is_lost_is_said(home, run) -> None:
    keyless_id, damaged_id = make_set(SURROGATE), make_set(Release(mode="surrogate"))
    folder = TAGGED_SETS.place(keyless_id)
    record = json.loads((folder / ASKED).read_bytes())
    assert record["how"] == {"mode": "surrogate", "seed": None, "is_linked": False}
    # As it was written before there were keys.
    record["how"] = {"mode": "surrogate", "seed": 0}
    (folder / ASKED).write_text(json.dumps(record))
    (folder / KEY).unlink()
    assert TAGGED_SETS.get(keyless_id).how.is_reversible
    rows = {row["identifier"]: row["is_reversible"] for row in list_releases(run)}
    assert rows == {keyless_id: True, damaged_id: False}
    assert text_of(keyless_id), "it can still be read"
    (TAGGED_SETS.place(damaged_id) / KEY).write_bytes(b"short")
    reply = run(
        "deid",
        "tag",
        "--tagger",
        "rules",
        "--notes",
        folder / "result" / "spans.jsonl",
        "--out",
        home.parent / "o",
        "--mode",
        "surrogate",
        "--key-of",
        damaged_id,
    )
    assert reply["code"] == 2 and "key of this release is missing or damaged" in reply["said"]
