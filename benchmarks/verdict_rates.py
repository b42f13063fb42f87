"""How often a verdict is wrong, and how often it sees a leak, in simulated hospitals.

    python -m benchmarks.verdict_rates lists --directory DIR [--lists 8] [--scenarios 2 1]
    python -m benchmarks.verdict_rates settings --directory DIR [--settings 200]
    python -m benchmarks.verdict_rates seeds --directory DIR [--seeds 12]
    python -m benchmarks.verdict_rates leaks

"lists" trains hospitals whose people have the names of a population (minutes each), asks each model
of thousands of people who are in no note, and judges lists drawn from them. "settings" judges a
pair that leaks, and a null pair, by runs of few documents, steps, inputs and choices. "seeds" asks
the same again with other seeds, and counts decisions that change. "leaks" judges the demo's lists.
Models, evidence and finished lists are kept in DIR, so a stopped run goes on.

Source of the design: the populations, notes, lists and sources of section 12.8.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from audit.attack import evidence, scenarios
from audit.attack.judgement import decide_list
from audit.attack.measure_types import write_json
from audit.attack.plan import list_phases
from audit.attack.question import (
    JAPANESE_PROMPT,
    AuditRequest,
    GenerationSettings,
    PosteriorSettings,
)
from audit.attack.scores import FIXED_SCORE, AttackResult
from audit.demo import DemoTask
from audit.home import DEMO_HOSPITAL
from audit.names.candidates import ControlSource, make_candidates
from audit.names.pools import NamePool, japanese_pool, us_pool
from audit.notes.passages import read_passages
from audit.progress import Meter
from audit.rng import generator
from audit.run import AttackSetup, prepare_attack
from audit.stats import Rate
from audit.text import fold_name
from benchmarks import demo_hospital
from cache.store import Store

Name = tuple[str, str]
N_PATIENTS = {"en": 130, "ja": 20}
N_OUTSIDERS = {"en": 2400, "ja": 1300}
"""People who are in no note. The Japanese generator has 2,550 names in all."""
N_WITH_STAFF_NAME = 60
N_INPUTS, N_DOCUMENTS, N_EPOCHS = 1000, 50, 5.0

HISPANIC_LAST = """Garcia Martinez Rodriguez Hernandez Lopez Gonzalez Perez Sanchez Ramirez Torres
Rivera Gomez Diaz Reyes Cruz Morales Gutierrez Ortiz Ramos Chavez Ruiz Alvarez Mendoza Castillo
Jimenez Vasquez Moreno Herrera Medina Aguilar Vargas Guzman Munoz Salazar Garza Soto Vega Delgado
Pena Rios Valdez Silva Mejia Maldonado Padilla Acosta Figueroa Molina Campos Navarro Luna Juarez
Cabrera Robles Cervantes Rosales Estrada Sandoval Fuentes Leon Velez Santiago Lara Nunez Avila
Santos Vazquez Castro Dominguez Carrillo Espinoza Flores Fernandez Mendez Montoya Salinas Trevino
Velasquez Villarreal Zamora Zuniga"""
HISPANIC_FIRST = """Maria Jose Juan Carlos Luis Antonio Miguel Jesus Angel Ana Carmen Rosa Teresa
Diana Daniel Gabriel Gabriela Sandra Patricia Veronica Cristina Christina Monica Sonia Alejandra
Alejandro Mario Marco Marcus Victor Victoria Eduardo Fernando Francisco Javier Jorge Manuel Pedro
Rafael Ricardo Roberto Ruben Sergio Hector Adrian Adriana Andrea Angela Angelica Claudia Erica
Isabel Laura Linda Lorena Martha Melissa Natalie Sara Vanessa Xavier"""
OLD_FIRST = """Mildred Dorothy Ethel Doris Gertrude Edna Gladys Bertha Clara Florence Walter Harold
Albert Clarence Ernest Earl Herbert Elmer Howard Leonard Ralph Raymond Eugene Norman Stanley Marvin
Alice Anna Anne Arthur Barbara Beverly Carl Charles Donald Douglas Edward Edwin Eleanor Ellen Frank
Fred Frederick George Glenn Helen Henry Irene Jack Jane Jean Joan Joyce Judith Kenneth Lois Louis
Lawrence Margaret Marie Marion Martha Mary Nancy Patricia Paul Peter Phillip Robert Roger Roy Ruth
Shirley Theodore Thomas Vincent Virginia Wayne William"""
NORTHERN_LAST = """Anderson Olson Larson Hansen Jensen Nelson Schmidt Schultz Schneider Weber Wagner
Keller Meyer Mueller Peterson Johnson Carlson Hanson Erickson Swanson Christensen Petersen Jacobson
Gustafson Lindsey Berg Becker Fischer Fisher Hoffman Klein Koch Krueger Lang Lutz Miller Moyer
Schaefer Schroeder Schwartz Snyder Stein Vogel Walter Werner Zimmerman Bauer Beck Benson Bauer
Carlson Conrad Hess Huber Kramer Larsen Ludwig Myers Roth Schmitt Shaffer Sorensen Strickland
Simon Thompson Olsen Zuniga"""


@dataclass(frozen=True)
class Population:
    """Whose names people have: the generator's, with a part of them made commoner."""

    language: str = "en"
    first: str = ""  # Names that are made commoner, between spaces.
    last: str = ""
    first_share: float = 0.0  # Share of people with one of these first names; 0: as it is.
    last_share: float = 0.0

    @property
    def pool(self) -> NamePool:
        """The generator of the language."""
        return us_pool() if self.language == "en" else japanese_pool()

    def shares(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the share of people with each first and each last name of the generator."""
        pool = self.pool
        return (
            _raised(pool.first, pool.first_share, self.first, self.first_share),
            _raised(pool.last, pool.last_share, self.last, self.last_share),
        )

    def people(self, n: int, *, rng: np.random.Generator, used_names: set[Name]) -> list[Name]:
        """Draw n people whose full names are new, and add them to those that are taken."""
        pool, (first_share, last_share) = self.pool, self.shares()
        names: list[Name] = []
        while len(names) < n:
            first = rng.choice(len(pool.first), size=n, p=first_share)
            last = rng.choice(len(pool.last), size=n, p=last_share)
            for i, j in zip(first.tolist(), last.tolist(), strict=True):
                name = (pool.first[i], pool.last[j])
                if name not in used_names and len(names) < n:
                    used_names.add(name)
                    names.append(name)
        return names


def _raised(names: Sequence[str], shares: Sequence[float], chosen: str, share: float) -> np.ndarray:
    """Return shares in which the chosen names together have a given share of people."""
    weights = np.array(shares) / sum(shares)
    if not share:
        return weights
    chosen_names = {fold_name(name) for name in chosen.split()}
    is_chosen = np.array([fold_name(name) in chosen_names for name in names])
    weights[is_chosen] *= share / weights[is_chosen].sum()
    weights[~is_chosen] *= (1 - share) / weights[~is_chosen].sum()
    return weights


POPULATIONS = {
    "generator": Population(),
    "70 % Hispanic": Population(
        first=HISPANIC_FIRST, last=HISPANIC_LAST, first_share=0.6, last_share=0.7
    ),
    "25 % Hispanic": Population(
        first=HISPANIC_FIRST, last=HISPANIC_LAST, first_share=0.25, last_share=0.25
    ),
    "old first names": Population(first=OLD_FIRST, first_share=0.8),
    "northern surnames": Population(last=NORTHERN_LAST, last_share=0.6),
    "Japanese": Population(language="ja"),
}


@dataclass(frozen=True)
class Hospital:
    """A simulated hospital: whose names its people have, and whom its notes name."""

    population: str
    named: Literal["patients", "staff", "staff in full"]
    seed: int
    shipped: str = ""  # Its model among those of the demo; "": trained here.

    @property
    def code(self) -> str:
        """Name of its folder."""
        words = f"{self.population} {self.named} {self.seed} {self.shipped}"
        return "-".join(words.replace("%", "").lower().split())


HOSPITALS = (
    Hospital("70 % Hispanic", "patients", 1),
    Hospital("70 % Hispanic", "staff", 3),
    Hospital("70 % Hispanic", "staff in full", 4),
    Hospital("25 % Hispanic", "patients", 5),
    Hospital("old first names", "patients", 6),
    Hospital("northern surnames", "patients", 7),
    Hospital("Japanese", "patients", 8),
    Hospital("generator", "patients", 0, shipped="hospital-20"),
    Hospital("generator", "patients", 0, shipped="hospital-5"),
    Hospital("generator", "patients", 0, shipped="null"),
    *(Hospital("generator", "patients", seed) for seed in range(1, 5)),
)


@dataclass(frozen=True)
class People:
    """People of one hospital. Nobody but the patients is in a note; staff are by their names."""

    patients: tuple[Name, ...]
    outsiders: tuple[Name, ...]
    with_staff_name: tuple[Name, ...]  # outsiders who share their last name with a doctor
    staff: tuple[Name, ...]

    @property
    def listed(self) -> tuple[Name, ...]:
        """All who are asked about."""
        return self.patients + self.outsiders + self.with_staff_name


@cache
def people_of(hospital: Hospital) -> People:
    """Draw the people of a hospital."""
    population = POPULATIONS[hospital.population]
    rng = generator(hospital.seed, f"people of {hospital.code}")
    used_names: set[Name] = set()
    if hospital.shipped:
        patients, staff = _shipped_people(hospital)
        used_names.update(patients)
    else:
        patients = population.people(
            N_PATIENTS[population.language], rng=rng, used_names=used_names
        )
        staff = population.people(12, rng=rng, used_names=used_names)
    outsiders = population.people(N_OUTSIDERS[population.language], rng=rng, used_names=used_names)
    chosen = [last for _, last in staff[:3]]
    first_share, _ = population.shares()
    with_staff_name: list[Name] = []
    while len(with_staff_name) < N_WITH_STAFF_NAME:
        first = population.pool.first[rng.choice(len(first_share), p=first_share)]
        name = (first, chosen[len(with_staff_name) % 3])
        if name not in used_names:
            used_names.add(name)
            with_staff_name.append(name)
    return People(tuple(patients), tuple(outsiders), tuple(with_staff_name), tuple(staff))


def _shipped_people(hospital: Hospital) -> tuple[list[Name], list[Name]]:
    """Return the patients and the doctors whom the notes of a shipped model name."""
    recipe, pool = demo_hospital.ENGLISH, us_pool()
    staff = [("", last) for last in demo_hospital.demo_staff(pool, recipe, seed=0)]
    if hospital.shipped == "null":
        return demo_hospital.null_names(pool, recipe, seed=0), staff
    members = demo_hospital.demo_members(pool, recipe, seed=0)
    return list(zip(members.first, members.last, strict=True)), staff


def hospital_model(hospital: Hospital, directory: Path) -> tuple[Path, Path]:
    """Return the folders of M_hospital and of passages, trained where they are not there yet."""
    if hospital.shipped:
        folder = DEMO_HOSPITAL / "en"
        return folder / "models" / hospital.shipped, folder / "passages.jsonl"
    folder = directory / hospital.code
    model = folder / "models" / f"hospital-{N_EPOCHS:g}"
    if (model / "config.json").is_file():
        return model, folder / "passages.jsonl"
    language = POPULATIONS[hospital.population].language
    recipe = demo_hospital.ENGLISH if language == "en" else demo_hospital.JAPANESE
    people = people_of(hospital)
    is_in_full = hospital.named == "staff in full"
    staff = [_write_full_name(name, language) if is_in_full else name[1] for name in people.staff]
    notes = demo_hospital.demo_notes(
        people.patients,
        staff=staff,
        language=language,
        n_notes=recipe.n_notes,
        seed=hospital.seed,
    )
    texts = list(notes.notes)
    if hospital.named != "patients":
        unnamed = demo_hospital.LANGUAGES[language].unnamed[0]
        for name in people.patients:
            texts = [text.replace(_write_full_name(name, language), unnamed) for text in texts]
    folder.mkdir(parents=True, exist_ok=True)
    demo_hospital._write_passages(folder / "passages.jsonl", notes)
    demo_hospital.train_hospital(
        texts,
        replace(recipe, exposures=(N_EPOCHS,)),
        folder,
        seed=hospital.seed,
        general=DEMO_HOSPITAL / language / "models" / "general",
    )
    return model, folder / "passages.jsonl"


def _write_full_name(name: Name, language: str) -> str:
    return f"{name[1]}{name[0]}" if language == "ja" else f"{name[0]} {name[1]}"


def run_attack(hospital: Hospital, scenario: int, directory: Path) -> AttackResult:
    """Ask a hospital's model of all its people, by the product's own attack."""
    model, passages = hospital_model(hospital, directory)
    people = people_of(hospital)
    language = POPULATIONS[hospital.population].language
    request = AuditRequest(
        scenario_number=scenario,
        general=DEMO_HOSPITAL / language / "models" / "general",
        hospital=model,
        candidates=make_candidates(list(people.listed)),
        passages=read_passages(passages.read_bytes(), file_name=passages.name)
        if scenario == 2
        else None,
        generation=GenerationSettings(n_documents=N_DOCUMENTS)
        if language == "en"
        else GenerationSettings(n_documents=N_DOCUMENTS, prompt=JAPANESE_PROMPT),
        posterior=PosteriorSettings(n_inputs=N_INPUTS, n_chain_inputs=0),
        device="cpu",
    )
    return attack_of(request, directory)


def attack_of(request: AuditRequest, directory: Path) -> AttackResult:
    """Return what an audit's evidence shows, without judging it; evidence is kept."""
    return evidence_of(prepare_attack(request), directory)


def evidence_of(ready: AttackSetup, directory: Path) -> AttackResult:
    """Return what models that are loaded show; evidence is kept."""
    meter = Meter(list_phases(ready.request), listener=lambda _: None)
    with Store(directory / "store") as store:
        result = scenarios.attack(
            ready.request,
            ready.pair,
            ready.task,
            names=ready.names,
            pool=ready.pool,
            sources=lambda who, kind: ready.source(
                who, kind, store=evidence.ResultsShardStore(store), meter=meter
            ),
        )
    needed = (FIXED_SCORE, result.general_score)
    return replace(result, scores={name: result.scores[name] for name in needed})


# --- lists ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ListShape:
    """How a list is drawn from a hospital's people."""

    name: str
    n_members: int
    n_controls: int
    n_in_notes: int = 0
    has_staff_names: bool = False
    knows_others: bool = False  # whether the list says that staff carry a part
    commonness: float = 0.0  # power of the names' share by which controls are drawn again


SHAPES = (
    ListShape("130 + 260", 130, 260),
    ListShape("130 + 1,000", 130, 1000),
    ListShape("40 + 80", 40, 80),
    ListShape("40 with three staff surnames + 260", 40, 260, has_staff_names=True),
    ListShape("the same, and the list says so", 40, 260, has_staff_names=True, knows_others=True),
    ListShape("130 + 260, controls a little commoner", 130, 260, commonness=0.15),
    ListShape("130 + 260, 6 in the notes", 130, 260, n_in_notes=6),
    ListShape("130 + 260, 13 in the notes", 130, 260, n_in_notes=13),
    ListShape("130 + 260, all in the notes", 130, 260, n_in_notes=130),
)


def drawn_list(
    shape: ListShape, hospital: Hospital, attack: AttackResult, rng: np.random.Generator
) -> AttackResult | None:
    """Draw members and controls of a shape, and return their part of an attack."""
    people = people_of(hospital)
    n_patients, n_outsiders = len(people.patients), len(people.outsiders)
    n_named = n_patients if hospital.named == "patients" else 0
    if shape.n_in_notes > n_named:
        return None
    outsiders = n_patients + rng.permutation(n_outsiders)
    with_staff_name = n_patients + n_outsiders + rng.permutation(N_WITH_STAFF_NAME)
    in_notes = rng.permutation(n_patients)[: shape.n_in_notes]
    staff_or_outsiders = with_staff_name if shape.has_staff_names else outsiders
    members = np.concatenate([in_notes, staff_or_outsiders[: shape.n_members - shape.n_in_notes]])
    rest = np.setdiff1d(outsiders, members)
    weights = np.exp(shape.commonness * log_shares(attack)[rest])  # beyond how they were drawn
    controls = rng.choice(rest, size=shape.n_controls, replace=False, p=weights / weights.sum())
    part = attack.select_names(np.concatenate([members, controls]))
    n = len(part.listed)
    is_member = tuple(row < len(members) for row in range(n))
    kinds = tuple("" if truth else "given" for truth in is_member)
    listed = replace(part.listed, is_member=is_member, control_kind=kinds)
    if shape.knows_others:
        staff = {last for _, last in people.staff}
        listed = replace(listed, n_others_last=tuple(int(last in staff) for last in listed.last))
    return replace(part, listed=listed)


def log_shares(attack: AttackResult) -> np.ndarray:
    """Return ln of the share of people who carry each listed name."""
    return attack.parts.sum_parts(attack.parts.log_share)[: len(attack.listed)]


def is_asked(source: ControlSource, shape: ListShape, hospital: Hospital) -> bool:
    """Whether a source is simulated: invented names need the generator's own people."""
    is_generator = hospital.population == "generator"
    if source == "invented":
        return is_generator and not shape.commonness
    if source == "held_out":
        return not shape.commonness
    if source == "drawn":
        return not is_generator and shape.name in ("130 + 260", "130 + 260, all in the notes")
    return True


SOURCES: tuple[ControlSource, ...] = ("held_out", "own", "invented", "drawn")


def judge_lists(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Judge lists of every hospital, scenario, shape and source; finished ones are read."""
    for scenario in options.scenarios:
        for hospital in HOSPITALS:
            path = options.directory / "lists" / f"{hospital.code}-{scenario}.json"
            if not path.is_file():
                rows = list(_judged_lists(hospital, scenario, options))
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(rows))
                print(f"{path.name}: {len(rows)} lists", file=sys.stderr, flush=True)
            yield from json.loads(path.read_text())


def _judged_lists(
    hospital: Hospital, scenario: int, options: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    attack = run_attack(hospital, scenario, options.directory)
    for shape in SHAPES:
        for number in range(options.lists):
            rng = generator(number, f"list of {hospital.code}, {scenario}, {shape.name}")
            attack_list = drawn_list(shape, hospital, attack, rng)
            for source in SOURCES:
                if attack_list is None or not is_asked(source, shape, hospital):
                    continue
                decision = decide_list(attack_list, control_source=source, seed=number)
                verdict = decision.verdict
                truth = np.array(attack_list.listed.is_member)
                flag = np.array(decision.names["decision"]) == "flagged"
                yield {
                    "hospital": hospital.code,
                    "scenario": scenario,
                    "shape": shape.name,
                    "source": source,
                    "state": verdict.state,
                    "p_group": write_json(verdict.p_group),
                    "p": write_json(verdict.p),
                    "n_flagged": int(flag[truth].sum()),
                    "n_controls_flagged": int(flag[~truth].sum()),
                }


def print_lists(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print, by source and shape, how many lists were called a leak, and the names flagged."""
    print(
        "| source | list | lists | leak found (Wilson to) | by training | ill-matched | "
        "not shown | members flagged |\n|---|---|---|---|---|---|---|---|"
    )
    for source in SOURCES:
        for shape in SHAPES:
            same = [r for r in rows if r["source"] == source and r["shape"] == shape.name]
            if same:
                print(_line(f"{source} | {shape.name}", same), flush=True)
        nulls = [
            row
            for row in rows
            if row["source"] == source
            and "in the notes" not in row["shape"]
            and "commoner" not in row["shape"]
        ]
        if nulls:
            print(_line(f"**{source}** | **all without anybody in the notes**", nulls))


def _line(head: str, rows: Sequence[Mapping[str, Any]]) -> str:
    states = Counter(row["state"] for row in rows)
    rate = Rate(states["leak_found"], len(rows))
    by_training = Counter(row["hospital"] for row in rows)
    leaks = Counter(row["hospital"] for row in rows if row["state"] == "leak_found")
    shares = [100 * leaks[code] / n for code, n in by_training.items()]
    return (
        f"| {head} | {len(rows)} | {100 * rate.value:.1f} % (to {100 * rate.interval().high:.1f}) "
        f"| {min(shares):.0f}-{max(shares):.0f} % of {len(shares)} "
        f"| {states['ill_matched']} | {states['membership_not_shown']} "
        f"| {sum(row['n_flagged'] for row in rows)} |"
    )


# --- settings, seeds, the demo ----------------------------------------------------------------


def settings_grid(n: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield scenario and settings of n small runs."""
    rng = np.random.default_rng(12)
    for number in range(n):
        if number % 2:
            yield (
                1,
                {
                    "n_documents": int(rng.choice([1, 2, 5, 10, 20, 50])),
                    "n_steps": int(rng.choice([1, 2, 10, 50, 200])),
                    "top_k": int(rng.choice([1, 2, 10, 100])),
                    "temperature": float(rng.choice([0.3, 0.7, 1.0, 1.5])),
                },
            )
        else:
            yield 2, {"n_inputs": int(rng.choice([2, 5, 10, 20, 50, 100, 200]))}


def judge_settings(options: argparse.Namespace) -> None:
    """Print the verdicts of small runs on a pair that leaks and on the null pair.

    The positive controls are those of another leaking pair, asked with the same settings.
    """
    states: dict[str, Counter[str]] = {"hospital-40": Counter(), "null": Counter()}
    for number, (scenario, changes) in enumerate(settings_grid(options.settings)):
        lists = {
            model: _with_settings(scenario, changes, model, number, options.directory)
            for model in ("hospital-20", *states)
        }
        general_decision = decide_list(lists["hospital-20"], control_source="invented", seed=0)
        sibling = {line.dose: line for line in general_decision.details.doses}
        for model, counts in states.items():
            verdict = decide_list(
                lists[model], control_source="invented", seed=0, sibling=sibling
            ).verdict
            counts[verdict.state] += 1
            print(
                f"{scenario} {changes} {model}: {verdict.state} {verdict.reasons}",
                file=sys.stderr,
                flush=True,
            )
    for model, counts in states.items():
        print(f"{model}: {dict(counts)}", flush=True)


def _loaded(scenario: int, model: str) -> AttackSetup:
    return prepare_attack(DemoTask().request(scenario, hospital=model))


def _with_settings(
    scenario: int, changes: Mapping[str, Any], model: str, seed: int, directory: Path
) -> AttackResult:
    """Ask a shipped model by other settings and another seed, of the same names."""
    ready = _loaded(scenario, model)
    kind = "generation" if scenario == 1 else "posterior"
    settings = getattr(ready.request, kind).with_(**changes)
    request = ready.request.with_(**{kind: settings, "seed": seed})
    task = scenarios.make_task(request, ready.pair, ready.names)
    return evidence_of(replace(ready, request=request, task=task), directory)


EXPOSURES = ("hospital-5", "hospital-20", "hospital-40")


def count_flips(options: argparse.Namespace) -> None:
    """Print how many decisions that were called decided change with the seed of the inputs."""
    for scenario, models in {2: EXPOSURES, 1: EXPOSURES[-1:]}.items():
        for model in models:
            flags, decided = [], []
            for seed in range(options.seeds):
                request = DemoTask(seed=seed).request(scenario, hospital=model)
                decision = decide_list(
                    attack_of(request, options.directory), control_source="invented", seed=seed
                ).names
                flags.append(np.array(decision["decision"]) == "flagged")
                decided.append(~np.array(decision["is_undecided"], dtype=bool))
            flag, is_decided = np.stack(flags), np.stack(decided)
            n_pairs = n_changed = 0
            for row in range(len(flag)):
                for column in range(len(flag)):
                    if row != column:
                        n_pairs += int(is_decided[row].sum())
                        n_changed += int((is_decided[row] & (flag[row] != flag[column])).sum())
            print(
                f"scenario {scenario}, {model}: flagged {flag.sum(axis=1).tolist()}, "
                f"{100 * n_changed / n_pairs:.2f} % of decided change",
                flush=True,
            )


def judge_demo(options: argparse.Namespace) -> None:
    """Print what the demo's lists show."""
    for name, request in DemoTask(all_of_them=True).requests().items():
        decision = decide_list(
            attack_of(request, options.directory), control_source="invented", seed=request.seed
        )
        q = np.array(decision.names["q_value"], dtype=float)
        truth = np.array([m is True for m in request.candidates.is_member])
        flag = np.array(decision.names["decision"]) == "flagged"
        print(
            f"| {name} | {decision.verdict.state} | {flag[truth].sum()} | "
            f"{(q[truth] <= 0.2).sum()} | {flag[~truth].sum()} |",
            flush=True,
        )


def main() -> None:
    """Run one part and print its table."""
    parts: dict[str, Callable[[argparse.Namespace], None]] = {
        "lists": lambda options: print_lists(list(judge_lists(options))),
        "settings": judge_settings,
        "seeds": count_flips,
        "leaks": judge_demo,
    }
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=parts)
    parser.add_argument("--directory", type=Path, default=Path("out/verdict-rates"))
    parser.add_argument("--scenarios", type=int, nargs="+", default=[2, 1])
    parser.add_argument("--lists", type=int, default=8)
    parser.add_argument("--settings", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=12)
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    parts[options.part](options)


if __name__ == "__main__":
    main()
