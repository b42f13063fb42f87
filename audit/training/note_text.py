"""Text of notes as ClinicalBERT prepares it: no placeholders, no list numbers, whole sentences.

Comes in: a note's text. Goes out: its sentences. Lower case is left to the tokenizer.

Source: Alsentzer et al. 2019 (ClinicalBERT), the published preparation of notes.
Differs: there every number before a full stop is dropped ("2.5" becomes "5"), here only a list's
number at the beginning of a line.
"""

from __future__ import annotations

import re

from audit.corpora.sentences import sentence_spans

TEXT_VERSION = 1
"""Part of a token file's key: another preparation gives other tokens."""
MIN_SENTENCE_CHARS = 20

_DROPPED = re.compile(
    r"\[\*\*[^\[\]]{0,200}\*\*\]"  # a placeholder
    r"|_{2,}|-{2,}|={2,}"  # MIMIC-IV's blanks, and lines that somebody drew
    r"|(?m:^[ \t]*\d{1,3}[.)](?=\s))"  # a list's number
)
_SPACES = re.compile(r"\s+")


def cleaned(text: str) -> str:
    """Return a text without placeholders, drawn lines and list numbers; line ends stay."""
    return _DROPPED.sub(" ", text)


def prepared_sentences(text: str) -> list[str]:
    """Return the sentences of a note, white space made single, in their order.

    A sentence of fewer than 20 characters is glued to the one before; at the beginning of a note
    the next one is glued to it.
    """
    clean = cleaned(text)
    found: list[str] = []
    for start, end in sentence_spans(clean):
        sentence = _SPACES.sub(" ", clean[start:end]).strip()
        if not sentence:
            continue
        is_first_short = len(found) == 1 and len(found[0]) < MIN_SENTENCE_CHARS
        if found and (len(sentence) < MIN_SENTENCE_CHARS or is_first_short):
            found[-1] = f"{found[-1]}{'' if found[-1].endswith('。') else ' '}{sentence}"
        else:
            found.append(sentence)
    return found
