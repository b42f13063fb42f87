"""The demo hospital: its notes, its vocabulary, and all of it made again from nothing."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from audit.corpus.examine import PatternTally, find_patterns
from audit.corpus.truth import NoteTruth, Place
from audit.demo import DemoTask, report_summary
from audit.errors import AuditError
from audit.home import DEMO_HOSPITAL
from audit.models.adapters import attach_adapter, read_adapter
from audit.models.inspect import compute_model_digest
from audit.models.load import load_model, load_pair
from audit.names.pools import us_pool
from audit.notes.mentions import find_mentions
from audit.report.audit_store import keep_demo_digests, read_demo_digests
from audit.report.report import kept_audit
from audit.run import run_audit
from audit.text import fold_name
from benchmarks import demo_hospital as demo_notes
from benchmarks.demo_causal import CausalRecipe, build_causal_demo
from benchmarks.demo_hospital import ENGLISH, JAPANESE, Recipe, build_demo
from cache.store import Store
from tests.corpus.make_notes import lines

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "kart_tables.json").read_text())
CAUSAL = DEMO_HOSPITAL / "en" / "causal"
TINY = {"n_general_documents": 60, "n_general_steps": 3, "width": 16, "exposures": (0.2,)}


def test_tables_3_and_4_of_the_paper_are_found_in_the_notes_and_the_passages_stand_there() -> None:
    pool = us_pool()
    names = list(zip(pool.first, pool.last, strict=False))[:130]
    hospital = demo_notes.demo_notes(names, staff=["Archer"], n_notes=400, seed=5)
    name_parts = {fold_name(part) for name in names for part in name}
    tally = PatternTally()
    for note in hospital.notes:
        mentions = find_mentions(note, name_parts=name_parts)
        places = tuple(
            Place(
                m.name_start,
                m.name_end,
                m.name_start,
                m.name_end,
                "",
                "full",
                "patient",
                group=number,
            )
            for number, m in enumerate(mentions)
        )
        for pattern in find_patterns(NoteTruth(note, note, places), mentions):
            tally.add((pattern.first, pattern.last), pattern.text, note=0)
    for table, name in (
        (tally.pattern_table, "table3_distinct_patterns_per_name"),
        (tally.mention_table, "table4_occurrences_per_name"),
    ):
        assert dict(table) == {int(k): v for k, v in GOLDEN[name].items()}
    assert tally.members(names).n_mentions == tuple(hospital.n_mentions)
    for planned in hospital.patterns:
        first, last = names[planned.owner]
        passage = f"{planned.left}{first} {last}{planned.right}"
        assert any(passage in note for note in hospital.notes)
        assert demo_notes.passage_text(planned) == f"{planned.left}[NAME]{planned.right}"
        assert planned.right.startswith(" is a ")
        assert planned.right.replace("dr .", "dr").count(" .") == 5
    with pytest.raises(ValueError, match="the tables ask for 130"):
        demo_notes.demo_notes(names[:-1], staff=["Staff"], seed=0)


@pytest.mark.long
@pytest.mark.parametrize(
    ("recipe", "general"), [(ENGLISH, "0fb9d05ce97327e6"), (JAPANESE, "fdc77d15a7de6eb3")]
)
def test_the_recipe_makes_what_is_shipped_and_models(
    recipe: Recipe, general: str, tmp_path: Path
) -> None:
    reports: list[tuple[str, int]] = []
    folder = tmp_path / recipe.language
    build_demo(
        folder,
        recipe=replace(recipe, **TINY),
        seed=0,
        report=lambda who, point: reports.append((who, point.step)),
    )
    shipped = DEMO_HOSPITAL / recipe.language
    for name in ("names.csv", "passages.jsonl", "notes.jsonl", "models/general/tokenizer.json"):
        assert (folder / name).read_bytes() == (shipped / name).read_bytes()
    models = {path.name for path in (folder / "models").iterdir()}
    assert models == {"general", "hospital-0.2"} | ({"null"} if recipe.with_null else set())
    pair = load_pair(folder / "models" / "general", folder / "models" / "hospital-0.2")
    assert pair.general.digest != pair.hospital.digest
    notes = [line["text"] for line in lines(shipped / "notes.jsonl")]
    parts = [("Mary", "Smith"), ("John", "Smith")] if recipe is ENGLISH else [("太郎", "山田")]
    names = [parts[i % len(parts)] for i in range(130 if recipe is ENGLISH else 20)]
    texts = demo_notes.demo_general_text(names, language=recipe.language, seed=0)
    assert hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16] == general
    tokenizer = pair.general.tokenizer
    for text in (*notes, *texts):
        assert tokenizer.unk_token not in tokenizer.tokenize(text)
    if recipe is JAPANESE:  # the same seed makes the same models, another others
        for seed in (0, 1):
            build_demo(tmp_path / str(seed), recipe=replace(recipe, **TINY), seed=seed)
            digest = compute_model_digest(tmp_path / str(seed) / "models" / "hospital-0.2")
            assert (digest == pair.hospital.digest) == (seed == 0)
    assert reports[:4] == [("general", step) for step in (0, 1, 2, 3)]
    assert {name for name, _ in reports} == {"general", "hospital"} | models & {"null"}


@pytest.mark.long
def test_the_recipe_makes_causal_models_and_adapters(tmp_path: Path) -> None:
    tiny = CausalRecipe(
        n_general_documents=400,
        n_general_steps=3,
        epochs=(0.1, 0.2),
        adapter_epochs=(0.1,),
        n_vocabulary=1000,
        width=16,
        inner_width=24,
        n_layers=1,
    )
    rows = build_causal_demo(tmp_path / "a", seed=0, recipe=tiny)
    names = ["general", "hospital-0.1", "hospital-0.2", "adapter-0.1", "null"]
    assert [row["model"] for row in rows] == names
    assert all(row["held_out"] < row["held_out_before"] for row in rows)
    assert build_causal_demo(tmp_path / "a", seed=0, recipe=tiny) == []
    build_causal_demo(tmp_path / "b", seed=0, recipe=tiny)
    files = sorted(path.relative_to(tmp_path / "a") for path in (tmp_path / "a").glob("*/*"))
    assert len(files) > 2 * len(names)
    for file in files:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_the_shipped_causal_models_are_of_one_base() -> None:
    requests = DemoTask(is_causal=True, all_of_them=True).requests()
    assert list(requests)[:2] == ["continuation", "sampling"]
    assert (
        requests["continuation null"].sibling == requests["continuation hospital-5"].audit_digest()
    )
    folders = {request.hospital.name: request.hospital for request in requests.values()}
    assert folders.keys() == {path.name for path in CAUSAL.iterdir()} - {"general"}
    general = load_model(CAUSAL / "general")
    assert 0.9e6 < general.n_parameters < 1e6 and general.config.is_causal
    digests = {general.digest}
    for name, folder in folders.items():
        if name.startswith("adapter"):
            adapter = read_adapter(folder)
            assert adapter.base == "general" and len(adapter.changes) == 21
            attach_adapter(load_model(CAUSAL / "general").model, adapter)
            digests.add(adapter.digest())
        else:
            digests.add(load_pair(CAUSAL / "general", folder).hospital.digest)
    assert len(digests) == 7
    assert sum(path.stat().st_size for path in CAUSAL.rglob("*") if path.is_file()) < 11e6
    for text in ("service : oncology hpi : Zoé O'Neil is", "花"):
        ids = general.tokenizer(text)["input_ids"]
        assert ids[0] == general.tokenizer.bos_token_id
        assert general.tokenizer.decode(ids[1:]) == text
    with pytest.raises(AuditError, match="in English only"):
        DemoTask(is_causal=True, language="ja")


@pytest.mark.long
def test_the_shipped_japanese_demo_is_audited_with_names_of_several_pieces(tmp_path: Path) -> None:
    request = DemoTask(n_inputs=100).request(2, language="ja")
    with Store(tmp_path) as store:
        report = run_audit(request, store=store)
        assert read_demo_digests(store) == {}
        keep_demo_digests({"masked_lm ja": report.digest}, store=store)
        assert read_demo_digests(store) == {"masked_lm ja": report.digest}
    assert max(report.names["n_pieces"]) > 2
    assert report.verdict.state == "leak_found"
    assert kept_audit(report).is_demo
    summary = json.loads(json.dumps(report_summary(report), allow_nan=False))
    easy = report.measures.strata["easy"]
    counts = summary["strata"]["easy"]["rules"]["difference_above_zero"]
    assert counts["tp"] == easy.rules["difference_above_zero"].confusion.tp
    assert (
        summary["strata"]["easy"]["scores"]["residual"]["auc"] == easy.scores["residual"].auc.value
    )
    assert summary["strata"]["easy"]["trivial_guesses"]["always_member"]["recall"] == 1
    assert (summary["scenario"], summary["general"], summary["hospital"]) == (
        2,
        "general",
        "hospital-40",
    )
