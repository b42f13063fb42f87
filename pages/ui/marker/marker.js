// A note whose marks are changed by hand: by mouse, by touch, or by keyboard alone.
// Places go out and come in as code points, as Python counts; within, as UTF-16, as browsers do.
// Text is only ever put in as text, never as HTML.

const TITLE_CHARS = 60;
const SETTLED_MS = 350;

export default function ({ data, parentElement, setTriggerValue }) {
  let sheet = parentElement.kaSheet;
  if (!sheet) {
    sheet = parentElement.kaSheet = new Sheet(parentElement);
  }
  sheet.send = (wish) => setTriggerValue("wish", wish);
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
    const known = JSON.stringify(data);
    if (known === this.known) return;
    const isOther = this.data?.text !== data.text;
    const hadFocus = this.root.contains(document.activeElement);
    Object.assign(this, { known, data, text: data.text, words: null, pieces: [] });
    this.close();
    this.units = [0];
    for (const point of data.text) this.units.push(this.units.at(-1) + point.length);
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
    for (const [first, last, label, tone, word] of this.data.marks) {
      add(this.body, this.units[first]);
      const attributes = { class: `ka-mark ka-mark-${tone}`, tabindex: "0", role: "button" };
      const mark = make("mark", { ...attributes, "aria-haspopup": "dialog" });
      Object.assign(mark, { place: [this.units[first], this.units[last]], label });
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
    if (isOpening) {
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

  // The choice of a type.

  open(place, mark = null) {
    this.close();
    this.place = place;
    const { say, types, scopes } = this.data;
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
      label.append(radio, word);
      fieldset.append(label);
    });
    const buttons = make("div", { class: "ka-panel-types" });
    for (const [code, word, tone] of types) {
      const button = make("button", { type: "button" });
      button.append(make("span", { class: `ka-mark ka-mark-${tone}` }, word));
      button.setAttribute("aria-pressed", String(mark?.label === code));
      button.onclick = () => this.wish(code);
      buttons.append(button);
    }
    if (touched.length) {
      const button = make("button", { type: "button", class: "ka-panel-none" }, say.none);
      button.onclick = () => this.wish("");
      buttons.append(button);
    }
    const close = make("button", { type: "button", class: "ka-panel-close" }, say.close);
    close.onclick = () => this.cancel();
    this.panel.append(fieldset, buttons, close);
    this.panel.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.cancel();
      else if (event.key === "Enter" && event.target.type === "radio") event.preventDefault();
      else return;
      event.stopPropagation();
    });
    this.root.append(this.panel);
    this.settle();
    buttons.querySelector("button").focus({ preventScroll: true });
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

  wish(label) {
    const scope = this.panel.querySelector("input:checked").value;
    const place = this.place.map((unit) => this.units.findIndex((known) => known >= unit));
    this.isAwaited = true;
    this.close();
    this.body.focus({ preventScroll: true });
    this.send({ place, label, scope, asked: Date.now() });
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
