"""Clinical prose with names put in, and what a mention finder should find in it.

`{X}` is the name, `{N}` an age, `{S}` man, woman, male ...; each text holds one mention at most.
The finder was written before these templates. On the first run over `WITH_MENTION` and
`WITHOUT_MENTION` it had recall 0.963 and precision 0.967; what it missed ("and Roe, Ann is", "James
White", "Tia") was then added as rules. `FRESH` came after that: recall 0.992 and precision 0.994 on
its first run, and no rule was changed for it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from faker import Faker

WITH_MENTION = (
    "{X} is a {N}-year-old {S} who was found down at home by EMS.",
    "{X} is an otherwise healthy {N} year old {S} presenting with RLQ pain x 2 days.",
    "Thank you for asking us to see your patient. {X} is a {N}-year-old {S} with stage IIIb CKD.",
    "HISTORY OF PRESENT ILLNESS:\n{X} is a pleasant {N}-year-old right-hand-dominant {S} who fell.",
    "Reason for Consultation: Hyponatremia.\n\nHPI: {X} is a {N} year-old {S} s/p LAR.",
    "IDENTIFYING DATA: {X} is a {N}-year-old, single, Caucasian {S} admitted voluntarily.",
    "CC: SOB\nHPI: {X} is a {N} y/o {S} with COPD on 2L home O2.",
    "Hospital Course by Problem:\n1. Sepsis: {X} is a {N}-year-old {S} admitted from clinic.",
    "The plan was explained. {X} was a {N}-year-old {S} with metastatic melanoma to the brain.",
    "Neurology consult note\n\n{X} is a {N}yo {S} with seizures since childhood.",
    "SUBJECTIVE: {X} is a {N}-year-old obese {S} here for followup of his or her diabetes.",
    "{X} is a {N} year\nold {S} with a past medical history significant for ESRD on HD.",
    "DISCHARGE SUMMARY\n\nATTENDING: Karl Weber, MD\n\nBRIEF HISTORY: {X} is a {N}-year-old {S}.",
    "As you know, {X} is a delightful {N}-year-old {S} whom I have followed since 1998.",
    "To summarize, {X} is a {N}-year-old {S} with a 20 pack-year history of smoking.",
    "{X} is a well-known {N}-year-old {S} to our service, with a 10 year history of lupus.",
    "Per report, {X} is a {N}-year-old African-American {S}, gravida 2, with cramping.",
    "Pt seen in ED bay 4. {X} is a {N} yr old {S} c/o CP radiating to L arm.",
    "Seen with Dr. Okafor. {X} is a {N}-year-old {S}, a retired machinist, with cough.",
    "PROBLEM LIST reviewed.  {X} is a {N}-year-old {S} status post CABG in 2004.",
    "Chart reviewed and {X} is a {N}-year-old {S} in no distress.",
    "Assessment: {X} is a {N}-year-old {S} with likely community-acquired pneumonia.",
    "A/P: {X} is a {N} y.o. {S} POD#3 from open reduction.",
    "It was my pleasure to meet {X}, who is a {N}-year-old {S} with knee pain.",
    "{X} is a very thin, cachectic appearing {N}-year-old {S} lying in bed.",
    "INDICATION: {X} is a {N}-year-old {S} with recurrent epistaxis.\nPROCEDURE: Cautery.",
    "Patient {X} is a {N}-year-old {S} transferred from an outside hospital.",
    "In brief, {X} is a {N}-year-old {S} with AML, C1D14 of induction.",
    "Interval events: none. {X} is a {N}-year-old {S} on hospital day 6.",
    "- {X} is a {N}-year-old {S} living alone.\n- Uses a walker.",
)
WITHOUT_MENTION = (
    "The patient is a {N}-year-old {S} with chest pain. Azithromycin is a 3 day course of therapy.",
    "This is a {N}-year-old {S} with a 10 year history of smoking. Dr. {X} was consulted.",
    "Seen by {X} today. She is a {N}-year-old {S} with asthma.",
    "Attending: {X}\n\nHISTORY: {N}-year-old {S} with fever.",
    "Dictated by {X}. The patient's mother is a {N}-year-old {S} who is well.",
    "Mr. {X} drove his wife in. His wife is a {N}-year-old {S} with gout.",
    "Social: lives with {X}. Pt is a {N} yo {S}, nonsmoker.",
    "Emergency contact: {X}, daughter. This delightful {N}-year-old {S} is doing well.",
    "Referred by {X}, MD, for evaluation. The patient, a {N}-year-old {S}, has back pain.",
    "Ciprofloxacin is a 7 day course. A {N}-year-old {S} was seen after {X} left.",
    "{X} was told that the graft is a {N} year old vein graft from the left leg.",
    "Chief Complaint: {N} yo {S} with headache. Discussed with {X}.",
    "Chest Pain: The pt is a {N}-year-old {S} followed by {X} in clinic.",
    "Cystic Fibrosis Clinic. Now a {N}-year-old {S} under the care of {X}.",
    "S: {X} reports that her son is a {N} year old {S} with autism.",
)
FRESH = (
    "DATE OF ADMISSION: 05/12/2010\n\nADMITTING NOTE\n\n{X} is a {N}-year-old {S} living at home.",
    "I reviewed the films. {X} is a {N}-year-old {S} whose MRI shows a disc herniation at L4-5.",
    "Dear Dr. Alvarez:\n\n{X} is a {N}-year-old {S} whom you kindly referred.",
    "**HPI** {X} is a {N} y/o {S} w/ PMH of HTN, DM2, presenting w/ AMS.",
    "SOCIAL WORK: Met with family. {X} is a {N}-year-old {S}, married, with two sons.",
    "The risks, benefits and alternatives were discussed. {X} is a {N}-year-old nulliparous {S}.",
    "Preoperative Diagnosis: Cataract OS\nIndications: {X} is a {N}-year-old {S} with glare.",
    "ID/CC: {X} is a {N} year-old {S} with three days of fever.",
    "Neonatology was at the bedside earlier; {X} is a {N}-year-old {S} now stable.",
    "{X} is a previously well {N}-year-old {S}. Amoxicillin is a 10 day course.",
    "She was the driver of the other car. {X} is a {N}-year-old {S}, restrained passenger.",
    "Respiratory status improved.\n{X} is a {N}-year-old {S} with OSA.",
    "Again, {X} is a {N}-year-old {S} who has failed conservative measures.",
    "TRAUMA HISTORY: {X} is a {N}-year-old intoxicated {S} s/p fall from 10 feet.",
    "Follow-up visit. {X} is a left-handed {N}-year-old {S} with carpal tunnel syndrome.",
)
SEXES = ("man", "woman", "male", "female", "gentleman", "lady")
_LOCALES = (
    "en_US",
    "en_GB",
    "en_IE",
    "en_IN",
    "es_ES",
    "fr_FR",
    "de_DE",
    "it_IT",
    "pl_PL",
    "sv_SE",
)
_TITLES = ("Mr.", "Mrs.", "Ms.", "Miss", "Mr", "Ms")


@dataclass(frozen=True)
class Sample:
    """A text; first and last name of its mention as written, or None where it has none."""

    text: str
    first: str
    last: str
    has_mention: bool


def samples(*, n: int, seed: int, templates: tuple[str, ...] = WITH_MENTION) -> list[Sample]:
    """Return n texts, three in four of them with a mention, between other sentences."""
    rng = random.Random(seed)
    fakers = [Faker(locale) for locale in _LOCALES]
    for number, faker in enumerate(fakers):
        faker.seed_instance(seed * 100 + number)
    return [_sample(rng, fakers, templates) for _ in range(n)]


def _sample(rng: random.Random, fakers: list[Faker], templates: tuple[str, ...]) -> Sample:
    faker = rng.choice(fakers)
    first, last = faker.first_name(), faker.last_name()
    written, first, last = _written(rng, first, last)
    has_mention = rng.random() < 0.75
    template = rng.choice(templates if has_mention else WITHOUT_MENTION)
    text = template.replace("{X}", written).replace("{N}", str(rng.randint(2, 99)))
    text = text.replace("{S}", rng.choice(SEXES))
    before = rng.choice(("", "", "Admission Date: 3/4/2011\n\n", "Vital signs are stable. "))
    behind = rng.choice((" He takes aspirin 81 mg daily.", "\n\nPLAN: Continue.", ""))
    return Sample(before + text + behind, first, last, has_mention)


def _written(rng: random.Random, first: str, last: str) -> tuple[str, str, str]:
    kind = rng.random()
    if kind < 0.5:
        return f"{first} {last}", first, last
    if kind < 0.6:
        return f"{first} {rng.choice('ABCDEFGHJKLMNPRSTW')}. {last}", first, last
    if kind < 0.7:
        return f"{rng.choice(_TITLES)} {last}", "", last
    if kind < 0.78:
        return f"{rng.choice(_TITLES)} {first} {last}", first, last
    if kind < 0.86:
        return f"{last}, {first}", first, last
    if kind < 0.94:
        return f"{first.upper()} {last.upper()}", first.upper(), last.upper()
    return f"{last.upper()}, {first.upper()}", first.upper(), last.upper()
