"""Read notes from FHIR in JSON: the texts of resources, and the people in their other fields.

Input: a resource, a Bundle, a list of resources, or one of these per line (NDJSON). Output: a note
for each resource that has a text, and people with the names, telephones, addresses, identifiers and
birth dates of the fields for them. Only texts become notes, so the content of a name field is
certain to be left out of them.

Source: HL7 FHIR R4: Narrative, Annotation, Attachment, HumanName, ContactPoint, Address.
"""

from __future__ import annotations

import base64
import binascii
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from typing import NamedTuple

from pydantic import JsonValue

from audit.errors import AuditError, Message
from audit.foreign import MAX_FILE_BYTES, decode_text, find_text_form, parse_json_value
from audit.notes.markup import extract_html_text
from audit.notes.mention_words import WORDS
from audit.tables import RowNote
from audit.text import MAX_NAME_CHARS

MAX_PEOPLE = 100_000
"""Maximum for one file, or for one folder of files."""
_MANY_OWNERS = 200
_MAX_DEPTH = 100
_MAX_VALUE_CHARS = 2_000
_PLAIN_TYPES = frozenset(("text/plain", "text/markdown"))
_HTML_TYPES = frozenset(("text/html", "application/xhtml+xml"))
_PEOPLE = re.compile(r"(?:^|/)(?:Patient|Practitioner|RelatedPerson|Person)(?:[/?]|$)")
_PATIENT = re.compile(r"(?:^|/)Patient/([^/?|#\s]{1,200})")
_TO_PATIENT = ("subject", "patient", "beneficiary", "for")
_TIMES = ("date", "effectiveDateTime", "issued", "authored", "authoredOn", "sent")
_TITLES = WORDS["titles"] | WORDS["suffixes"]
_SPACES = re.compile(r"\s+")
_URN = re.compile(r"urn:(?:uuid|oid):")


class Person(NamedTuple):
    """The facts of one person as (kind, value); kinds are named like the columns of a register.

    `owner` is the identifier of the patient to whom the facts belong, "" if they belong to nobody.
    """

    owner: str
    facts: tuple[tuple[str, str], ...]


@dataclass
class Resource:
    """One resource: its texts, the people that it names, and the parts that were left out."""

    name: str
    kind: str
    patient: str = ""
    time: str = ""
    texts: list[str] = field(default_factory=list)
    people: list[Person] = field(default_factory=list)
    facts: list[tuple[str, str]] = field(default_factory=list)
    """The facts of its patient other than names; together they become one of the people."""
    left_out: list[Message] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The texts of the resource, each once, separated by empty lines."""
        return "\n\n".join(dict.fromkeys(filter(str.strip, self.texts)))


Groups = tuple[tuple[Person, ...], ...]
"""People who are searched for together: those of the note's patient, and those without owner."""


@dataclass
class KnownPeople:
    """The people of a file, or of several."""

    _by_owner: dict[str, dict[Person, None]] = field(default_factory=dict)
    _groups: dict[str, Groups] = field(default_factory=dict)
    _n: int = 0

    def add(self, people: Iterable[Person]) -> None:
        """Add the people of a resource; raise AuditError if there are more than `MAX_PEOPLE`."""
        for person in people:
            owner_people = self._by_owner.setdefault(person.owner, {})
            self._n += person not in owner_people
            owner_people[person] = None
        if self._n > MAX_PEOPLE:
            raise AuditError(
                "The file knows of more than {n:,} people.",
                where="notes",
                do="Split it by patients.",
                n=MAX_PEOPLE,
            )

    def find_groups(self, patient: str) -> Groups:
        """Return the people who are searched for in the notes of a patient.

        In notes of an unknown patient these are all people, unless the file has very many patients.
        """
        if patient not in self._groups:
            is_known = bool(patient) and patient in self._by_owner
            is_one_of_many = is_known or len(self._by_owner) > _MANY_OWNERS
            owners = dict.fromkeys((patient, "")) if is_one_of_many else self._by_owner
            groups = (tuple(self._by_owner.get(owner, ())) for owner in owners)
            self._groups[patient] = tuple(group for group in groups if group)
        return self._groups[patient]


def read_text_and_people(text: str) -> tuple[str, Groups]:
    """Return all texts of a FHIR document joined into one, and the people in the document.

    Raises AuditError if the document is not JSON, or if no resource has a text.
    """
    people, texts, left_out = KnownPeople(), list[str](), list[Message]()
    for resource in read_resources(io.StringIO(text, newline="\n")):
        if isinstance(resource, RowNote):
            left_out.append(Message(resource.what))
            continue
        people.add(resource.people)
        texts.append(resource.text)
        left_out += resource.left_out
    joined = "\n\n".join(filter(None, texts))
    if not joined:
        reason = left_out[0] if left_out else "No resource has a text."
        raise AuditError(reason, where="notes")
    return joined, people.find_groups("")


def read_resources(lines: Iterator[str]) -> Iterator[Resource | RowNote]:
    """Yield the resources of a file in order, and a `RowNote` for each NDJSON line that is refused.

    Raises AuditError if the file holds neither one JSON value nor one per line.
    """
    is_empty = True
    for resource in _resources_or_refusals(lines):
        is_empty = False
        yield resource
    if is_empty:
        yield RowNote(1, "There is no FHIR resource in the file.")


def _resources_or_refusals(lines: Iterator[str]) -> Iterator[Resource | RowNote]:
    for value in read_json_values(lines):
        if isinstance(value, RowNote):
            yield value
        else:
            yield from _read_bundle(value)


def read_json_values(lines: Iterator[str]) -> Iterator[JsonValue | RowNote]:
    """Yield the JSON values of a file: its only one, or one a line; a bad line is a `RowNote`."""
    first = next((line for line in lines if line.strip()), "")
    value = _parse_line(first)
    if value is None:
        yield _parse_whole_file(first, lines)
        return
    yield value
    for row, line in enumerate(lines, start=2):
        if line.strip():
            value = _parse_line(line)
            yield RowNote(row, "The line is not JSON.") if value is None else value


def _parse_line(line: str) -> JsonValue:
    with suppress(AuditError):
        return parse_json_value(line.strip().removeprefix("\ufeff"), refusal=AuditError(""))
    return None


def _parse_whole_file(first: str, lines: Iterator[str]) -> JsonValue:
    """Parse a file that is one JSON text spread over several lines."""
    n_left = MAX_FILE_BYTES - len(first)
    pieces = [first]
    for line in lines:
        n_left -= len(line)
        pieces.append(line)
        if n_left < 0:
            raise AuditError(
                "The FHIR file is too large to be read at once.",
                where="notes",
                do="Write one resource a line (NDJSON).",
            )
    refusal = AuditError(
        "The FHIR file is no whole JSON, or holds too much.",
        where="notes",
        do="Write one resource a line (NDJSON).",
    )
    return parse_json_value("".join(pieces).lstrip("\ufeff"), refusal=refusal)


def _read_bundle(
    value: JsonValue, urls: Mapping[str, str] | None = None, *, name: str = "", depth: int = 0
) -> Iterator[Resource]:
    """Yield the resources of a value; each resource of a Bundle is yielded by itself.

    `urls` maps an address inside a Bundle to the name of the resource there.
    """
    if depth > _MAX_DEPTH:
        raise _make_depth_error()
    if isinstance(value, list):
        for element in value:
            yield from _read_bundle(element, urls, depth=depth + 1)
    elif isinstance(value, dict) and value.get("resourceType") == "Bundle":
        entries = [
            (str(entry.get("fullUrl") or ""), resource)
            for entry in _list_objects(value.get("entry"))
            if isinstance(resource := entry.get("resource"), dict)
        ]
        entry_names = {url: _name_of(resource, url) for url, resource in entries if url}
        resource_names = {**(urls or {}), **entry_names}
        for url, resource in entries:
            entry_name = resource_names.get(url, "")
            yield from _read_bundle(resource, resource_names, name=entry_name, depth=depth + 1)
    elif isinstance(value, dict) and isinstance(value.get("resourceType"), str):
        yield _read_resource(value, urls or {}, name=name or _name_of(value, ""))


def _name_of(resource: dict[str, JsonValue], url: str) -> str:
    """Return the name by which references call a resource: its type and identifier."""
    identifier = resource.get("id") or re.split("[/:]", url)[-1]
    return f"{resource.get('resourceType', '')}/{identifier}" if identifier else ""


def _read_resource(
    resource: dict[str, JsonValue], urls: Mapping[str, str], *, name: str
) -> Resource:
    kind = str(resource["resourceType"])[:MAX_NAME_CHARS]
    record = Resource(name[:MAX_NAME_CHARS], kind)
    if kind == "Patient":
        record.patient = name.partition("/")[2][:MAX_NAME_CHARS]
    else:
        references = (_find_patient(resource.get(key), urls) for key in _TO_PATIENT)
        record.patient = next(filter(None, references), "")
    times = (resource.get(key) for key in _TIMES)
    record.time = next((time for time in times if isinstance(time, str)), "")[:MAX_NAME_CHARS]
    if kind == "Patient" and record.patient:
        record.facts.append(("id", record.patient))
    for key, value, holder in _walk_json(resource):
        _take_text(record, key, value, holder)
        _take_names(record, key, value, holder, urls)
        _take_facts(record, key, value)
    if record.facts:
        record.people.append(Person(record.patient, tuple(dict.fromkeys(record.facts))))
    return record


def _walk_json(
    value: JsonValue, *, depth: int = 0
) -> Iterator[tuple[str, JsonValue, dict[str, JsonValue]]]:
    """Yield (key, value, surrounding members) for everything inside a JSON value, in order."""
    if depth > _MAX_DEPTH:
        raise _make_depth_error()
    if isinstance(value, list):
        for element in value:
            yield from _walk_json(element, depth=depth + 1)
    elif isinstance(value, dict):
        for key, element in value.items():
            yield key, element, value
            yield from _walk_json(element, depth=depth + 1)


def _make_depth_error() -> AuditError:
    return AuditError("The FHIR file is nested too deep.", where="notes")


def _list_objects(value: JsonValue) -> list[dict[str, JsonValue]]:
    """Return the values with members in a field that holds one or a list."""
    return [
        element
        for element in (value if isinstance(value, list) else [value])
        if isinstance(element, dict)
    ]


def _take_text(record: Resource, key: str, value: JsonValue, holder: dict[str, JsonValue]) -> None:
    """Add the text of a field to the texts of a resource, if the field holds one."""
    try:
        if key == "div" and isinstance(value, str):
            record.texts.append(extract_html_text(value))
        elif key == "conclusion" and isinstance(value, str):
            record.texts.append(value)
        elif key == "note":
            texts = (annotation.get("text") for annotation in _list_objects(value))
            record.texts += (text for text in texts if isinstance(text, str))
        elif key == "data" and isinstance(value, str) and "contentType" in holder:
            record.texts.append(_read_attachment(value, str(holder["contentType"])))
    except AuditError as error:
        record.left_out.append(Message("A part was left out: {why}", why=error.what))


def _read_attachment(data: str, content_type: str) -> str:
    kind = content_type.partition(";")[0].strip().lower()
    if kind not in _PLAIN_TYPES | _HTML_TYPES:
        printable_kind = kind if re.fullmatch(r"[\w.+/-]{1,80}", kind) else "?"
        raise AuditError("The attachment is no text, but {kind}.", kind=printable_kind)
    try:
        raw = base64.b64decode(_SPACES.sub("", data), validate=True)
    except (binascii.Error, ValueError):
        raise AuditError("The attachment is damaged.") from None
    if not raw:
        return ""
    text, _ = decode_text(raw, subject="notes")
    form = find_text_form(text, subject="notes")
    if form == "fhir":
        raise AuditError("The attachment is no text, but {kind}.", kind="FHIR")
    return extract_html_text(text) if kind in _HTML_TYPES or form == "html" else text


def _take_names(
    record: Resource,
    key: str,
    value: JsonValue,
    holder: dict[str, JsonValue],
    urls: Mapping[str, str],
) -> None:
    """Add the names in a field to the people of a resource; each name becomes a person."""
    owner = record.patient
    if key in ("name", "valueHumanName"):
        names = [facts for name in _list_objects(value) for facts in _read_name(name)]
    elif key == "authorString":
        owner, names = "", [_make_facts("full", [_remove_titles(value)])]
    elif key == "display" and _PEOPLE.search(urls.get(ref := str(holder.get("reference")), ref)):
        owner, names = _find_patient(holder, urls), [_make_facts("full", [_remove_titles(value)])]
    elif key == "valueString" and str(holder.get("url")).endswith("mothersMaidenName"):
        names = [_make_facts("other", [value])]
    else:
        return
    record.people += (Person(owner, tuple(facts)) for facts in names if facts)


def _take_facts(record: Resource, key: str, value: JsonValue) -> None:
    """Add the telephones, addresses, identifiers or birth date of a field to a resource's facts."""
    if key in ("telecom", "valueContactPoint"):
        record.facts += _make_facts(
            "contact", (contact.get("value") for contact in _list_objects(value))
        )
    elif key in ("address", "valueAddress"):
        for address in _list_objects(value):
            record.facts += _read_address(address)
    elif key in ("identifier", "valueIdentifier"):
        values = (
            _URN.sub("", str(identifier.get("value", ""))) for identifier in _list_objects(value)
        )
        record.facts += _make_facts("linkage_code", values)
    elif key == "birthDate" and isinstance(value, str):
        with suppress(ValueError):
            record.facts.append(("birth", date.fromisoformat(value).isoformat()))


def _remove_titles(name: JsonValue) -> str:
    """Return a name without titles and degrees."""
    words = name.split() if isinstance(name, str) else []
    return " ".join(word for word in words if word.strip(".,").lower() not in _TITLES)


def _make_facts(kind: str, values: Iterable[JsonValue]) -> list[tuple[str, str]]:
    """Return facts for those values of a field that can be searched for in a text."""
    limit = MAX_NAME_CHARS if kind in ("first", "middle", "last", "full", "other") else None
    texts = (" ".join(value.split()) for value in values if isinstance(value, str))
    return [(kind, text) for text in texts if text and len(text) <= (limit or _MAX_VALUE_CHARS)]


def _read_name(name: dict[str, JsonValue]) -> Iterator[list[tuple[str, str]]]:
    given = name.get("given")
    names = [
        given_name
        for given_name in (given if isinstance(given, list) else [given])
        if isinstance(given_name, str)
    ]
    parts = _make_facts("first", names[:1]) + _make_facts("middle", [" ".join(names[1:])])
    parts += _make_facts("last", [name.get("family")])
    full_name = _make_facts("full", [_remove_titles(name.get("text"))])
    yield from filter(None, (parts, full_name))


def _read_address(address: dict[str, JsonValue]) -> list[tuple[str, str]]:
    lines = address.get("line")
    lines = lines if isinstance(lines, list) else [lines]
    places = (address.get(key) for key in ("city", "district", "text"))
    return _make_facts("address", [*lines, *places]) + _make_facts(
        "postcode", [address.get("postalCode")]
    )


def _find_patient(value: JsonValue, urls: Mapping[str, str]) -> str:
    """Return the identifier of the patient to whom a reference points; "" for anything else."""
    reference = value.get("reference") if isinstance(value, dict) else None
    if not isinstance(reference, str):
        return ""
    match = _PATIENT.search(urls.get(reference, reference))
    return match[1] if match else ""
