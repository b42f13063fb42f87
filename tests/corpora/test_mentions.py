"""Mention finder: forms by hand, held-out prose, real prose with names put in, hostile texts."""

from __future__ import annotations

import importlib.util
import json
import math
import random
import re
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest
from faker import Faker
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.corpora.build import build_corpus
from audit.corpora.demo import MENTIONS_PER_NAME, PATTERNS_PER_NAME, demo_notes
from audit.corpora.mention_coverage import NO_NOTES, coverage, coverage_of
from audit.corpora.mention_japanese import split_japanese
from audit.corpora.mention_passages import passages_of, patterns_of, public_passages
from audit.corpora.mention_record import Mention, Unnamed
from audit.corpora.mention_truth import (
    NotePair,
    Piece,
    TrueName,
    pair_from_register,
    pair_from_truth,
)
from audit.corpora.mentions import examine, find_mentions
from audit.corpora.notes import open_notes
from audit.corpora.passages import read_passages
from audit.membership.corpus_candidates import count_table, positives_of
from audit.membership.name_pools import us_pool
from audit.names import fold_name

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the shared texts are not here")


def prose() -> ModuleType:
    path = Path(__file__).with_name("clinical_prose.py")
    spec = importlib.util.spec_from_file_location("clinical_prose", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["clinical_prose"] = module
    spec.loader.exec_module(module)
    return module


def texts_of(file: str) -> list[str]:
    lines = (DATA / file).read_text(encoding="utf-8").split("\n")
    return [json.loads(line)["text"] for line in lines if line]


def only(text: str) -> Mention:
    found = find_mentions(text)
    assert len(found) == 1, (text, found)
    return found[0]


@pytest.mark.parametrize(
    ("text", "form", "title", "first", "last", "years", "sex"),
    [
        ("John Smith is a 70-year-old man with", "is_a", "", "John", "Smith", 70, "male"),
        ("Mr. Smith is a 45 y/o male", "is_a", "mr", "", "Smith", 45, "male"),
        ("SMITH, JOHN is a 42\nyear old female", "is_a", "", "JOHN", "SMITH", 42, "female"),
        ("Smith, John K. is a 50 yo gentleman", "is_a", "", "John", "Smith", 50, "male"),
        ("Ann O'Brien, a 42 year old lady,", "appositive", "", "Ann", "O'Brien", 42, "female"),
        ("JANE DOE IS A 70 YEAR OLD WOMAN", "is_a", "", "JANE", "DOE", 70, "female"),
        ("HPI Jane Doe is a nice 3-1/2-year-old girl", "is_a", "", "Jane", "Doe", 3.5, "female"),
        ("Jane Doe, MRN 12345, is a 33 yo F", "is_a", "", "Jane", "Doe", 33, "female"),
        ("John Q. Public, Jr. is an 80-year-old man", "is_a", "", "John", "Public", 80, "male"),
        ('John "Jack" Smith is a 45 yo man', "is_a", "", "John", "Smith", 45, "male"),
        ("Jose de la Cruz was a 67 yr old male", "is_a", "", "Jose", "de la Cruz", 67, "male"),
        ("Jean-Luc Picard (59 yo M) came", "bracket", "", "Jean-Luc", "Picard", 59, "male"),
        ("Maria Garcia is forty-five years old", "is_old", "", "Maria", "Garcia", 45, ""),
        ("John Smith, age 45, male", "comma", "", "John", "Smith", 45, "male"),
        ("John Smith - 45 yo M w/ CP", "dash", "", "John", "Smith", 45, "male"),
        ("John Smith 45 yo M w/ CP", "direct", "", "John", "Smith", 45, "male"),
        ("This 45-year-old man, John Smith, who", "after_comma", "", "John", "Smith", 45, "male"),
        ("a 45 year old woman named Jane Doe was", "after_named", "", "Jane", "Doe", 45, "female"),
        ("a 70-year-old man (John Smith) was", "after_bracket", "", "John", "Smith", 70, "male"),
        ("70-year-old Mr. Smith was", "after_direct", "mr", "", "Smith", 70, ""),
        ("mr. john smith is a 45 year old man", "is_a", "mr", "john", "smith", 45, "male"),
        ("Dr. Lee saw her. Roe is a 45-year-old man", "is_a", "", "", "Roe", 45, "male"),
        ("The patient, Al Roe, is a 45-year-old man", "is_a", "", "Al", "Roe", 45, "male"),
        ("James White is a 45-year-old man", "is_a", "", "James", "White", 45, "male"),
        ("70歳男性の山田太郎が来院", "ja_after", "", "太郎", "山田", 70, "male"),
        ("山田太郎(70歳,男性)", "ja_bracket", "", "太郎", "山田", 70, "male"),
        ("山田太郎は７０歳の男性。", "ja_is", "", "太郎", "山田", 70, "male"),
        ("患者は佐藤花子、七十二歳、女性。", "ja_comma", "", "花子", "佐藤", 72, "female"),
        ("氏名：山田 太郎　年齢：70歳　性別：男性", "ja_fields", "", "太郎", "山田", 70, "male"),
        ("70歳の女性、佐藤花子さん", "ja_after", "", "花子", "佐藤", 70, "female"),
        ("ジョン・スミス（45歳男性）", "ja_bracket", "", "ジョン", "スミス", 45, "male"),
    ],
)  # fmt: skip
def test_a_name_beside_an_age_is_found(
    text: str, form: str, title: str, first: str, last: str, years: float, sex: str
) -> None:
    found = only(text)
    assert (found.form, found.title, found.first, found.last) == (form, title, first, last)
    assert (found.age_years, found.sex) == (years, sex)
    assert not found.is_placeholder
    written = text[found.name_start : found.name_end]
    assert first in written and last in written and found.start <= found.name_start


@pytest.mark.parametrize(
    ("text", "roles"),
    [
        ("[**Known firstname 1**] [**Known lastname 1**] is a 4 yo F", ("first", "last")),
        ("[**First Name8 (NamePattern2)**] [**Last Name**] is a 4 yo F", ("first", "last")),
        ("[**First Name**] [**Initials**]. [**Last Name**] is a 4 yo F", ("first", "last")),
        ("Mr. [**Known lastname**] is a 70M with", ("last",)),
        ("[**Last Name**], [**First Name**] is a 42\nyear old man", ("last", "first")),
        ("[**Known firstname**] [**Known lastname**], a 42 year old man", ("first", "last")),
        ("[**First Name**] [**Last Name**] is a [**Age over 90**] yo man", ("first", "last")),
        ("Ms. ___ is a ___ yo F with", ("last",)),
        ("___ is a ___ year old man", ("full",)),
        ("[NAME] is a 45-year-old woman", ("full",)),
        ("[氏名]は70歳の男性", ("full",)),
        ("[姓][名]さん（70歳、女性）", ("last", "first")),
    ],
)  # fmt: skip
def test_a_placeholder_beside_an_age_is_found(text: str, roles: tuple[str, ...]) -> None:
    found = only(text)
    assert found.is_placeholder and found.roles == roles
    assert (found.first, found.last) == ("", "")
    assert text[found.name_start] in "[_" and text[found.name_end - 1] in "]_"
    assert math.isnan(found.age_years) == ("over 90" in text or "___ y" in text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Azithromycin is a 3 day course of treatment", None),
        ("He has a 10 year history and a 20 pack-year habit", None),
        ("The patient is a 45-year-old man", "generic"),
        ("Her mother, Jane Smith, is a 70-year-old woman", "relative"),
        ("Mr. Smith's wife is a 70 year old woman", "relative"),
        ("Mr. A is a 53-year-old gentleman", "stub"),
        ("Ms. ABC is a 53-year-old woman", "stub"),
        ("Assessment: 45 yo M with", "none"),
        ("Chest Pain, 45 yo M", "unclear"),
        ("45-year-old male Vietnam Veteran", "none"),
        ("Seen by Dr. Jones, 45 yo man with", "unclear"),
        ("born by C-section to a 27-year-old female", "none"),
        ("症例は７０歳，男性．", "generic"),
        ("糖尿病、70歳男性", "none"),
        ("67歳女性、食欲低下を主訴に", "none"),
        ("母の山田花子（70歳）", "relative"),
    ],
)
def test_what_is_no_mention_is_told_why(text: str, reason: str | None) -> None:
    found = list(examine(text))
    assert not [each for each in found if isinstance(each, Mention)]
    assert [each.reason for each in found if isinstance(each, Unnamed)] == (
        [reason] if reason else []
    )


@pytest.mark.parametrize("templates", ["WITH_MENTION", "FRESH"])
def test_recall_and_precision_on_held_out_prose(templates: str) -> None:
    n_found = n_exact = n_true = n_wrong = 0
    module = prose()
    for sample in module.samples(n=1500, seed=2026, templates=getattr(module, templates)):
        found = find_mentions(sample.text)
        n_true += sample.has_mention
        right = [
            m for m in found if sample.has_mention and m.last.split()[-1] == sample.last.split()[-1]
        ]
        n_found += bool(right)
        n_exact += any((m.first, m.last) == (sample.first, sample.last) for m in right)
        n_wrong += len(found) - bool(right)
    assert n_true > 1000
    assert n_found / n_true >= 0.97
    assert n_found / (n_found + n_wrong) >= 0.97
    assert n_exact / n_true >= 0.95


@needs_data
def test_recall_and_precision_on_real_prose_with_names_put_in() -> None:
    texts = texts_of("mtsamples.jsonl")
    subject = re.compile(
        r"\b(?:The patient|This|Patient|She|He) (?=(?:is|was) an? (?:[\w-]+,? ){0,5}\d+[- ]year[- ]old "  # noqa: E501
        r"(?:[\w-]+,? ){0,3}(?:man|woman|male|female|gentleman|lady)\b)"
    )
    faker = Faker("en_US")
    faker.seed_instance(7)
    rng = random.Random(7)
    n_true = n_found = n_wrong = 0
    for text in texts:
        before = len(find_mentions(text))  # "Mrs. Smith", "Chris": four in all, names they left in
        names: list[tuple[int, int]] = []
        pieces, at = [], 0
        for match in subject.finditer(text):
            name = f"{faker.first_name()} {faker.last_name()}"
            name = (
                f"{rng.choice(('Mr.', 'Ms.'))} {faker.last_name()}" if rng.random() < 0.3 else name
            )
            pieces += [text[at : match.start()], name, " "]
            start = sum(map(len, pieces)) - len(name) - 1
            names.append((start, start + len(name)))
            at = match.end()
        found = find_mentions("".join([*pieces, text[at:]]))
        hits = [n for n in names if any(m.name_start < n[1] and n[0] < m.name_end for m in found)]
        n_true, n_found = n_true + len(names), n_found + len(hits)
        n_wrong += max(0, len(found) - len(hits) - before)
    assert n_true > 500
    assert n_found / n_true >= 0.98
    assert n_found / (n_found + n_wrong) >= 0.98


@needs_data
def test_texts_without_names_have_hardly_a_mention() -> None:
    for file, most in (("mtsamples.jsonl", 4), ("medtxt_ja.jsonl", 0)):
        found = [(t, m) for t in texts_of(file) for m in find_mentions(t)]
        assert len(found) <= most, [t[m.start : m.end] for t, m in found]


@needs_data
def test_recall_on_japanese_reports_with_names_put_in() -> None:
    texts = texts_of("medtxt_ja.jsonl")
    faker = Faker("ja_JP")
    faker.seed_instance(3)
    n_true = n_found = n_wrong = 0
    subject = re.compile(r"(?:症例|患者)(?:は|：|、)(?=[０-９]{1,3}歳[，、]?の?(?:男|女))")
    for text in texts:
        match = subject.search(text)
        if match is None:
            continue
        name = faker.last_name() + faker.first_name()
        new = text[: match.start()] + name + match[0][-1].replace("：", "、") + text[match.end() :]
        found = find_mentions(new)
        hits = [m for m in found if new[m.name_start : m.name_end] == name]
        n_true, n_found, n_wrong = (
            n_true + 1,
            n_found + bool(hits),
            n_wrong + len(found) - len(hits),
        )
    assert n_true > 30
    assert n_found / n_true >= 0.95 and n_found / (n_found + n_wrong) >= 0.95


def test_japanese_names_are_split() -> None:
    names = {
        "山田太郎": ("太郎", "山田"),
        "佐々木健": ("健", "佐々木"),
        "林 さくら": ("さくら", "林"),
    }
    names |= {
        "渡辺修": ("修", "渡辺"),
        "長谷川美咲": ("美咲", "長谷川"),
        "五十嵐太一": ("太一", "五十嵐"),
    }
    assert {name: split_japanese(name) for name in names} == names


@pytest.mark.parametrize(
    "piece",
    ["A", "a ", "[**", "___", "1 ", "45 year old ", "Mr. ", "John ", "1-", "(", ", ", "70歳", "の",
     "\n", "is a 45-year-old ", "[", "Smith, ", "45 yo M, ", "y/o", "old ", "( 45 yo ", "、", "山",
     " 70歳、", "年齢"],
)  # fmt: skip
def test_hostile_texts_take_time_linear_in_their_length(piece: str) -> None:
    def seconds(n_chars: int) -> float:
        text = (piece * n_chars)[:n_chars]
        best = math.inf
        for _ in range(2):
            begin = time.perf_counter()
            list(examine(text))
            best = min(best, time.perf_counter() - begin)
        return best

    small, large = seconds(5_000), seconds(20_000)
    # Four times the text; nine leaves room for a busy machine, and a square law needs sixteen.
    assert large < 9 * small + 0.15
    assert large < 15


@settings(max_examples=150, deadline=None)
@given(
    st.text(
        alphabet="AJohn Smith.,()[]*_-\n'\"1 9yearsold/MF is a70歳男性の山田太郎は、（）",
        max_size=120,
    )
)
def test_any_text_gives_offsets_within_it(text: str) -> None:
    last = -1
    for found in examine(text):
        assert 0 <= found.start < found.end <= len(text)
        if isinstance(found, Mention):
            assert found.name_start >= last
            last = found.end
            if not found.is_placeholder:
                assert found.last in text and found.first in text


def test_lower_case_names_are_found_from_a_register() -> None:
    text = "hpi : john smith is a 45 year old male with gout ."
    assert find_mentions(text) == ()
    found = find_mentions(text, known={"john", "smith"})
    assert [(m.first, m.last) for m in found] == [("john", "smith")]


PRIVATE = (
    "Seen by Dr. Ann Lee. HPI: John K. Smith is a 45-year-old man with gout. He fell on 3/4/2011. "
    "He lives in Boston. He takes aspirin 81 mg q.d. with food. Dr. Lee agrees. He is well."
)
PUBLIC = (
    "Seen by Dr. [**First Name1 (NameIs)**] [**Last Name (STitle)**]. HPI: [**Known firstname 9**] "
    "[**Initial (NamePattern1)**]. [**Known lastname 9**] is a 45-year-old man with gout. "
    "He fell on [**2177-3-4**]. He lives in Boston. He takes aspirin 81 mg q.d. with food. "
    "Dr. [**Last Name (STitle)**] agrees. He is well."
)


def paired() -> NotePair:
    values = [("Ann", 0, "staff"), ("Lee", 0, "staff"), ("John", 1, "patient"), ("K", 1, "patient"),
              ("Smith", 1, "patient"), ("3/4/2011", -1, ""), ("Lee", 2, "staff")]  # fmt: skip
    inserted, at = [], 0
    for (value, group, role), place in zip(
        values, re.finditer(r"\[\*\*.*?\*\*\]", PUBLIC), strict=True
    ):
        at = PRIVATE.index(value, at)
        inserted.append(
            {"start": at, "stop": at + len(value), "source_start": place.start(),
             "source_stop": place.end(), "group": group, "identity": f"{role}:{group and 1}",
             "role": role, "kind": "", "value": value}
        )  # fmt: skip
        at += len(value)
    return pair_from_truth({"inserted": inserted}, note_id="n1", private=PRIVATE, public=PUBLIC)


def test_a_passage_is_that_of_the_public_note() -> None:
    (pattern,) = patterns_of(paired())
    assert (pattern.first, pattern.last, pattern.role) == ("John", "Smith", "patient")
    assert pattern.text.startswith("John K. Smith is a") and pattern.text.endswith("Lee agrees.")
    passage = pattern.passage
    assert passage.left == "" and passage.slots == ("first", "last") and passage.separator == " "
    assert passage.right == (
        " is a 45-year-old man with gout. He fell on . He lives in Boston. "
        "He takes aspirin 81 mg q.d. with food. Dr. agrees."
    )
    assert passage.owner == ("John", "Smith")
    (with_left,) = patterns_of(paired(), n_left_sentences=1)
    assert with_left.passage.left == "HPI: " and with_left.passage.right == passage.right


def test_a_passage_equals_what_the_reader_of_files_makes_of_it() -> None:
    start = PUBLIC.index("[**Known firstname")
    end = PUBLIC.index(" He is well")
    (from_file,) = read_passages(json.dumps({"text": PUBLIC[start:end]}).encode()).passages
    (passage,) = public_passages(PUBLIC, note_id="n1", owner=None)
    assert (passage.left, passage.slots, passage.separator, passage.right) == (
        from_file.left, from_file.slots, from_file.separator, from_file.right,
    )  # fmt: skip


def test_the_register_says_whose_a_name_is() -> None:
    note = paired()
    (pattern,) = patterns_of(note, people={"patient:1": ("Jonathan", "Smith")})
    assert (pattern.first, pattern.last, pattern.person) == ("Jonathan", "Smith", "patient:1")
    nobody = NotePair("n1", PRIVATE, PUBLIC, note.pieces, names=())
    assert list(patterns_of(nobody)) == []
    unknown = NotePair("n1", PRIVATE, PRIVATE)
    assert [(p.first, p.last, p.role) for p in patterns_of(unknown)] == [("John", "Smith", "")]


def read_lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def test_patterns_of_a_built_corpus_are_their_patients(tmp_path: Path) -> None:
    note = (
        "Attending:[**First Name4 (NamePattern1) **] [**Last Name (NamePattern1) 7**]\nHPI: "
        "[**Known firstname 1**] [**Known lastname 2**] is a [**Age over 90 **] year old lady. "
        "Seen [**2177-3-5**]. Ok. Ms. [**Known lastname 2**] is well."
    )
    rows = [{"note_id": str(i), "patient_id": f"p{i // 2}", "text": note} for i in range(8)]
    (tmp_path / "n.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    build_corpus(open_notes(tmp_path / "n.jsonl"), out=tmp_path / "out", seed=1)
    private, public, truth, people = (
        read_lines(tmp_path / "out" / f"{name}.jsonl")
        for name in ("private", "public", "truth", "people")
    )
    pairs = [
        pair_from_truth(t, note_id=str(a["note_id"]), private=str(a["text"]), public=str(b["text"]))
        for a, b, t in zip(private, public, truth, strict=True)
    ]
    patterns = [pattern for pair in pairs for pattern in patterns_of(pair)]
    by_key = {p["identity"]: (p["first"], p["last"]) for p in people}
    assert [by_key[p.person] for p in patterns] == [(p.first, p.last) for p in patterns]
    assert {p.passage.right for p in patterns} == {" is a year old lady. Seen . Ok. Ms. is well."}
    total = coverage(pairs)
    assert (total.n_mentions, total.n_by_role, total.n_elsewhere) == (8, (("patient", 8),), 8)


def test_patterns_of_registered_patients(tmp_path: Path) -> None:
    private = "Jane Roe is a 45-year-old lady, born 2/3/1970. Her sister Ann Roe called."
    public = "[FIRST] [LAST] is a 45-year-old lady, born [DATE]. Her sister [FIRST] [LAST] called."
    values = ("Jane", "Roe", "2/3/1970", "Ann", "Roe")
    places = zip(values, ("first", "last", "birth", "first", "last"), (0, 0, 1, 2, 2), strict=True)
    mentions, at = [], 0
    for (value, kind, number), place in zip(
        places, re.finditer(r"\[[A-Z]+\]", public), strict=True
    ):
        at = private.index(value, at)
        mentions.append({
            "start": at, "stop": at + len(value), "public_start": place.start(),
            "public_stop": place.end(), "kind": kind, "form": "full", "mention": number,
            "patient_ids": ["p9"], "is_own": number < 2,
        })  # fmt: skip
        at += len(value)
    record = {"note_id": "n", "patient_id": "p1", "mentions": mentions}
    pair = pair_from_register(record, note_id="n", private=private, public=public)
    assert [name.person for name in pair.names or ()] == ["p1", "p9"]
    (pattern,) = patterns_of(pair)
    assert (pattern.person, pattern.first, pattern.last) == ("p1", "Jane", "Roe")
    assert pattern.passage.right == " is a 45-year-old lady, born . Her sister called."
    assert pair_from_register(None, note_id="n", private="x", public="x").names == ()


def test_equal_patterns_are_one_passage() -> None:
    patterns = [*patterns_of(paired()), *patterns_of(paired())]
    assert [p.passage_id for p in passages_of(patterns)] == ["n1-1"]


def test_coverage_adds_up_over_notes() -> None:
    text = "The patient is a 4 yo boy. Jane Roe, 45 yo F. John Smith left."
    other = NotePair("n2", text, "", (), (TrueName(47, 57, "p", "patient"),))
    total = coverage([paired(), other])
    assert total == coverage_of(paired()) + coverage_of(other) + NO_NOTES
    assert (total.n_notes, total.n_notes_with_mention, total.n_mentions, total.n_full) == (
        2,
        2,
        2,
        2,
    )
    assert dict(total.by_form) == {"is_a": 1, "comma": 1} and dict(total.by_reason)["generic"] == 1
    assert total.n_by_role == (("patient", 1),) and total.n_of_nobody == 1
    assert (total.n_true_names, total.n_true_names_mentioned, total.n_elsewhere) == (2, 1, 1)


def test_offsets_map_through_pieces_of_any_length() -> None:
    private = "A. Jo Li is a 45-year-old man on 1/1. Well."
    public = "A. [**First Name**] [**Last Name**] is a 45-year-old man on [**1-1**]. Well."
    pieces = (Piece(3, 5, 3, 19), Piece(6, 8, 20, 35), Piece(33, 36, 60, 69))
    (pattern,) = patterns_of(NotePair("n", private, public, pieces), n_sentences=2)
    assert pattern.passage.right == " is a 45-year-old man on . Well."


def test_the_demo_corpus_gives_tables_3_and_4_of_the_paper() -> None:
    pool = us_pool()
    names = list(zip(pool.first, pool.last, strict=False))[:130]
    hospital = demo_notes(names, staff=["Archer"], n_notes=400, seed=5)
    known = {fold_name(part) for name in names for part in name}
    patterns = [
        pattern
        for number, note in enumerate(hospital.notes)
        for pattern in patterns_of(NotePair(str(number), note, note), known=known)
    ]
    positives, n_patterns = positives_of(patterns)
    assert {*zip(positives.first, positives.last, strict=True)} == set(names)
    assert dict(count_table(n_patterns).rows) == dict(PATTERNS_PER_NAME)
    mentions = count_table(n or 0 for n in positives.n_mentions)
    assert dict(mentions.rows) == dict(MENTIONS_PER_NAME)
    assert (mentions.n_names, mentions.n_total, count_table(n_patterns).n_total) == (130, 232, 158)
