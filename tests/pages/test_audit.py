"""The page New audit through Streamlit's own tester: three steps, plan, start."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from audit import demo
from audit.attack.question import PosteriorSettings, SamplingSettings
from audit.jobs import service
from audit.models.registry import VARIABLE
from audit.names.lists import all_names, keep_names, list_passages, load_names
from audit.run import AuditTask
from audit.task import Question
from cache.store import Store
from tests.models.make_causal import make_adapter, make_causal
from tests.models.make_models import WORDS, make_bert
from tests.pages.make_reports import keep, make_report
from tests.pages.screen import downloads, keys, open_page, parameter, press, texts

PAIR = {"general": "demo:en/general", "hospital": "demo:en/hospital-40"}
ALL = {**PAIR, "names": "demo-en", "passages": "demo-en"}
HEADER = "first_name,last_name,is_member\n"


@pytest.fixture
def submitted_questions(monkeypatch: pytest.MonkeyPatch) -> list[Question]:
    """Questions that were handed over; no job is started."""
    questions: list[Question] = []

    def ask(question: Question, *, owner: str = "") -> Any:
        questions.append(question)
        return SimpleNamespace(job_id="abc123", kind="audit", device="cpu")

    monkeypatch.setattr(service, "ask", ask)
    return questions


def upload(app: AppTest, data: bytes, *, name: str = "names.csv", field: str = "file") -> AppTest:
    """Upload names ("file"), own controls ("own") or passages."""
    uploader = next(
        uploader
        for uploader in app.file_uploader
        if (uploader.key or "").startswith(f"names_{field}_")
    )
    uploader.upload(name, data, "text/csv").run()
    assert not app.exception
    return app


def box(app: AppTest, kind: str, field: str) -> Any:
    return next(element for element in app.get(kind) if (element.key or "").endswith(field))


def plan_of(app: AppTest) -> str:
    return texts(app).split("Plan</h2>", 1)[1]


def read_kept_list(home: Path) -> Any:
    with Store(home) as store:
        return load_names(all_names(store)[0].code, store=store)


@pytest.mark.long
def test_an_empty_page_says_what_each_step_wants() -> None:
    app = open_page("audit")
    page_text = texts(app)
    assert page_text.count("Not chosen</span>") == 2 and page_text.count("Ready</span>") == 1
    assert "No folder of models is registered yet" in page_text
    assert "Step 1: choose two models" in page_text and "Step 2: choose or make a list" in page_text
    assert "choose or upload de-identified passages" not in page_text
    assert "choose or upload de-identified passages" in texts(open_page("audit", scenario="2"))
    assert not keys(app) & {"start", "again_go"}


def test_folders_that_are_empty_or_gone_are_called_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bare").mkdir()
    monkeypatch.setenv(VARIABLE, f"{tmp_path / 'bare'}:{tmp_path / 'gone'}")
    page_text = texts(open_page("audit"))
    assert "bare holds no model" in page_text and "gone is missing" in page_text
    assert "No folder of models is registered" not in page_text


@pytest.mark.long
def test_models_that_do_not_fit_and_models_that_are_refused_say_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "models"
    make_bert(folder / "one")
    make_bert(folder / "two", words=(*WORDS[1:], WORDS[0]))
    (folder / "<b>bad").mkdir()
    (folder / "<b>bad" / "config.json").write_text("{}")
    monkeypatch.setenv(VARIABLE, str(folder))
    app = open_page("audit", general="models/one", hospital="models/two", names="demo-en")
    page_text = texts(app)
    assert (
        "These two models cannot be compared" in page_text and "different tokenizers" in page_text
    )
    assert "models/&lt;b&gt;bad" in page_text and "<b>bad" not in page_text
    assert "models/<b>bad" not in app.selectbox(key="pick_general").options
    assert "start" not in keys(app)
    app.radio(key="language").set_value("ja").run()
    page_text = texts(app)
    assert "one と two：2つのモデルのトークナイザーが異なります：" in page_text
    assert not re.search(r"[a-z]{3,} [a-z]{3,} [a-z]{3,}", re.sub("<[^>]*>", " ", page_text))
    alone = texts(open_page("audit", general="models/one"))
    assert "Vocabulary" in alone and "Compared" not in alone
    same = {"general": "models/one", "hospital": "models/one"}
    assert "Both are the same model" in texts(open_page("audit", **same))


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_adapter_is_chosen_first_and_then_one_of_the_bases_that_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "models"
    base = make_causal(folder / "base")
    make_causal(folder / "deeper", num_hidden_layers=3)
    make_adapter(folder / "lora", base, declared="company/<b>base", target_modules=["q_proj"])
    monkeypatch.setenv(VARIABLE, str(folder))
    app = open_page("audit", hospital="models/lora")
    assert app.selectbox(key="pick_general").options == ["models/base"]
    assert "models/lora" in app.selectbox(key="pick_hospital").options
    page_text = texts(app)
    assert "names company/&lt;b&gt;base as its base" in page_text and "rank 3" in page_text
    app = open_page("audit", general="models/base", hospital="models/lora")
    page_text = texts(app)
    assert "These two models can be compared" in page_text
    shutil.copytree(folder / "lora", tmp_path / "alone" / "lora")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "alone"))
    page_text = texts(open_page("audit", hospital="alone/lora"))
    assert "No listed model has the shapes of this adapter" in page_text


HARD = (
    HEADER
    + """José,Núñez,1
"Jo ""the"" e","Smith, Jr.",1
NA,None,0
=cmd(),<img src=x>,1
![x](http://evil.example/p.png),**y**,0
"""
)


@pytest.mark.long
def test_a_hard_file_is_read_shown_masked_and_kept(home: Path) -> None:
    app = upload(open_page("audit", **PAIR), HARD.encode("utf-8-sig"))
    assert "Read as UTF-8 with BOM." in texts(app)
    assert "The new list</h2>" in texts(app) and "start" in keys(app)
    first_rows = texts(app).split("The first rows as they were read, of 5 names")[-1]
    assert first_rows.split("</table>")[0].count("***") >= 5
    bars = json.loads(app.get("plotly_chart")[0].proto.spec)["data"]
    assert sorted(bar["marker"]["pattern"]["shape"] for bar in bars) == ["", "/"]
    app.toggle(key="show_names").set_value(True).run()
    assert "evil.example" not in texts(app) and "<img" not in texts(app)
    names = list(app.dataframe[0].value["Name"])
    assert len(names) == 5 and all("***" in name for name in names)
    box(app, "text_input", "names_names_title_0").set_value("Ward <3>").run()
    press(app, "keep_names")
    assert read_kept_list(home).line.label == "Ward <3>"
    assert (
        parameter(app, "names")
        == app.selectbox(key="pick_names").value
        == read_kept_list(home).line.code
    )
    assert "keep_names" not in keys(app)


@pytest.mark.long
def test_a_list_shows_how_many_notes_name_somebody_else(home: Path) -> None:
    header = (
        "first_name,last_name,is_member,control_source,control_kind,n_others_first,n_others_last"
    )
    rows = f"{header}\nAnna,Smith,1,held_out,,3,0\nBert,Poe,0,held_out,held_out,,12\n"
    for language, first, last in (
        (
            "en",
            "Notes that name somebody else with the first name",
            "Notes that name somebody else with the last name",
        ),
        ("ja", "同じ名のほかの人が書かれた記録の数", "同じ姓のほかの人が書かれた記録の数"),
    ):
        app = upload(open_page("audit", lang=language), rows.encode())
        app.toggle(key="show_names").set_value(True).run()
        table = app.dataframe[0].value
        assert (table[first].fillna(-1).tolist(), table[last].tolist()) == ([3, -1], [0, 12])
    plain = upload(open_page("audit"), (HEADER + "Anna,Smith,1\n").encode())
    plain.toggle(key="show_names").set_value(True).run()
    assert not [name for name in plain.dataframe[0].value if "somebody else" in name]


@pytest.mark.long
def test_remarks_and_refusals_are_told_by_row() -> None:
    app = upload(open_page("audit", **ALL), (HEADER + "Anna,Smith,1\n\nAnna,Smith,1\n").encode())
    assert "The name is that of row 2; left out." in texts(app)
    upload(app, (HEADER + "Anna,Smith\n").encode(), name="Anna Smith.csv")
    page_text = texts(app)
    assert "names, row 2: The row has 2 cells where the header has 3." in page_text
    assert "Anna" not in page_text
    assert not keys(app) & {"keep_names", "start"}  # nor is the list that was chosen before asked


@pytest.mark.long
def test_a_guessed_kind_of_control_is_said_and_kept_with_the_list(home: Path) -> None:
    guessed = (HEADER + "Anna,Smith,1\nBert,Smith,0\nUdo,Zorn,0\n").encode()
    app = upload(open_page("audit", **PAIR), guessed)
    sentence = "The list does not say the kind of 2 controls. It was worked out, once,"
    assert sentence in texts(app) and "1 easy, 1 hard, 0 recombined" in texts(app)
    press(app, "keep_names")
    assert sentence in texts(app)
    assert read_kept_list(home).candidates.is_kind_guessed == (False, True, True)


@pytest.mark.long
def test_a_file_and_drawn_controls_become_a_list(home: Path) -> None:
    app = open_page("audit", **PAIR)
    app.number_input(key="names_draw_easy_0").set_value(5).run()
    upload(app, b"name\nMary Smith\nAnn Lee\n")
    assert "Controls are drawn against members, and the list has none." in texts(app)
    upload(app, (HEADER + "Mary,Smith,1\nAnn,Lee,1\n").encode())
    app.number_input(key="names_draw_hard_0").set_value(4).run()
    press(app, "keep_names")
    candidates = read_kept_list(home).candidates
    assert candidates.is_member == (True,) * 2 + (False,) * 9
    assert candidates.control_kind == ("",) * 2 + ("easy",) * 5 + ("hard",) * 4
    assert app.number_input(key="names_draw_easy_1").value == 0


@pytest.mark.long
def test_what_is_new_is_kept_when_the_page_is_left_or_the_audit_starts(
    home: Path, submitted_questions: list[Question]
) -> None:
    app = upload(open_page("audit", **PAIR), (HEADER + "Mary,Smith,1\nAnn,Lee,0\n").encode())
    app.switch_page("../method.py").run()
    app.switch_page("../audit.py").run()
    code = read_kept_list(home).line.code
    assert (parameter(app, "names"), len(read_kept_list(home).candidates)) == (code, 2)
    upload(app, (HEADER + "Udo,Zorn,1\nAnn,Lee,0\nBo,Ek,0\n").encode())
    press(app, "start")
    request = AuditTask.from_order(submitted_questions[0].order).request
    assert request.candidates == read_kept_list(home).candidates and len(request.candidates) == 3
    assert parameter(app, "names") == read_kept_list(home).line.code != code


@pytest.mark.long
def test_passages_are_checked_shown_escaped_and_kept(home: Path) -> None:
    data = b'{"text": "<img src=x> [NAME] came.", "name_id": 0}\n{"text": "nothing here"}\n'
    app = open_page("audit", **PAIR, names="demo-en")
    upload(app, data, name="Anna Smith.jsonl", field="passages")
    page_text = texts(app)
    assert "1 passages with a place for a name; 1 rows left out; read as UTF-8." in page_text
    assert re.search("&lt;img src=x&gt; <mark [^>]*>name</mark> came.", page_text)
    assert "The text has no place for a full name; left out." in page_text
    assert parameter(app, "scenario") == "2" and "New list · 1 passages" in plan_of(app)
    press(app, "keep_passages")
    with Store(home) as store:
        assert parameter(app, "passages") == list_passages(store)[0].code
    assert "Anna" not in texts(app)
    assert "The line is not JSON." in texts(
        upload(open_page("audit"), b"{", field="passages", name="x.json")
    )


@pytest.mark.long
def test_what_is_left_out_of_names_and_of_passages_is_told_on_one_page() -> None:
    app = upload(open_page("audit", **PAIR), (HEADER + "Bo,Ek,1\nBo,Ek,1\n").encode())
    data = b'{"text": "[NAME] came."}\n{"text": "nothing here"}\n'
    page_text = texts(upload(app, data, name="x.jsonl", field="passages"))
    assert "The name is that of row 2; left out." in page_text
    assert "The text has no place for a full name; left out." in page_text


@pytest.mark.long
def test_the_plan_is_that_of_the_question_which_start_hands_over(
    submitted_questions: list[Question],
) -> None:
    app = open_page("audit", **ALL)
    request = demo.DemoTask().request(2)
    assert request.audit_digest() in plan_of(app)
    assert "Demo hospital, invented · 390 names" in plan_of(app)
    assert "--inputs=2000" in app.code[-1].value
    assert {"names_csv", "passages_jsonl"} <= set(downloads(app))
    press(app, "start")
    assert [question.digest for question in submitted_questions] == [request.audit_digest()]
    assert {key: parameter(app, key) for key in ALL} == ALL


def needs_of(app: AppTest) -> list[tuple[str, ...]]:
    """Return what the plan says of controls: what is to be seen, needed, there, enough or not."""
    table = next(
        element for element in app.get("html") if "Controls available" in element.proto.body
    )
    rows = re.findall(
        r"<td[^>]*>([^<]*)</td>" * 2 + r"<td[^>]*>([^<]*)<small>([^<]*)</small></td>",
        table.proto.body,
    )
    return [tuple(cell.replace("\N{NO-BREAK SPACE}", " ") for cell in row) for row in rows]


def source_box(app: AppTest) -> Any:
    """Return the question where the controls come from; None where it is not asked."""
    return next((box for box in app.radio if (box.key or "").startswith("source_")), None)


@pytest.mark.long
@pytest.mark.parametrize("answer", [None, "invented", "held_out"])
def test_a_list_is_asked_where_its_controls_come_from_and_says_it_from_then_on(
    home: Path, submitted_questions: list[Question], answer: str | None
) -> None:
    listed = (HEADER + "Mary,Smith,1\nUdo,Zorn,1\nAnn,Lee,0\n").encode()
    app = upload(open_page("audit", **PAIR), listed)
    question = source_box(app)
    assert question.value is None and len(question.options) == 4
    assert "at most “names stand out, membership not shown”" in texts(app)
    assert "It can show at most that names stand out" in plan_of(app)
    if answer is not None:
        question.set_value(answer).run()
        assert "It can show at most" not in plan_of(app) and "Not answered" not in texts(app)
    press(app, "start")
    request = AuditTask.from_order(submitted_questions[0].order).request
    assert request.control_source == (answer or "drawn")
    assert read_kept_list(home).candidates.source == (answer or "")
    assert (source_box(app) is None) == (answer is not None)
    assert (
        f" · controls: {'invented' if answer == 'invented' else 'patients'}" in plan_of(app)
    ) == (answer is not None)


@pytest.mark.long
def test_people_of_the_hospital_are_an_answer_only_where_some_are_listed() -> None:
    app = upload(open_page("audit", **PAIR), b"name\nMary Smith\nAnn Lee\n")
    assert [option[:9] for option in source_box(app).options] == ["The names", "The notes"]
    assert source_box(open_page("audit", **ALL)) is None  # the demo's list says it itself
    assert "The names in the notes were made up by this program" in texts(open_page("audit", **ALL))


@pytest.mark.long
def test_own_controls_are_added_to_a_list_without_truth(
    home: Path, submitted_questions: list[Question]
) -> None:
    own_names = ("name\n" + "".join(f"Own Person{i}\n" for i in range(9)) + "Ann Lee\n").encode()
    app = upload(open_page("audit", **PAIR), own_names, field="own")
    assert "Own controls are added to a list" in texts(app)
    upload(app, b"name\nMary Smith\nAnn Lee\n")
    assert "From the file or the chosen list: 2. Own controls: 9. Drawn: 0." in texts(app)
    assert source_box(app) is None and "none of the training notes names them" in texts(app)
    assert "if these controls are of the same population" in plan_of(app)
    assert needs_of(app)[0][2:] == ("9", "too few")
    press(app, "start")
    candidates = AuditTask.from_order(submitted_questions[0].order).request.candidates
    assert candidates == read_kept_list(home).candidates and candidates.source == "own"
    assert (candidates.is_member.count(None), candidates.control_kind.count("own")) == (2, 9)
    in_notes = (HEADER + "Bo,Ek,1\n").encode()
    assert "1 rows say that the person is in the notes." in texts(
        upload(open_page("audit", **ALL), in_notes, field="own")
    )


@pytest.mark.long
def test_the_plan_says_how_many_controls_are_needed_beside_how_many_there_are() -> None:
    app = open_page("audit", **ALL)
    named = [
        ("One person, by name", "2,599"),
        ("10 people together, by name", "259"),
        ("30 people together, by name", "86"),
    ]
    group, *people = needs_of(app)
    assert group[0].startswith("The group") and group[1:] == ("132", "130", "too few")
    assert people == [(group, needed, "20,000", "enough") for group, needed in named]
    assert "It cannot conclude that none is found" in plan_of(app)


@pytest.mark.long
def test_a_sibling_is_chosen_among_audits_that_asked_the_same(
    submitted_questions: list[Question],
) -> None:
    question = demo.DemoTask().request(2).question()
    general = {"general": {"name": "general", "digest": question["general"]}}
    sibling, own_digest = (
        make_report(2).changed(
            digest=digest * 64,
            question=question,
            models=general | {"hospital": {"name": f"model {digest}", "digest": model}},
        )
        for digest, model in (("a", "e" * 64), ("b", str(question["hospital"])))
    )
    keep(sibling, own_digest)
    app = open_page("audit", **ALL)
    assert len(app.selectbox(key="pick_sibling").options) == 1  # not the hospital's own model
    app.selectbox(key="pick_sibling").select("a" * 12).run()
    assert parameter(app, "sibling") == "a" * 12
    assert "if the sibling&#x27;s audit saw the names" in plan_of(app)
    press(app, "start")
    assert AuditTask.from_order(submitted_questions[0].order).request.sibling == "a" * 64
    app.radio(key="choice_preset").set_value("paper").run()
    assert "does not have the same settings as this one" in texts(app)
    assert "no kept audit fits" in texts(app) and parameter(app, "sibling") == ""


@pytest.mark.long
def test_a_change_of_settings_plans_anew(home: Path, submitted_questions: list[Question]) -> None:
    quick = plan_of(open_page("audit", **ALL))
    app = open_page("audit", **ALL, preset="paper")
    captions = app.radio(key="choice_preset").proto.captions
    assert len(captions) == 3 and captions[2].startswith("30,000 inputs")  # before it is chosen
    assert "10,000 inputs, and 200 of the chain rule." in plan_of(app) != quick
    box(app, "number_input", "_micro_batch").set_value(8).run()
    assert "--micro-batch=8" in app.code[-1].value
    box(app, "selectbox", "_device").select("cpu").run()
    press(app, "start")
    request = AuditTask.from_order(submitted_questions[0].order).request
    assert (request.posterior, request.device) == (PosteriorSettings(micro_batch=8), "cpu")


CAUSAL_PAIR = {
    "general": "demo:en/causal/general",
    "names": "demo-en",
    "passages": "demo-en",
}


@pytest.mark.long
@pytest.mark.parametrize("hospital", ["hospital-20", "adapter-20"])
def test_causal_models_have_settings_of_their_own(
    hospital: str, submitted_questions: list[Question]
) -> None:
    link = {**CAUSAL_PAIR, "hospital": f"demo:en/causal/{hospital}"}
    app = open_page("audit", **link, scenario="1")
    shown = {element.label for kind in ("number_input", "text_area") for element in app.get(kind)}
    assert {"Tokens after the prompt", "Prompt", "Text before every note"} <= shown
    assert not any("MASK" in text or "dropout" in text.lower() for text in shown)
    assert "write documents from left to right" in texts(app)
    assert box(app, "text_area", "_prompt").value == "service : medicine hpi :"
    assert "100 documents, and every name once after the prompt." in plan_of(app)
    box(app, "text_area", "_prompt").set_value("hpi :\n").run()
    press(app, "start")
    request = AuditTask.from_order(submitted_questions[0].order).request
    assert request.settings == SamplingSettings(n_documents=100, prompt="hpi :\n")
    app = open_page("audit", **link, scenario="2", preset="thorough")
    assert "158 passages." in plan_of(app)
    is_marked = "declared base" in app.selectbox(key="pick_general").options[0]
    assert is_marked is (hospital == "adapter-20")
    app = open_page("audit", **link, scenario="2", preset="paper")  # a preset of masked models
    assert parameter(app, "preset") == "quick" and "20 passages." in plan_of(app)


@pytest.mark.long
def test_settings_that_no_run_can_have_say_why_and_lose_nothing(
    submitted_questions: list[Question],
) -> None:
    app = open_page("audit", **ALL, scenario="1")
    box(app, "text_input", "_prompt").set_value("no place for a name").run()
    assert "prompt: has no [MASK]." in texts(app) and "start" not in keys(app)
    assert box(app, "text_input", "_prompt").value == "no place for a name"
    box(app, "text_input", "_prompt").set_value("[MASK] is here").run()
    assert "has no [MASK]." not in texts(app)
    press(app, "start")
    assert (
        AuditTask.from_order(submitted_questions[0].order).request.generation.prompt
        == "[MASK] is here"
    )


@pytest.mark.long
def test_an_audit_that_is_kept_is_opened_and_one_that_runs_is_shown(home: Path) -> None:
    task = AuditTask(request=demo.DemoTask().request(2))
    job = service.ask(task.question())
    app = open_page("audit", **ALL)
    assert "This audit is running or waiting" in texts(app) and "start" not in keys(app)
    assert f"cancel-{job.job_id}" in keys(app)
    press(app, f"cancel-{job.job_id}")
    assert service.job(job.job_id).state == "cancelled"
    assert "start" in keys(app)
    with Store(home) as store:
        store.put_record(f"audit/{task.question().digest}", {})
    app = open_page("audit", **ALL)
    assert "This audit has been done already" in texts(app) and "start" not in keys(app)
    assert "open_answer" in keys(app)


@pytest.mark.long
def test_the_same_again_asks_for_the_new_model_alone(
    home: Path, submitted_questions: list[Question]
) -> None:
    request = demo.DemoTask().request(2)
    request = request.with_(posterior=request.posterior.with_(n_inputs=777), seed=5)
    question = request.question()
    models = {role: {"name": role, "digest": question[role]} for role in ("general", "hospital")}
    models["hospital"]["digest"] = "f" * 64  # no model that is shipped: an audit of one's own
    keep(make_report(2).changed(digest="c" * 64, question=question, models=models))
    app = press(open_page("audit", hospital="demo:en/hospital-40"), "again_go")
    page_text = texts(app)
    assert "Choose only the new hospital model." in page_text
    assert "is not kept on this machine" not in page_text
    picks = {"general": ALL["general"], "names": "demo-en", "passages": "demo-en"}
    assert {key: parameter(app, key) for key in picks} == picks
    assert parameter(app, "hospital") == ""
    app.selectbox(key="pick_hospital").select("demo:en/hospital-40").run()
    press(app, "start")
    assert AuditTask.from_order(submitted_questions[0].order).request.question() == question
    link = {key: parameter(app, key) for key in (*ALL, "like", "preset", "scenario")}
    assert request.audit_digest() in plan_of(open_page("audit", **link))
    assert "names no audit" not in texts(open_page("audit", like="c" * 12))


@pytest.mark.long
def test_the_same_again_says_what_is_not_here_any_more(home: Path) -> None:
    keep(make_report(1))
    with Store(home) as store:
        keep_names(demo.DemoTask().request(1).candidates, label="Other", store=store)
    app = press(open_page("audit"), "again_go")
    page_text = texts(app)
    assert "Its general model is no longer on this machine" in page_text
    assert "Its list of names is not kept on this machine" in page_text
    assert "Its passages" not in page_text
    press(app, "like_off")
    assert parameter(app, "like") == "" and "again_go" in keys(app)
    assert "The audit in the link is not on this" in texts(open_page("audit", like="abcd"))
