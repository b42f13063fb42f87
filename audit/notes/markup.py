"""Extract the text of a web page or a fragment of HTML as a browser shows it.

Entities are decoded, and each block stands on a line of its own. Scripts, style sheets, comments
and attributes are left out. Nothing is fetched.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser

from audit.errors import AuditError

MAX_HTML_CHARS = 4_000_000
_MAX_TAGS = 100_000
_MAX_DEPTH = 1_000
"""Maximum depth of nested elements that are left out, or that keep their white space."""

_BLOCKS = frozenset(
    (
        *("address", "article", "aside", "blockquote", "body", "br", "caption", "center", "dd"),
        *("details", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1"),
        *("h2", "h3", "h4", "h5", "h6", "head", "header", "hr", "html", "legend", "li", "main"),
        *("nav", "ol", "option", "p", "pre", "section", "summary", "table", "tbody", "textarea"),
        *("tfoot", "thead", "title", "tr", "ul"),
    )
)
_CELLS = frozenset(("td", "th"))
_LEFT_OUT = frozenset(("script", "style", "template", "svg", "math", "object", "iframe"))
_PARAGRAPHS = frozenset(("p", "h1", "h2", "h3", "h4", "h5", "h6", "table", "ul", "ol", "dl"))
_KEPT_SPACE = frozenset(("pre", "textarea"))
_SPACE = re.compile(r"[ \t\r\n\f]+")
_LINE_END = re.compile(r"[ \t]+(?=\n)")
_EMPTY_LINES = re.compile(r"\n{3,}")


# No part of this pattern crosses the next "<", so a page of broken tags is read in linear time.
_ANGLE = re.compile(
    r"""<(?:(?P<tag>/?[A-Za-z](?:[^<>"']|"[^"<]*"|'[^'<]*')*>)|(?P<declaration>[!?][^<>]*>))?"""
)


def extract_html_text(html: str) -> str:
    """Return the text of HTML; raise AuditError if it is too large or nested too deep.

    A no-break space becomes a space, because names are written with it. Tabs separate the cells of
    a table.
    """
    if len(html) > MAX_HTML_CHARS or html.count("<") > _MAX_TAGS:
        raise AuditError("The HTML is too large, or has too many tags, for one note.")
    reader = _TextReader()
    reader.feed(_ANGLE.sub(_replace_angle, _remove_comments(html)))
    reader.close()
    text = _LINE_END.sub("", "".join(reader.pieces).replace("\xa0", " "))
    return _EMPTY_LINES.sub("\n\n", text).strip()


def _remove_comments(html: str) -> str:
    """Return HTML without its comments; a comment that is never closed counts as text."""
    pieces: list[str] = []
    offset = 0
    while (start := html.find("<!--", offset)) >= 0 and (end := html.find("-->", start + 4)) >= 0:
        pieces.append(html[offset:start])
        offset = end + 3
    return "".join((*pieces, html[offset:]))


def _replace_angle(angle: re.Match[str]) -> str:
    """Keep a whole tag, drop a declaration, and escape a "<" that begins neither.

    Otherwise the parser would read a tag that is never closed again for each tag after it.
    """
    if angle["tag"]:
        return angle[0]
    return "" if angle["declaration"] else "&lt;"


class _TextReader(HTMLParser):
    """A parser that collects the pieces of a page's text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._left_out: list[str] = []
        self._n_kept_space = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a line if the element is a block."""
        if tag in _LEFT_OUT:
            self._left_out.append(tag)
        elif tag in _KEPT_SPACE:
            self._n_kept_space += 1
        if max(len(self._left_out), self._n_kept_space) > _MAX_DEPTH:
            raise AuditError("The HTML is nested too deep.")
        self._end_line(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a line at `<br/>`; other empty elements have no text."""
        self._end_line(tag)

    def handle_endtag(self, tag: str) -> None:
        """End the line of a block."""
        if tag in self._left_out:
            del self._left_out[self._left_out.index(tag) :]
        elif tag in _KEPT_SPACE:
            self._n_kept_space = max(0, self._n_kept_space - 1)
        self._end_line(tag)
        if tag in _CELLS and not self._left_out:
            self.pieces.append("\t")

    def handle_data(self, data: str) -> None:
        """Collect text; white space becomes one space unless the element keeps it."""
        if self._left_out:
            return
        if not self._n_kept_space:
            data = _SPACE.sub(" ", data)
            is_begun = bool(self.pieces) and self.pieces[-1][-1] not in " \n\t"
            data = data if is_begun else data.lstrip(" ")
        if data:
            self.pieces.append(data)

    def _end_line(self, tag: str) -> None:
        if tag in _BLOCKS and not self._left_out:
            is_begun = bool(self.pieces) and not self.pieces[-1].endswith("\n")
            if tag == "br" or is_begun:
                self.pieces.append("\n")
            if tag in _PARAGRAPHS and self.pieces:
                self.pieces.append("\n")
