"""Scenario 2 with little to go on: only members, one passage, no owners, no name to be spelled."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from audit.attack.attacks import with_reference
from audit.models.load import load_pair
from audit.names.candidates import make_candidates
from audit.names.pools import us_pool
from audit.names.spelling import piece_counter
from audit.report.report import kept_inspection
from audit.run import run_audit
from cache.store import Store
from tests.attack.masking_pair import LISTED, folders, numbers, passages_of, request_of, store
from tests.models.make_models import WORDS, make_bert, make_roberta
from tests.reference_masking import log_product, plain_model

__all__ = ["folders", "store"]


def test_only_members_have_p_and_q_and_are_tested_as_a_group(
    folders: dict[str, Path], store: Store
) -> None:
    found = run_audit(request_of(folders, candidates=LISTED.rows(range(6))), store=store)
    assert found.measures.strata == {}
    assert list(found.curve) == []
    assert found.cohort.group == "members"
    assert found.cohort.n_members == 6
    assert 0 < float(found.cohort.p) <= 1
    assert np.isfinite(numbers(found, "q_value")).all()


def test_one_passage_and_one_input_have_scores_and_no_error(
    folders: dict[str, Path], store: Store
) -> None:
    one = passages_of({"text": "the patient [NAME] was seen.", "name_id": 4})
    found = run_audit(request_of(folders, passages=one, n_inputs=1, n_chain_inputs=0), store=store)
    assert np.isfinite(np.delete(numbers(found, "score"), 12)).all()
    assert np.isnan(numbers(found, "standard_error")).all()
    assert "chain_log_ratio" not in found.names
    assert [point.n for point in found.curve] == [1]
    assert found.details.linking.n_passages == 1
    plain = plain_model(folders["hospital"])
    log_p = log_product(plain, one.passages[0], (LISTED.first[0], LISTED.last[0]))
    assert numbers(found, "hospital_posterior")[0] == pytest.approx(math.exp(log_p), rel=1e-6)


def test_without_owners_nothing_is_linked(folders: dict[str, Path], store: Store) -> None:
    plain = passages_of({"text": "the patient [NAME] was seen."}, {"text": "[NAME] was in pain."})
    found = run_audit(
        request_of(folders, passages=plain, n_inputs=100, n_chain_inputs=0), store=store
    )
    assert found.details.linking is None


def test_a_list_of_which_no_name_can_be_spelled_has_no_scores(
    folders: dict[str, Path], store: Store
) -> None:
    names = make_candidates([("Zq", "Smith"), ("Qz", "Jones")])
    found = run_audit(
        request_of(folders, candidates=names, n_inputs=100, n_chain_inputs=2), store=store
    )
    assert np.isnan(numbers(found, "score")).all()
    assert found.names["decision"] == ["not scored"] * 2
    assert "2 of 2 names could not be scored." in found.notes
    assert found.verdict.state == "not_enough_evidence"


def test_a_roberta_pair_runs_and_its_reference_controls_have_the_names_lengths(
    tmp_path: Path,
) -> None:
    folders = {w: make_roberta(tmp_path / w, seed=s) for s, w in enumerate(("hospital", "general"))}
    names = make_candidates([("Mary", "Hall"), ("John", "Ward")])
    passages = passages_of({"text": "[NAME] was seen."}, {"text": "[NAME] was in pain."})
    with Store(tmp_path / "store") as store:
        found = run_audit(
            request_of(folders, candidates=names, passages=passages, n_inputs=20, n_chain_inputs=0),
            store=store,
        )
    assert np.isfinite(numbers(found, "score")).all()
    assert found.names["is_unmatched"] == [False, False]


def test_names_of_one_part_are_ranked_among_controls_of_one_part(tmp_path: Path) -> None:
    firsts, lasts = us_pool().first[:60], us_pool().last
    whole, split = lasts[:30], [last for last in lasts[30:] if len(last) > 5][:300]
    stems = [piece for last in split for piece in (last[:4].lower(), f"##{last[4:].lower()}")]
    words = tuple(dict.fromkeys([*WORDS, *map(str.lower, (*firsts, *whole)), *stems]))
    folders = {
        who: make_bert(tmp_path / who, seed=s, words=words)
        for s, who in enumerate(("hospital", "general"))
    }
    pair = load_pair(folders["general"], folders["hospital"])
    count = piece_counter(pair.general.tokenizer)
    alone = next(last for last in split if count("last", last) == 2)
    # Two pieces all of them, in two parts or in one.
    names = make_candidates([(firsts[0], whole[0]), ("", alone), (firsts[1], whole[1])])
    asked = request_of(
        folders, candidates=names, n_inputs=20, n_chain_inputs=0,
        passages=passages_of({"text": "the [NAME] was seen."}, {"text": "[NAME] was in pain."}),
    )  # fmt: skip
    with Store(tmp_path / "store") as store:
        found = run_audit(asked, store=store)
        inspection = kept_inspection(found.digest, store=store)
    assert inspection is not None
    assert found.names["n_pieces"] == [2, 2, 2]
    assert found.names["is_unmatched"] == [False] * 3
    drawn = with_reference(asked, pair, pool=us_pool())[0].rows(
        range(3, 3 + len(inspection.reference_score))
    )
    is_alone = np.array([not first for first in drawn.first])
    tested = {part.lower() for part in (*names.first, *names.last)}
    assert {last.lower() for last in drawn.last}.isdisjoint(tested)
    assert set(inspection.reference_n_pieces.tolist()) == {2}
    assert is_alone.sum() >= 200
    assert (~is_alone).sum() > is_alone.sum()
    for row, group in ((0, ~is_alone), (1, is_alone), (2, ~is_alone)):
        controls = inspection.reference_score[group]
        n_above = int((controls >= numbers(found, "score")[row]).sum())
        p = (1 + n_above) / (1 + len(controls))
        stated = numbers(found, "p_value")[row]
        # Where a part does not lie beyond the controls' parts its own p, above 0.05, is the larger.
        assert stated == pytest.approx(p) or stated > max(p, 0.05)
