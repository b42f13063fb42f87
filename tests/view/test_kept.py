"""Which kept audit a link, or no link, leads to."""

from __future__ import annotations

from audit.report.report import KeptAudit, choose_audit, kept_audit, other_scenario
from tests.pages.make_reports import make_report


def line(
    digest: str,
    *,
    at: str = "2026-01-01",
    scenario: int = 2,
    hospital: str = "h",
    is_demo: bool = False,
) -> KeptAudit:
    return KeptAudit(digest * 64, at, scenario, "g", hospital, 260, "leak_found", is_demo=is_demo)


OLD, NEW = line("a"), line("b", at="2026-02-01")
DEMO = line("d", at="2026-03-01", is_demo=True)


def test_a_line_says_what_the_report_says() -> None:
    report = make_report(1)
    kept = kept_audit(report)
    assert (kept.digest, kept.scenario, kept.state) == (report.digest, 1, report.verdict.state)
    assert (kept.general, kept.hospital, kept.n_names) == ("general", "hospital-40", 72)


def test_without_a_link_the_newest_own_audit_comes_first_and_the_demo_only_alone() -> None:
    demo = {"masked_lm": DEMO.digest}
    assert choose_audit("", kept=[OLD, NEW, DEMO], demo=demo) == NEW
    assert choose_audit("", kept=[DEMO, OLD], demo=demo) == OLD
    newer = line("e", at="2026-04-01", is_demo=True)
    assert choose_audit("", kept=[newer, DEMO], demo=demo) == DEMO
    assert choose_audit("", kept=[newer, DEMO], demo={"masked_lm": "c" * 64}) == newer
    assert choose_audit("", kept=[OLD, NEW], demo={}) == NEW
    assert choose_audit("", kept=[], demo={}) is None


def test_a_link_still_opens_the_demo() -> None:
    assert choose_audit("dddd", kept=[OLD, NEW, DEMO], demo={}) == DEMO


def test_the_demo_stands_beside_no_own_audit() -> None:
    twin = line("c", scenario=1)
    made_up = line("f", scenario=1, at="2026-05-01", is_demo=True)
    assert other_scenario(OLD, kept=[OLD, twin, made_up], demo={}) == twin
    assert other_scenario(OLD, kept=[OLD, made_up], demo={}) is None
    assert other_scenario(DEMO, kept=[DEMO, twin, made_up], demo={}) == made_up


def test_a_link_opens_the_audit_whose_digest_begins_so() -> None:
    assert choose_audit("aaaa", kept=[OLD, NEW], demo={}) == OLD
    assert choose_audit("b" * 64, kept=[OLD, NEW], demo={}) == NEW


def test_a_link_that_fits_none_or_several_opens_nothing() -> None:
    twin = KeptAudit("aaaa" + "0" * 60, "", 2, "g", "h", 1, "leak_found")
    assert choose_audit("cccc", kept=[OLD], demo={"masked_lm": OLD.digest}) is None
    assert choose_audit("aaaa", kept=[OLD, twin], demo={}) is None
    assert choose_audit("aaaa0", kept=[OLD, twin], demo={}) == twin
    for wrong in ("a", "aaa", "AAAA", "aaaa\n", "<b>", "a" * 65):
        assert choose_audit(wrong, kept=[OLD], demo={}) is None


def test_the_other_scenario_is_of_the_same_pair() -> None:
    one = line("c", scenario=1, at="2026-01-02")
    two = line("d", scenario=1, at="2026-01-03")
    foreign = line("e", scenario=1, hospital="x", at="2026-03-01")
    kept = [OLD, NEW, one, two, foreign]
    assert other_scenario(OLD, kept=kept, demo={}) == two
    assert other_scenario(OLD, kept=kept, demo={"generation": one.digest}) == one
    assert other_scenario(foreign, kept=kept, demo={}) is None
