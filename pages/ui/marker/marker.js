// A note whose marks are changed by hand: by mouse, by touch, or by keyboard alone.
// Places go out and come in as code points, as Python counts; within, as UTF-16, as browsers do.
// Text is only ever put in as text, never as HTML.

const TITLE_CHARS = 60;
const SETTLED_MS = 350;
const KEY = /^(?:Digit|Numpad)([0-9])$/;

export default function ({ data, parentElement, setTriggerValue }) {
  let sheet = parentElement.kaSheet;
  if (!sheet) {
    sheet = parentElement.kaSheet = new Sheet(parentElement);
  }
  sheet.send = (wish) => setTriggerValue("wish", wish);
  sheet.ask = (wish) => setTriggerValue("count", wish);
  sheet.show(data);
  const turn = (sheet.turn = (sheet.turn ?? 0) + 1);
  return () => sheet.turn === turn && sheet.leave();
}

function make(tag, attributes = {}, text = "") {
  const found = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) found.setAttribute(name, value);
  found.textContent = text;
  return found;
}

// Whether marks, in their order, cover a stretch together.
function isCovered(start, end, spans) {
  let at = start;
  for (const span of spans) if (span.start <= at) at = Math.max(at, span.end);
  return at >= end;
}

class Sheet {
  constructor(host) {
    this.host = host;
    this.root = host.appendChild(make("div", { class: "ka-sheet" }));
    this.body = make("p", { class: "ka-document ka-sheet-text", tabindex: "0", role: "group" });
    this.status = make("p", { class: "ka-sheet-status", "aria-live": "polite" });
    this.root.append(this.body, this.status);
    this.body.addEventListener("keydown", (event) => this.key(event));
    this.body.addEventListener("pointerdown", () => (this.isPressed = true));
    this.body.addEventListener("click", (event) => this.click(event));
    this.body.addEventListener("scroll", () => this.scrollReleased());
    this.listeners = [
      ["pointerup", () => this.released()],
      ["pointerdown", (event) => this.panel?.contains(event.target) || this.close()],
      ["selectionchange", () => this.selectionMoved()],
    ];
    for (const [kind, listener] of this.listeners) document.addEventListener(kind, listener);
  }

  leave() {
    for (const [kind, listener] of this.listeners) document.removeEventListener(kind, listener);
    clearTimeout(this.timer);
    this.root.remove();
    delete this.host.kaSheet;
  }

  show(data) {
    const { count, ...rest } = data;
    const known = JSON.stringify(rest);
    if (known === this.known) return this.confirm(count);
    const isOther = this.data?.text !== data.text;
    const hadFocus = this.root.contains(document.activeElement);
    Object.assign(this, { known, data, text: data.text, words: null, pieces: [] });
    this.close();
    this.units = [0];
    for (const point of data.text) this.units.push(this.units.at(-1) + point.length);
    this.spans = data.marks.map(([first, last, group]) => (
      { start: this.units[first], end: this.units[last], group }
    ));
    this.body.setAttribute("aria-label", data.say.label);
    this.draw();
    if (isOther) this.place = null;
    else if (hadFocus || this.isAwaited) this.focusAt(this.place?.[0] ?? 0);
    this.isAwaited = false;
  }

  draw() {
    this.body.replaceChildren();
    let at = 0;
    const add = (parent, end) => {
      if (end <= at) return;
      const node = document.createTextNode(this.text.slice(at, end));
      parent.append(node);
      this.pieces.push({ node, start: at, end });
      at = end;
    };
    for (const [first, last, group, tone, word, type, isShown] of this.data.marks) {
      if (!isShown) continue;
      add(this.body, this.units[first]);
      const attributes = { class: `ka-mark ka-mark-${tone}`, tabindex: "0", role: "button" };
      const mark = make("mark", { ...attributes, "aria-haspopup": "dialog", title: type });
      Object.assign(mark, { place: [this.units[first], this.units[last]], group });
      add(mark, this.units[last]);
      mark.append(make("small", {}, word));
      this.body.append(mark);
    }
    add(this.body, this.text.length);
    if (this.data.rest) this.body.append(make("small", {}, ` ${this.data.rest}`));
  }

  // Where a place of the page is in the text, and the other way round.

  offset(node, offset) {
    const own = this.pieces.find((piece) => piece.node === node);
    if (own) return own.start + offset;
    const before = document.createRange();
    before.setStart(this.body, 0);
    before.setEnd(node, offset);
    const whole = this.pieces.filter((p) => before.comparePoint(p.node, p.node.length) <= 0);
    return whole.at(-1)?.end ?? 0;
  }

  range(start, end) {
    const found = document.createRange();
    const first = this.pieces.find((piece) => start < piece.end) ?? this.pieces.at(-1);
    const last = this.pieces.find((piece) => end <= piece.end) ?? this.pieces.at(-1);
    found.setStart(first.node, start - first.start);
    found.setEnd(last.node, end - last.start);
    return found;
  }

  selected() {
    const selection = getSelection();
    if (!selection.rangeCount || selection.isCollapsed) return null;
    const range = selection.getRangeAt(0);
    if (!range.intersectsNode(this.body)) return null;
    const isIn = (node) => this.body.contains(node);
    if (!isIn(range.startContainer) && !isIn(range.endContainer)) return null;
    const start = isIn(range.startContainer)
      ? this.offset(range.startContainer, range.startOffset) : 0;
    const end = isIn(range.endContainer)
      ? this.offset(range.endContainer, range.endOffset) : this.text.length;
    const stretch = this.text.slice(start, end);
    const first = start + stretch.length - stretch.trimStart().length;
    const last = first + stretch.trim().length;
    return first < last ? [first, last] : null;
  }

  select(start, end) {
    this.place = [start, end];
    this.byKeys = true;
    const range = this.range(start, end);
    getSelection().setBaseAndExtent(
      range.startContainer, range.startOffset, range.endContainer, range.endOffset,
    );
    const { top, bottom } = range.getBoundingClientRect();
    const box = this.body.getBoundingClientRect();
    if (bottom > box.bottom - 20) this.body.scrollBy(0, bottom - box.bottom + 80);
    else if (top < box.top) this.body.scrollBy(0, top - box.top - 40);
    const scrolled = this.root.closest("[data-testid=stMain]") ?? document.scrollingElement;
    if (bottom > innerHeight - 60) scrolled.scrollBy(0, bottom - innerHeight + 160);
    else if (top < 100) scrolled.scrollBy(0, top - 160);
    this.status.textContent = this.text.slice(start, end);
  }

  // Mouse and touch.

  click(event) {
    const mark = event.target.closest("mark");
    if (mark && !this.selected()) this.open(mark.place, mark);
  }

  released() {
    if (!this.isPressed) return;
    this.isPressed = this.byKeys = false;
    setTimeout(() => this.openSelected());
  }

  selectionMoved() {
    clearTimeout(this.timer);
    if (this.isPressed || this.byKeys || this.panel) return;
    this.timer = setTimeout(() => this.openSelected(), SETTLED_MS);
  }

  openSelected() {
    const place = this.selected();
    if (place && !this.isPressed && !this.byKeys && !this.panel) this.open(place);
  }

  // The keyboard.

  key(event) {
    const isOpening = event.key === "Enter" || event.key === " ";
    const mark = event.target.closest("mark");
    const group = this.groupOf(event);
    if (group !== undefined) {
      this.place = mark ? mark.place : this.place;
      if (this.place) this.wish(group, "here");
    } else if (isOpening) {
      const place = mark ? mark.place : this.place;
      if (place) this.open(place, mark);
    } else if (event.key.startsWith("Arrow") && !event.altKey && !event.metaKey) {
      if (mark) {
        this.place = mark.place;
        this.body.focus({ preventScroll: true });
      }
      this.move(event);
    } else if (event.key === "Escape") {
      getSelection().removeAllRanges();
      this.place = null;
    } else return;
    event.preventDefault();
  }

  move({ key, shiftKey, ctrlKey }) {
    const words = this.segments();
    if (!words.length) return;
    const way = key === "ArrowRight" || key === "ArrowDown" ? 1 : -1;
    const isByLine = key === "ArrowDown" || key === "ArrowUp";
    if (!this.place) return this.select(...words[0]);
    const [start, end] = this.place;
    if (shiftKey) return this.select(start, this.moved(start, end, way, ctrlKey, words));
    let next = way > 0
      ? words.findIndex(([first]) => first >= end)
      : words.findLastIndex(([, last]) => last <= start);
    if (isByLine) next = this.nextLine(next, way, words);
    if (next >= 0 && next < words.length) this.select(...words[next]);
  }

  moved(start, end, way, isByCharacter, words) {
    const points = isByCharacter
      ? this.units : [...words.map(([, last]) => last), this.text.length];
    const ends = points.filter((point) => point > start);
    return (way > 0 ? ends.find((point) => point > end)
      : ends.findLast((point) => point < end)) ?? end;
  }

  nextLine(from, way, words) {
    const here = this.range(...this.place).getClientRects()[0];
    const middle = (word) => {
      const { left, right, top } = this.range(...word).getClientRects()[0];
      return [(left + right) / 2, top];
    };
    let best = -1;
    let line = null;
    for (let at = from; at >= 0 && at < words.length; at += way) {
      const [x, top] = middle(words[at]);
      if (line === null && Math.abs(top - here.top) < here.height / 2) continue;
      line ??= top;
      if (Math.abs(top - line) >= here.height / 2) break;
      const isNearer = best < 0 || Math.abs(x - here.left) < Math.abs(middle(words[best])[0] - here.left);
      if (isNearer) best = at;
    }
    return best;
  }

  segments() {
    if (!this.words) {
      const found = new Intl.Segmenter(this.data.lang, { granularity: "word" }).segment(this.text);
      const words = [...found].filter((one) => one.isWordLike);
      this.words = words.map((one) => [one.index, one.index + one.segment.length]);
    }
    return this.words;
  }

  focusAt(start) {
    const marks = [...this.body.querySelectorAll("mark")];
    const mark = marks.find(({ place }) => place[0] <= start && start < place[1]);
    (mark ?? this.body).focus();
  }

  groupOf({ code, altKey, ctrlKey, metaKey }) {
    const digit = altKey || ctrlKey || metaKey ? null : KEY.exec(code)?.[1];
    return digit === "0" ? "" : this.data.kinds[digit - 1]?.[0];
  }

  // Where a wish would change something; the server counts by the same rules.

  placesOf(phrase) {
    const letter = this.data.letters;
    const isLetter = (character) => new RegExp(`^${letter}`, "u").test(character);
    const before = isLetter(phrase) ? `(?<!${letter})` : "";
    const behind = isLetter([...phrase].at(-1)) ? `(?!${letter})` : "";
    const pattern = new RegExp(before + phrase.replace(/[\^$\\.*+?()[\]{}|/]/g, "\\$&") + behind, "gu");
    return [...this.text.matchAll(pattern)].map((hit) => [hit.index, hit.index + phrase.length]);
  }

  changes(group, isEverywhere) {
    const [start, end] = this.place;
    const places = isEverywhere ? this.placesOf(this.text.slice(start, end)) : [];
    const isThere = (span) => places.some(([first, last]) => first === span.start && last === span.end);
    if (!group) {
      const isGone = (span) => (span.start < end && start < span.end) || isThere(span);
      return this.spans.filter(isGone).length;
    }
    if (!isThere({ start, end })) places.push(this.place);
    return places.filter(([first, last]) => {
      const inside = this.spans.filter((span) => first <= span.start && span.end <= last);
      const isSame = (span) => span.start === first && span.end === last && span.group === group;
      if (inside.some(isSame)) return false;
      return isCovered(first, last, inside) || !isCovered(first, last, this.spans);
    }).length;
  }

  // The choice of a kind.

  open(place, mark = null) {
    this.close();
    this.place = place;
    const { say, kinds, scopes } = this.data;
    const [start, end] = place;
    const touched = [...this.body.querySelectorAll("mark")].filter(
      (one) => one.place[0] < end && start < one.place[1],
    );
    this.panel = make("div", { class: "ka-panel", role: "dialog", "aria-label": say.panel });
    const shown = [...this.text.slice(start, end).replace(/\s+/gu, " ")];
    const title = shown.slice(0, TITLE_CHARS).join("") + (shown.length > TITLE_CHARS ? "…" : "");
    this.panel.append(make("p", { class: "ka-panel-title" }, title));
    const fieldset = make("fieldset");
    fieldset.append(make("legend", {}, say.scope));
    scopes.forEach(([code, word], nth) => {
      const label = make("label");
      const radio = make("input", { type: "radio", name: "ka-scope", value: code });
      radio.checked = nth === 0;
      radio.onchange = () => this.tell();
      label.append(radio, code === "note" ? `${word} ${this.places()}` : word);
      fieldset.append(label);
    });
    const buttons = make("div", { class: "ka-panel-types" });
    const choices = touched.length ? [...kinds, ["", say.none]] : kinds;
    choices.forEach(([code, word], nth) => {
      const button = make("button", { type: "button", "data-group": code });
      button.append(make("kbd", {}, code ? String(nth + 1) : "0"));
      button.append(make("span", code ? { class: `ka-mark ka-mark-${code}` } : {}, word));
      button.append(make("output", { "aria-live": "off" }));
      button.setAttribute("aria-pressed", String(code !== "" && mark?.group === code));
      button.onclick = () => this.wish(code);
      buttons.append(button);
    });
    const sure = make("button", { type: "button", class: "ka-panel-sure", hidden: "" });
    sure.onclick = () => this.finish(this.asked);
    const close = make("button", { type: "button", class: "ka-panel-close" }, say.close);
    close.onclick = () => this.cancel();
    this.panel.append(buttons, fieldset, sure, close);
    this.asked = null;
    this.tell();
    this.panel.addEventListener("keydown", (event) => {
      const group = this.groupOf(event);
      if (event.key === "Escape") this.cancel();
      else if (group !== undefined) this.wish(group);
      else if (event.key === "Enter" && event.target.type === "radio") event.preventDefault();
      else return;
      event.stopPropagation();
    });
    this.root.append(this.panel);
    this.settle();
    (buttons.querySelector("button:enabled") ?? close).focus({ preventScroll: true });
    this.panel.scrollIntoView({ block: "nearest" });
  }

  settle() {
    const around = this.root.getBoundingClientRect();
    const rects = this.range(...this.place).getClientRects();
    const { left, bottom } = rects[rects.length - 1];
    const free = this.root.clientWidth - this.panel.offsetWidth;
    this.panel.style.left = `${Math.max(0, Math.min(left - around.left, free))}px`;
    this.panel.style.top = `${bottom - around.top + 4}px`;
  }

  scope() {
    return this.panel.querySelector("input:checked").value;
  }

  // A text that is cut has more places than are seen here.
  places() {
    const n = Math.max(...this.data.kinds.map(([group]) => this.changes(group, true)));
    const { place_one, place_many } = this.data.say;
    return n === 1 && !this.data.rest ? place_one : place_many.replace("{n}", `${n}${this.data.rest ? "+" : ""}`);
  }

  // How many places each kind would change, on its button.
  tell() {
    const scope = this.scope();
    this.asked = null;
    this.panel.querySelector(".ka-panel-sure").hidden = true;
    for (const button of this.panel.querySelectorAll("[data-group]")) {
      const n = this.changes(button.dataset.group, scope === "note");
      button.querySelector("output").textContent = scope === "note" ? n : "";
      button.disabled = scope !== "set" && n === 0;
    }
  }

  wish(group, scope = this.scope()) {
    if (scope !== "set" && !this.changes(group, scope === "note")) return;
    const place = this.place.map((unit) => this.units.findIndex((known) => known >= unit));
    const wish = { place, group, scope, asked: Date.now() };
    if (scope !== "set") return this.finish(wish);
    this.asked = wish;
    const sure = this.panel.querySelector(".ka-panel-sure");
    Object.assign(sure, { textContent: this.data.say.counting, hidden: false, disabled: true });
    this.ask(wish);
  }

  // What changes all notes is done once the server has said how many places that are.
  confirm(count) {
    if (!this.panel || !this.asked || count?.asked !== this.asked.asked) return;
    const sure = this.panel.querySelector(".ka-panel-sure");
    Object.assign(sure, { textContent: count.label, disabled: !count.n });
    if (count.n) sure.focus({ preventScroll: true });
  }

  finish(wish) {
    this.isAwaited = true;
    this.close();
    this.body.focus({ preventScroll: true });
    this.send({ ...wish, asked: Date.now() });
  }

  // The released text beside it shows the same part of the note.
  scrollReleased() {
    const row = this.root.closest("[data-testid=stHorizontalBlock]");
    const released = row?.querySelector(".ka-released");
    const { scrollTop, scrollHeight, clientHeight } = this.body;
    const free = scrollHeight - clientHeight;
    if (!released || free <= 0) return;
    released.scrollTop = (scrollTop / free) * (released.scrollHeight - released.clientHeight);
  }

  cancel() {
    const [start] = this.place;
    this.close();
    this.focusAt(start);
  }

  close() {
    this.panel?.remove();
    this.panel = null;
  }
}
