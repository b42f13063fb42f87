"""i2b2 2014 XML: a note as `TEXT` and its spans as `TAGS` that stand off (MEDDOCAN has it too)."""

from __future__ import annotations

import re
from xml.etree import ElementTree
from xml.sax.saxutils import escape, quoteattr

from audit.deid.documents import Span, TaggedDocument, tagged
from audit.deid.labels import known_label
from audit.errors import AuditError

_CATEGORIES = {
    "NAME": "PATIENT DOCTOR USERNAME identifier",
    "PROFESSION": "PROFESSION",
    "LOCATION": "HOSPITAL ORGANIZATION STREET CITY STATE COUNTRY ZIP LOCATION-OTHER ROOM",
    "AGE": "AGE",
    "DATE": "DATE",
    "CONTACT": "PHONE FAX EMAIL URL IPADDR contact",
    "ID": "MEDICALRECORD HEALTHPLAN ACCOUNT LICENSE VEHICLE DEVICE BIOID IDNUM SSN linkage_code "
    "personal_id_code",
}
_CATEGORY = {label: name for name, labels in _CATEGORIES.items() for label in labels.split()}
_MAX_MARKS = 500_000  # counted before it is read, for each becomes an object
_UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def read_i2b2(xml: str, *, doc_id: str, what: str) -> TaggedDocument:
    """Read one note.

    A tag's label is its TYPE, or the name of its element where it has none. A file with a document
    type or entities of its own is refused: neither belongs in this format.

    Raises
    ------
    AuditError
        If it is no such file, or a tag's text is not what stands at its offsets.
    """
    root = _root(xml, what=what)
    note, tags = _note(root, what=what), root.find("TAGS")
    text = note.text or ""
    spans = [
        _span(tag, text=text, what=what, number=number)
        for number, tag in enumerate(tags if tags is not None else (), start=1)
    ]
    return tagged(doc_id, text=text, spans=spans)


def i2b2_text(xml: str, *, what: str) -> str:
    """Return the text of one note alone: its tags are not looked at. Raises as `read_i2b2`."""
    return _note(_root(xml, what=what), what=what).text or ""


def _root(xml: str, *, what: str) -> ElementTree.Element:
    if xml.count("<") + xml.count("=") > _MAX_MARKS:
        raise AuditError("The XML has too many tags for one note.", where=what)
    if re.search("<!(?:DOCTYPE|ENTITY)", xml):
        raise AuditError("The XML defines entities of its own; this is refused.", where=what)
    try:
        return ElementTree.fromstring(re.sub(r"\A\ufeff?\s*<\?xml[^>]*\?>", "", xml, count=1))
    except (ElementTree.ParseError, ValueError):
        raise AuditError("This is no well-formed XML.", where=what) from None


def _note(root: ElementTree.Element, *, what: str) -> ElementTree.Element:
    note = root.find("TEXT")
    if note is None:
        raise AuditError(
            "The XML has no element TEXT.", where=what, do="Give i2b2 2014 files, one note each."
        )
    return note


def _span(tag: ElementTree.Element, *, text: str, what: str, number: int) -> Span:
    where = f"{what}, tag {number}"
    label, said = known_label(tag.get("TYPE") or tag.tag), tag.get("text")
    try:
        span = Span(int(tag.get("start", "")), int(tag.get("end", "")), label)
    except ValueError:
        raise AuditError("This tag lacks a usable `start`, `end` or `TYPE`.", where=where) from None
    found = text[span.start : span.end]
    is_inside = span.end <= len(text)
    if not is_inside or (said is not None and said.split() != found.split()):
        raise AuditError(
            "The text of this tag is not what stands at its offsets.",
            where=where,
            do="Offsets count code points of TEXT, from 0.",
        )
    return span


def write_i2b2(document: TaggedDocument) -> str:
    """Return a note as XML; carriage returns are written as `&#13;`, or a reader would drop them.

    Raises
    ------
    AuditError
        If the note holds a control character, for which XML has no form.
    """
    if _UNWRITABLE.search(document.text):
        raise AuditError(
            "A note holds a control character, for which XML has no form.",
            do="Choose another format, or clean the note.",
        )
    lines = [
        f'<{_CATEGORY.get(span.label, "PHI")} id="P{i}" start="{span.start}" '
        f'end="{span.end}" text={_attribute(document.text[span.start : span.end])} '
        f'TYPE={quoteattr(span.label)} comment="" />\n'
        for i, span in enumerate(document.spans)
    ]
    text = escape(document.text, {"\r": "&#13;"})
    return (
        '<?xml version="1.0" encoding="UTF-8" ?>\n<deIdi2b2>\n'
        f"<TEXT>{text}</TEXT>\n<TAGS>\n{''.join(lines)}</TAGS>\n</deIdi2b2>\n"
    )


def _attribute(text: str) -> str:
    return quoteattr(text, {"\r": "&#13;", "\n": "&#10;", "\t": "&#9;"})
