"""The job "tagging": what makes two orders one question, and that a stopped one goes on."""

from __future__ import annotations

import json
from itertools import count

import pytest

from audit.cli import main
from audit.deid import tasks
from audit.deid.find import taggers
from audit.deid.find.copies import OUTPUTS
from audit.deid.find.elsewhere import FileTagger
from audit.deid.find.rules import RuleTagger
from audit.deid.find.taggers import KnownTagger
from audit.deid.measure.score_report import SCORES, Source
from audit.deid.measure.scoring import ScoreTask
from audit.deid.redact.policy import ALL_OUT, SAFE_HARBOR, Policy
from audit.deid.redact.release import Release
from audit.deid.sets import tagging
from audit.deid.sets.tagged_sets import INPUT, REGISTER, RESULT, TAGGED_SETS, read_notes
from audit.deid.tasks import NotesToTag, TaggingTask, read_uploads, single_text, tagging_task
from audit.errors import AuditCancelled, AuditError
from audit.home import HOME_VARIABLE
from audit.jobs.service import KINDS
from audit.notes.read import VARIABLE
from audit.notes.spans import TYPES, Span, TaggedDocument
from audit.progress import Progress
from audit.task import SHORT, Contact, queue_of
from pages.ui.state import words_of
from tests.deid.make_scores import given_as

NAMED = "氏名：高橋健一　2024年5月3日 受診。"
DEFAULT, RULES = taggers.list_taggers()
RELEASE = Release()


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    monkeypatch.setenv(VARIABLE, str(tmp_path / "ward"))


def contact(progresses: list[Progress], *, n_asked: int = 10**6) -> Contact:
    """One who listens, and says stop when asked for the n-th time."""
    counter = count(1)
    return Contact(progresses.append, lambda: next(counter) >= n_asked, lambda text: None)


def make_question(notes, *, tagger=RULES, release=RELEASE, title="", policy=ALL_OUT):
    return tagging_task(
        notes, tagger=tagger, release=release, title=title, policy=policy
    ).question()


def many(n: int) -> bytes:
    lines = (json.dumps({"doc_id": f"d{i}", "text": f"{NAMED} {i}"}) for i in range(n))
    return "\n".join(lines).encode()


def test_an_upload_becomes_a_set_and_what_was_handed_in_goes():
    question = make_question(read_uploads([("高橋健一.jsonl", many(5))]), title="Ward")
    order = json.loads(json.dumps(question.order))
    assert question.kind in KINDS and question.audits == () and question.device == SHORT
    assert "高橋" not in question.label + json.dumps(order, ensure_ascii=False)
    folder = TAGGED_SETS.place(order["tagged_id"])
    assert (folder / INPUT).is_file() and not TAGGED_SETS.get(order["tagged_id"]).is_whole
    progresses: list[Progress] = []
    (tagged_id,) = TaggingTask.from_order(order).run(contact(progresses))
    tagged_set = TAGGED_SETS.get(tagged_id)
    assert (
        tagged_set.is_whole
        and tagged_set.n_notes == 5
        and tagged_set.title == "Ward"
        and progresses[-1].share == 1
    )
    for phase in {progress.phase.replace(" ", "_") for progress in progresses}:
        assert words_of("ja").text(f"jobs_stage_tagging_{phase}")
    assert not (folder / INPUT).exists()
    assert all("高橋健一" not in note.released for note in read_notes(tagged_set))
    assert TaggingTask.from_order(order).run(contact([])) == (
        tagged_id,
    )  # killed after it was made


def test_a_note_has_a_lane_of_its_own_and_many_notes_wait_their_turn(tmp_path):
    copying = KnownTagger("trained/" + "a" * 12, "generative", "", "d")
    note, notes = single_text(NAMED, source="pasted"), NotesToTag("uploaded", content=many(9000))
    (tmp_path / "ward").mkdir()
    (tmp_path / "ward" / "notes.csv").write_text(f"id,text\n1,{NAMED}\n", "utf-8")
    file = NotesToTag("registered", file_id="ward/notes.csv")
    encoder = KnownTagger("trained/" + "b" * 12, "token", "", "d")
    pairs = (
        (note, DEFAULT),
        (notes, encoder),
        (notes, DEFAULT),
        (file, RULES),
        (file, DEFAULT),
        (note, copying),
    )
    questions = [make_question(source, tagger=tagger) for source, tagger in pairs]
    device = queue_of("auto")
    assert [question.device for question in questions] == [
        SHORT,
        device,
        SHORT,
        "cpu",
        "cpu",
        device,
    ]
    assert [question.order["device"] for question in questions] == [
        "cpu",
        "auto",
        "cpu",
        "auto",
        "auto",
        "auto",
    ]


def test_what_makes_another_question(tmp_path):
    notes = single_text(NAMED, source="pasted")
    question = make_question(notes)
    same = make_question(notes, release=Release(seed=9), title="T")
    assert question.digest == same.digest and question.order == same.order
    variants = [make_question(notes, release=Release(mode="mask"))]
    variants.append(make_question(single_text(NAMED + "1", source="pasted")))
    ward = tmp_path / "ward"
    ward.mkdir()
    (ward / "notes.csv").write_text(f"id,text,body\n1,{NAMED},x\n", "utf-8")
    file = NotesToTag("registered", file_id="ward/notes.csv")
    variants.append(make_question(file))
    body = NotesToTag("registered", file_id="ward/notes.csv", columns=(("text", "body"),))
    variants.append(make_question(body))
    (ward / "notes.csv").write_text(f"id,text,body\n2,{NAMED}+,x\n", "utf-8")
    variants.append(make_question(file))
    variants.append(make_question(notes, policy=SAFE_HARBOR))
    assert make_question(notes, policy=Policy(title="mine")).digest == question.digest
    assert len({question.digest, *(variant.digest for variant in variants)}) == 7
    (tagged_id,) = TaggingTask.from_order(variants[-2].order).run(contact([]))
    assert TAGGED_SETS.get(tagged_id).source == "registered"
    assert [note.document.doc_id for note in read_notes(TAGGED_SETS.get(tagged_id))] == ["2"]


def test_a_stopped_job_goes_on_and_gives_the_same(monkeypatch):
    full_order = make_question(
        read_uploads([("n.jsonl", many(300))]), release=Release(mode="mask")
    ).order
    TaggingTask.from_order(full_order).run(contact([]))
    monkeypatch.setattr(tagging, "_BATCH_NOTES", 20)
    order = make_question(read_uploads([("n.jsonl", many(300))])).order
    with pytest.raises(AuditCancelled):
        TaggingTask.from_order(order).run(contact([], n_asked=15))
    assert not TAGGED_SETS.get(order["tagged_id"]).is_whole
    n_tagged = 0

    class Counting(RuleTagger):
        def tag(self, texts):  # type: ignore[no-untyped-def]
            nonlocal n_tagged
            n_tagged += len(texts)
            return super().tag(texts)

    monkeypatch.setattr(tasks, "load_tagger", lambda tagger_id, **options: Counting())
    (tagged_id,) = TaggingTask.from_order(order).run(contact([]))
    assert 0 < n_tagged < 300
    resumed_set, full_set = (TAGGED_SETS.get(code) for code in (tagged_id, full_order["tagged_id"]))
    assert resumed_set.spans_path.read_bytes() == full_set.spans_path.read_bytes()


def test_another_tagger_or_a_lost_input_is_said(monkeypatch):
    order = make_question(single_text(NAMED, source="pasted")).order
    dates_tagger = RuleTagger(groups=("dates",))
    monkeypatch.setattr(tasks, "load_tagger", lambda tagger_id, **options: dates_tagger)
    with pytest.raises(AuditError, match="The tagger has changed"):
        TaggingTask.from_order(order).run(contact([]))
    (TAGGED_SETS.place(order["tagged_id"]) / INPUT).unlink()
    with pytest.raises(AuditError, match="handed in are gone"):
        TaggingTask.from_order(order).run(contact([]))


def test_a_set_keeps_its_policy_and_is_scored_under_it():
    text = "A 72-year-old man. MRN: 4471902"
    notes = single_text(text, source="pasted")
    order = make_question(notes, policy=SAFE_HARBOR).order
    (tagged_id,) = TaggingTask.from_order(order).run(contact([]))
    tagged_set = TAGGED_SETS.get(tagged_id)
    assert tagged_set.policy == SAFE_HARBOR and tagged_set.census["left"] == {"age": 1, "sex": 1}
    assert [note.released for note in read_notes(tagged_set)] == ["A 72-year-old man. MRN: [ID]"]
    spans = (Span(2, 13, TYPES[1]), Span(14, 17, TYPES[1]), Span(24, 31, TYPES[3]))
    task = ScoreTask(
        gold=given_as([TaggedDocument("1", text, spans)]),
        n_replicates=2,
        predicted=Source(kind="tagged", ref=tagged_id),
    )
    (score_id,) = ScoreTask.from_order(task.question().order).run(contact([]))
    score = SCORES.get(score_id)
    counted = score.summary.criteria["strict"].together
    assert (counted.n_gold, counted.n_missed) == (1, 0) and score.policy == SAFE_HARBOR


PATIENTS = "patient_id,氏名\np,高橋 健一\n".encode()
OF_ONE = read_uploads(
    [("n.jsonl", b'{"patient_id": "p", "text": "\xe5\x81\xa5\xe4\xb8\x80\xe3\x81\xaf"}')]
)


@pytest.mark.parametrize("is_given", [True, False])
def test_a_register_is_part_of_the_question_and_one_that_was_handed_in_goes(tmp_path, is_given):
    (tmp_path / "ward").mkdir()
    (tmp_path / "ward" / "patients.csv").write_bytes(PATIENTS)
    register = (
        NotesToTag("uploaded", content=PATIENTS)
        if is_given
        else NotesToTag("registered", file_id="ward/patients.csv")
    )
    tasks_of = [
        tagging_task(OF_ONE, tagger=RULES, release=RELEASE, register=chosen_register)
        for chosen_register in (register, None)
    ]
    assert len({task.question().digest for task in tasks_of}) == 2
    order = json.loads(json.dumps(tasks_of[0].question().order))
    assert "高橋" not in json.dumps(order, ensure_ascii=False)
    folder = TAGGED_SETS.place(order["tagged_id"])
    assert (folder / REGISTER).is_file() == is_given
    TaggingTask.from_order(order).run(contact([]))
    tagged_set = TAGGED_SETS.get(order["tagged_id"])
    assert [note.released for note in read_notes(tagged_set)] == ["【氏名】は"]
    assert tagged_set.census["register"]["n_patients"] == 1 and not (folder / REGISTER).exists()
    assert (tmp_path / "ward" / "patients.csv").exists()


def test_a_register_that_is_not_understood_keeps_nothing():
    register = NotesToTag("uploaded", content=b"patient_id,shoe\np,9\n")
    with pytest.raises(AuditError, match="not understood: 2"):
        tagging_task(OF_ONE, tagger=RULES, release=RELEASE, register=register)
    assert TAGGED_SETS.all() == ()


NOTES = f"""note_id,patient_id,text
a,1,{NAMED}
b,1,Patient: John Smith. He was seen on 04/11/2024 with Ann.
c,2,Mrs. Linda Brown called on May 3 2024.
a,2,特記なし。
""".encode()
COPIES = [
    {"doc_id": "a", "output": NAMED.replace("高橋健一", "<識別子>高橋健一</識別子>")},
    {"doc_id": "b", "output": "Patient: <identifier>John Smith</identifier>. He was seen"},
    {"doc_id": "高橋", "output": "x"},
]


def write_copies(copies=COPIES) -> bytes:
    return "".join(json.dumps(copy, ensure_ascii=False) + "\n" for copy in copies).encode()


def copies_task(
    copies=None, *, beside=(), notes=None, release=RELEASE, uncopied="fallback"
) -> TaggingTask:
    """Request the release of notes by copies that another system wrote, as the page does."""
    tagger_id = "+".join((OUTPUTS, *beside))
    return tagging_task(
        notes or read_uploads([("n.csv", NOTES)]),
        tagger=taggers.find_tagger(tagger_id, elsewhere=FileTagger({})),
        release=release,
        uncopied=uncopied,
        outputs=write_copies() if copies is None else copies,
    )


@pytest.mark.parametrize(
    ("beside", "uncopied", "mode"),
    [
        ((), "fallback", "placeholder"),
        (("default",), "withhold", "mask"),
        (("rules", "default"), "fallback", "mask"),
    ],
)
def test_copies_of_another_system_are_released_with_the_bytes_of_the_command(
    tmp_path, capsys, beside, uncopied, mode
):
    for name, content in (("n.csv", NOTES), ("o.jsonl", write_copies())):
        (tmp_path / name).write_bytes(content)
    options = ["--uncopied", uncopied, "--mode", mode, "--out", str(tmp_path / "out")]
    for name in beside:
        options += ["--beside", name]
    files = ["--notes", str(tmp_path / "n.csv"), "--outputs", str(tmp_path / "o.jsonl")]
    assert main(["deid", "tag", *files, *options, "--json"]) == 0
    stderr = capsys.readouterr().err
    task = copies_task(beside=beside, uncopied=uncopied, release=Release(mode=mode))
    order = json.loads(json.dumps(task.question().order))
    assert "高橋" not in json.dumps(order, ensure_ascii=False) and task.question().device == SHORT
    folder = TAGGED_SETS.place(task.tagged_id)
    assert (folder / OUTPUTS).stat().st_mode & 0o777 == 0o600
    TaggingTask.from_order(order).run(contact([]))
    written = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert {path.name: path.read_bytes() for path in (folder / RESULT).iterdir()} == written
    tagged_set = TAGGED_SETS.get(task.tagged_id)
    assert tagged_set.census["outputs"] == {
        "n_notes_without_copy": 2,
        "n_copies_without_note": 1,
        "lines_without_note": [3],
    }
    assert "2 notes have no copy" in stderr and "left out: lines 3." in stderr
    assert tagged_set.n_notes == (1 if uncopied == "withhold" else 4)
    assert not (folder / OUTPUTS).exists() and not (folder / INPUT).exists()
    assert copies_task(beside=beside, uncopied=uncopied, release=Release(mode=mode)) == task
    assert copies_task(write_copies(COPIES[:2])).tagged_id != task.tagged_id


def test_a_stopped_release_of_copies_goes_on_and_reads_only_the_rest(monkeypatch):
    lines = [json.loads(line) for line in many(40).splitlines()]
    copies = write_copies([{"doc_id": line["doc_id"], "output": line["text"]} for line in lines])
    notes = read_uploads([("n.jsonl", many(40))])
    whole_task = copies_task(copies, notes=notes, release=Release(mode="mask"))
    whole_task.run(contact([]))
    monkeypatch.setattr(FileTagger, "n_notes_at_once", 8)
    read, names = FileTagger.read, list[str]()

    def read_and_count(self, notes, **options):
        readings = read(self, notes, **options)
        names.extend(note.doc_id for note in notes)
        return readings

    monkeypatch.setattr(FileTagger, "read", read_and_count)
    task = copies_task(copies, notes=notes)
    with pytest.raises(AuditCancelled):
        task.run(Contact(lambda progress: None, lambda: len(names) >= 16, lambda text: None))
    folder = TAGGED_SETS.place(task.tagged_id)
    assert not TAGGED_SETS.get(task.tagged_id).is_whole and (folder / OUTPUTS).is_file()
    progresses: list[Progress] = []
    task.run(contact(progresses))
    assert names == [line["doc_id"] for line in lines], "no note is read twice"
    assert progresses[-1].share == 1
    whole_set, resumed_set = (TAGGED_SETS.get(t.tagged_id) for t in (whole_task, task))
    assert resumed_set.spans_path.read_bytes() == whole_set.spans_path.read_bytes()


@pytest.mark.parametrize(
    ("copies", "why"),
    [
        (b"", "copies: The file is empty"),
        (b" \n\n", "copies: There is no note in it"),
        (write_copies() + b"not json \xe9\xab\x98\n", "copies, line 4"),
        (write_copies() + b'{"doc_id": "d"}\n', "copies, line 4.*output.* is missing"),
        (write_copies(COPIES[:1] * 2), "copies, line 2: This note"),
        (b'{"doc_id": "a", "output": ["John Smith"]}', "copies, line 1"),
        (b"[" * 100_000, "copies, line 1"),
        (b'{"doc_id": "a", "output": "\\ud800"}', "copies, line 1"),
        (b"PK\3\4" + b"0" * 99, "copies: This is a zip archive"),
        (b'{"doc_id": "a", "output": "\0"}', "copies: The file holds NUL bytes"),
        (write_copies(COPIES[2:]), "copies: The two files have no note in common"),
    ],
)
def test_copies_that_cannot_be_used_are_refused_and_nothing_is_kept(copies, why):
    with pytest.raises(AuditError, match=why) as refusal:
        copies_task(copies)
    assert "高橋" not in refusal.value.message and "Smith" not in refusal.value.message
    assert TAGGED_SETS.all() == () and not [*TAGGED_SETS.home().glob("*")]


def test_what_copies_say_with_odd_characters_or_foreign_tags_is_no_danger():
    outputs = ["<identifier>", "</a><b></識別子>" * 50, "\u202e<識別子>高橋", "<" * 9999]
    for output in outputs:
        task = copies_task(json.dumps({"doc_id": "a", "output": output}).encode())
        task.run(contact([]))
        tagged_set = TAGGED_SETS.get(task.tagged_id)
        assert tagged_set.n_notes == 4 and tagged_set.copies.n_uncopied_notes == 4
        assert not any("高橋健一" in note.released for note in read_notes(tagged_set))


def test_copies_go_with_their_set_and_a_registered_file_without_any_of_them_fails(tmp_path):
    task = copies_task()
    folder = TAGGED_SETS.place(task.tagged_id)
    (folder / OUTPUTS).write_bytes(write_copies(COPIES[1:]))
    with pytest.raises(AuditError, match="The tagger has changed"):
        task.run(contact([]))
    (folder / OUTPUTS).unlink()
    with pytest.raises(AuditError, match="handed in are gone"):
        task.run(contact([]))
    TAGGED_SETS.forget(task.tagged_id)
    assert copies_task().tagged_id == task.tagged_id and (folder / OUTPUTS).is_file()
    TAGGED_SETS.forget(task.tagged_id)
    assert not folder.exists()
    (tmp_path / "ward").mkdir()
    (tmp_path / "ward" / "notes.csv").write_bytes(NOTES)
    file = NotesToTag("registered", file_id="ward/notes.csv")
    with pytest.raises(AuditError, match="no note in common"):
        copies_task(write_copies(COPIES[2:]), notes=file).run(contact([]))
