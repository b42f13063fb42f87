"""Clinical values, which are nobody's personal information: results, doses, scores, sizes, scales.

A mark that holds nothing else is refused where marks are accepted: of the rules those that are a
guess, of a model all. Told by a cue (a test, a score, a drug's form) or by a unit; a fraction needs
the cue of a scale that has this denominator, since 8/10 may be a day.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from audit.deid.documents import Span
from audit.deid.rule import folded_text

_NUMBER = r"[<>≦≧±+-]?[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[<>≦≧±+-]?[0-9]{1,6}(?:\.[0-9]{1,4})?"
_RANGE = rf"(?:{_NUMBER})(?: ?[-~〜] ?(?:{_NUMBER}))?"
_NO_WORD = r"(?<![A-Za-z0-9.])"
_UNIT = (
    r"(?:(?:m|k|µ|μ|u|mc|n|p)?g|(?:m|d|µ|μ|u|c)?[lL]|cc|(?:m|k)?Eq|m?IU|m?U|[mµμn]?mol|mmHg|cmH2O"
    r"|[cmµμn]m|%|℃|°C?|[cm]?Gy|k?Hz|m(?:s|sec)|J|k?cal|bpm|[Gg]auge|[Ff]rench|Fr|G(?=針)"
    r"|copies|cells"
    r"|[Uu]nits?|[Pp]uffs?|[Tt]ab(?:let)?s?|[Cc]aps(?:ules?)?|[Dd]rops?|[Ff]ractions?|[Dd]egrees?"
    r"|[Pp]acks?|times?|beats|msec|mV|mA|kPa|単位|錠|カプセル|包|滴|パック|万|点|度|本|倍"
    r"|パーセント|ミリ|センチ|グラム|キロ|リットル|cc)"
)
_PER = r"(?:/(?:[a-zA-Zµμ]{1,4}[0-9²³]?|日|回|時間?|分|週|[0-9]{1,3} ?回))*"
_TESTS = (
    r"TSH|K(?= ?[0-9]\.[0-9])|F?T[34]|free [Tt][34]|Hb(?:A1c)?|Hgb|Hct|Ht|WBC|RBC|P[Ll][Tt]"
    r"|CRP|ESR|BUN|Cre?|eGFR|Glu"
    r"|Na|Cl|Ca|Mg|IP|BS|FBS|HDL|LDL|TG|AST|ALT|GOT|GPT|LDH|CK(?:-MB)?|ALP|[γr]-?GTP?|T-?[Bb]il"
    r"|D-?[Bb]il|Alb|TP|PT(?:-INR)?|APTT|INR|BNP|NT-proBNP|PSA|CEA|AFP|CA ?(?:19-9|125|15-3)"
    r"|SpO2|SaO2|FiO2|P(?:a?CO|a?O|EEP)2?|pCO2|pO2|pH|HCO3|BE|PEEP|HbA1c|ACTH|GH|IgE|IL-[0-9]{1,2}"
    r"|BP|HR|RR|PR|BT|KT|sat|BMI|EF|LVEF|QTc|E/e'|CVP|IOP|Ki-?67|HER2|CD[0-9]{1,2}|HIV|KL-6|SP-D"
    r"|[Ss]odium|[Pp]otassium|[Cc]hloride|[Bb]icarb(?:onate)?|[Cc]reatinine|[Gg]lucose|[Cc]alcium"
    r"|[Mm]agnesium|[Pp]hosph(?:ate|orus)|[Hh]emoglobin|[Hh]aemoglobin|[Hh]ematocrit"
    r"|[Pp]latelets?(?: count)?|[Ww]hite (?:blood )?(?:cell )?count|[Aa]lbumin|[Bb]ilirubin"
    r"|[Aa]lk(?:aline)? phos(?:phatase)?|[Tt]roponin(?: [IT])?|[Ll]actate|[Oo]smolality"
    r"|[Aa]mmonia|(?:[Aa]nion )?[Gg]ap|[Ff]erritin|[Ff]olate"
    r"|[Vv]itamin|[Tt]riglycerides|[Cc]holesterol|[Tt]rough|[Pp]rocalcitonin|D-?[Dd]imer"
    r"|[Tt]emp(?:erature)?|[Pp]ulse|[Rr]espirations?|[Hh]eart rate|[Rr]esp(?:iratory)? rate"
    r"|[Ss]aturation|[Bb]lood pressure|[Ss]pecific gravity|[Ee]jection fraction|[Rr]ate"
    r"|[Tt]idal volume|[Pp]eak flow|FEV1|FVC|[Hh]eight|[Ww]eight|T-score|Z-score"
    r"|[Ii]ntraocular pressure"
    r"|血圧|脈拍数?|脈|体温|心拍数?|呼吸数?|身長|体重|比重|血糖値?|乳酸|フェリチン|アルブミン"
    r"|ヘモグロビン"
    r"|血小板|白血球|赤血球|クレアチニン|コルチゾール|トロポニン[IT]?|Dダイマー|プロカルシトニン"
    r"|Cペプチド|眼圧|視力|一秒[量率]|羊水指数|抗体|尿量|出血量|酸素飽和度"
)
_SCORES = (
    r"GCS|JCS|NIHSS|mRS|Rankin|Apgar|PHQ-?9|GAD-?7|GAF|HAM-?[DA]|SDS|BDI|MELD|Child-Pugh|APACHE"
    r"|SOFA|CURB-?65|Wells|CHA2DS2-VASc|CHADS2?|HAS-BLED|Braden|Morse|Borg|ECOG|KPS|Karnofsky|PS"
    r"|ASA|Mallampati|NYHA|Gleason|BI-?RADS|[Ss]core|[Ss]cale|(?:ASA|NYHA) class|[Ss]tage|NRS|VAS"
    r"|MMSE|MoCA|HDS-?R|FIM|BI|DESIGN-R|アプガー(?:スコア)?|スコア|グレード|[Ss]ize"
)
_LINK = (
    r"(?: ?[IiVv]{0,3})?(?:[ :=(は、]{0,3}| (?:was|is|of|at|to|score|count|level|score of"
    r"|class|about|below|above|over|under) ){1,2}"
)
_FRACTION = r"(?P<value>(?P<part>[0-9]{1,3})(?:[+-])? ?/ ?(?P<whole>[0-9]{1,3}))(?![0-9/.])"
_UNCUED = r"(?<![0-9A-Za-z./-])"

_VALUES = tuple(
    re.compile(pattern)
    for pattern in (
        # A number with its unit, also of sizes: "3 x 4 cm", "50Gy/25回", "80mL/h".
        rf"{_NO_WORD}(?P<value>(?:{_RANGE})(?: ?[x×*] ?(?:{_NUMBER})){{0,2}}[- ]?"
        rf"{_UNIT}{_PER})(?![A-Za-z])",
        rf"{_NO_WORD}(?P<value>(?:{_NUMBER})(?: ?[x×] ?(?:{_NUMBER})){{1,2}})(?![0-9])",
        # A result behind its test, a count behind its score.
        rf"(?<![A-Za-z])(?P<cue>{_TESTS}){_LINK}"
        rf"(?P<value>[A-Z]?{_RANGE}(?:/[0-9]{{2,3}})?[+]?)(?![0-9/-])",
        rf"(?<![A-Za-z])(?P<cue>{_SCORES}){_LINK}(?P<value>(?:[IVX]{{1,4}}"
        rf"|{_RANGE})(?:\+[0-9](?:=[0-9]{{1,2}})?)?)(?![0-9/-])",
        r"(?P<cue>CHA2DS2-VASc|HAS-BLED|C[0-9]{1,2}[-/][0-9]"
        r"|[TLS][0-9]{1,2}[-/][TLS]?[0-9]{1,2})(?P<value>)(?![0-9])",
        r"(?P<value>[0-9]{1,2} out of [0-9]{1,3})(?![0-9/])",
        # Decimals that no day is written as: 0.004, 37.2, 1.015.
        rf"{_UNCUED}(?P<value>[0-9]{{1,4}}\.[0-9]{{3,4}}|0\.[0-9]{{1,4}}|(?:1[3-9]"
        rf"|[2-9][0-9])\.[0-9]{{1,2}})(?![0-9.-])",
        # Sutures, and grades with a sign.
        rf"{_UNCUED}(?P<value>[0-9]{{1,2}}-0)(?= ?(?:[A-Za-z]|[ァ-ヴ]))",
        rf"{_UNCUED}(?P<value>[1-4][+])(?![0-9])",
    )
)
_NEAR = r"[^\n.。;；/]{0,28}?"
_SCALES: tuple[tuple[re.Pattern[str], frozenset[int]], ...] = tuple(
    (re.compile(rf"{cues}{_NEAR}{_UNCUED}{_FRACTION}"), frozenset(wholes))
    for cues, wholes in (
        (r"(?i:\b(?P<cue>pain|scores?|scale|rate[sd]?|rating|satisfaction|severity|intensity"
         r"|fatigue|nausea|anxiety|NRS|VAS|Borg|dyspn(?:o)?ea|itch)\b)", {10, 100}),
        (r"(?P<cue>NRS|VAS|FPS|痛み?|疼痛|しびれ|満足度|主食|副食|摂取|食事|スコア"
         r"|倦怠感|不安|悪心)", {10, 100}),
        (r"(?i:\b(?P<cue>recall|words|再生))", {3, 5}),
        (r"(?i:\b(?P<cue>strength|motor|power|MMT|grip|deltoid|quadriceps)\b)", {5}),
        (r"(?P<cue>MMT|筋力|握力)", {5}),
        (r"(?i:\b(?P<cue>reflex(?:es)?|DTRs?|pulses?|clock drawing|edema|oedema)\b)", {2, 3, 4}),
        (r"(?P<cue>反射|浮腫)", {4}),
        (r"(?i:\b(?P<cue>sensation|sensory|two-point)\b)", {2}),
        (r"(?P<cue>GCS|JCS)", {15}),
        (r"(?i:(?P<cue>MMSE|mini-mental|MoCA|HDS-?R|FAB|長谷川))", {18, 30}),
        (r"(?P<cue>FIM|Barthel|BI|機能的自立度)", {18, 35, 91, 100, 126}),
        (r"(?i:(?P<cue>Apgar|アプガー(?:スコア)?))", set(range(11))),
        (r"(?i:(?P<cue>Levine|murmur|grade|雑音))", {6}),
        (r"(?i:(?P<cue>\bnodes?\b|\bmargins?\b|リンパ節|転移|陽性))", set(range(1, 100))),
        (r"(?i:(?P<cue>\bacuity|\bvision|視力))",
         {15, 20, 25, 30, 40, 50, 60, 70, 80, 100, 200, 400}),
        (r"(?i:(?P<cue>\bBP\b|blood pressure|\bIOP|pressure|血圧|眼圧))", set(range(5, 151))),
    )
)  # fmt: skip
_BEHIND: tuple[tuple[re.Pattern[str], frozenset[int]], ...] = tuple(
    (re.compile(rf"{_UNCUED}{_FRACTION} ?(?P<cue>{cues})"), frozenset(wholes))
    for cues, wholes in (
        (r"(?i:(?:holo|pan|mid|early |late )?(?:systolic|diastolic)|(?:ejection )?murmur"
         r"|収縮期|拡張期)", {6}),
        (r"(?:positive|nodes|陽性|個)", set(range(1, 100))),
        (r"(?:on (?:delayed )?recall|words)", {3, 5}),
        (r"(?:strength|throughout|in all|bilaterally)", {5, 4}),
        (r"(?:mmHg|mm Hg)", set(range(20, 151))),
        (r"(?:pack|tablet|tab\b|錠)", {2, 3, 4}),
        (r"(?:on the (?:pain|satisfaction|VAS|NRS)|pain\b|点)", {5, 10, 15, 30, 100}),
    )
)  # fmt: skip
_ANY_FRACTION = re.compile(rf"{_UNCUED}{_FRACTION}")
_DAY_CUE = re.compile(
    r"(?i:\b(?:on|since|dated?|seen|DOS|admitted|discharged|due|by|until|of)\s*:?\s*)$|[(月日]$"
)
_SENTENCE = re.compile(r"[^\n.。;；]+(?:\.[0-9][^\n.。;；]*)*")
_MAX_MONTH, _MAX_YEAR = 12, 99


def without_clinical(text: str, spans: Iterable[Span]) -> list[Span]:
    """Return the spans but for those in which nothing but clinical values stands."""
    given = list(spans)
    if not given:
        return given
    folded = folded_text(text)
    is_clinical = bytearray(len(folded))
    for start, end in clinical_values(folded):
        is_clinical[start:end] = b"\1" * (end - start)
    return [span for span in given if not _is_clinical(folded, span, is_clinical)]


def _is_clinical(folded: str, span: Span, is_clinical: bytearray) -> bool:
    places = [i for i in range(span.start, span.end) if folded[i].isalnum()]
    return bool(places) and all(is_clinical[i] for i in places)


def clinical_values(folded: str) -> Iterator[tuple[int, int]]:
    """Yield where clinical values stand in a folded text, and the cues that tell them."""
    for pattern in _VALUES:
        for match in pattern.finditer(folded):
            yield match.span("value")
            if "cue" in pattern.groupindex:
                yield match.span("cue")
    for sentence in _SENTENCE.finditer(folded):
        yield from _fractions(folded, sentence.start(), sentence.end())


def _fractions(folded: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the fractions of a sentence that are told by a scale, and others of that scale."""
    told: set[int] = set()
    for patterns, is_before in ((_SCALES, True), (_BEHIND, False)):
        for pattern, wholes in patterns:
            for match in pattern.finditer(folded, start, end):
                day_cue = _DAY_CUE.search(folded, start, match.start("value"))
                if (
                    is_before
                    and day_cue
                    and match["cue"].lower()
                    not in folded[day_cue.start() - 9 : day_cue.start()].lower()
                ):
                    continue
                if int(match["whole"]) in wholes:
                    told.add(int(match["whole"]))
                    yield match.span("value")
    for match in _ANY_FRACTION.finditer(folded, start, end):
        part, whole = int(match["part"]), int(match["whole"])
        is_day = 1 <= min(part, whole) <= _MAX_MONTH and max(part, whole) <= _MAX_YEAR
        is_same_scale = whole in told and part <= whole
        if (is_same_scale and not _DAY_CUE.search(folded, start, match.start())) or not is_day:
            yield match.span("value")
