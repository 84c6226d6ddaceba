// The editor: a text area, over a sheet of paper with the same text in colours. The colours are
// ranges of the paper's one text node, which move with the text while the compiler is at work.

const INDENT = "    ";
const PAIRS = { "(": ")", "[": "]", "{": "}" };
const CLOSING = Object.values(PAIRS);

export class Editor {
  #area;
  #paper;
  #leaves = false;

  // Calls `changed` whenever the text was changed by hand.
  constructor(area, paper, changed) {
    this.#area = area;
    this.#paper = paper.appendChild(document.createTextNode("\n"));
    area.addEventListener("input", () => {
      this.#copy();
      changed();
    });
    area.addEventListener("scroll", () => ([paper.scrollTop, paper.scrollLeft] = [area.scrollTop, area.scrollLeft]));
    area.addEventListener("keydown", (event) => this.#key(event));
    area.addEventListener("blur", () => (this.#leaves = false));
  }

  get text() {
    return this.#area.value;
  }

  set text(text) {
    this.#area.value = text;
    CSS.highlights?.clear();
    this.#copy();
  }

  // Replaces a part of the text as if it was typed.
  replace(from, to, text) {
    this.#area.focus();
    this.#area.setSelectionRange(from, to);
    this.#type(text);
  }

  select(from, to) {
    this.#area.focus();
    this.#area.setSelectionRange(from, to);
  }

  // Gives the ranges of each name, in the order of the entries, the look that `style.css` has for
  // it.
  paint(entries) {
    if (!CSS.highlights) return;
    const end = this.#paper.length;
    for (const [name, ranges] of entries) {
      const made = ranges.filter(([from, to]) => from < to && to <= end).map(([from, to]) => {
        const range = new Range();
        range.setStart(this.#paper, from);
        range.setEnd(this.#paper, to);
        return range;
      });
      CSS.highlights.set(name, new Highlight(...made));
    }
  }

  // Only the part that differs is replaced, so that ranges elsewhere stay.
  #copy() {
    const [old, text] = [this.#paper.data, `${this.text}\n`];
    const most = Math.min(old.length, text.length);
    let [from, rest] = [0, 0];
    while (from < most && old[from] === text[from]) from++;
    while (rest < most - from && old[old.length - 1 - rest] === text[text.length - 1 - rest]) rest++;
    this.#paper.replaceData(from, old.length - rest - from, text.slice(from, text.length - rest));
  }

  // Puts a text in the place of the selection; the browser can undo it.
  #type(text) {
    if (!document.execCommand(text ? "insertText" : "delete", false, text)) {
      this.#area.setRangeText(text, this.#area.selectionStart, this.#area.selectionEnd, "end");
      this.#area.dispatchEvent(new Event("input"));
    }
  }

  #key(event) {
    if (event.key === "Escape") this.#leaves = true;
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.key === "Tab" && this.#leaves) return;
    const { selectionStart: from, selectionEnd: to } = this.#area;
    const done = event.key === "Tab" ? this.#indent(from, to, event.shiftKey) : this.#bracket(event.key, from, to);
    if (done) event.preventDefault();
    if (event.key !== "Escape" && event.key !== "Shift") this.#leaves = false;
  }

  // Indents the selected lines, or the place of the cursor.
  #indent(from, to, back) {
    const text = this.text;
    if (from === to && !back) {
      this.#type(INDENT);
      return true;
    }
    const begin = text.lastIndexOf("\n", from - 1) + 1;
    const before = text.slice(begin, to);
    const after = before.replace(back ? /^ {1,4}/gm : /^(?=.)/gm, back ? "" : INDENT);
    if (after !== before) {
      const first = after.indexOf("\n") < 0 ? after.length - before.length : back ? 0 : INDENT.length;
      this.#area.setSelectionRange(begin, to);
      this.#type(after);
      this.#area.setSelectionRange(Math.max(begin, from + first), begin + after.length);
    }
    return true;
  }

  // Brackets come in pairs, and lines begin below the one before.
  #bracket(key, from, to) {
    const text = this.text;
    const [before, next] = [text[from - 1] ?? "", text[to] ?? ""];
    if (key === "Enter") {
      const indent = /^ */.exec(text.slice(text.lastIndexOf("\n", from - 1) + 1, from))[0];
      const inside = before in PAIRS;
      this.#type(`\n${indent}${inside ? INDENT : ""}`);
      if (inside && next === PAIRS[before]) {
        const at = this.#area.selectionStart;
        this.#type(`\n${indent}`);
        this.#area.setSelectionRange(at, at);
      }
      return true;
    }
    if (key in PAIRS && (from < to || !/[\w([{]/.test(next))) {
      this.#type(`${key}${text.slice(from, to)}${PAIRS[key]}`);
      this.#area.setSelectionRange(from + 1, to + 1);
      return true;
    }
    if (from < to) return false;
    if (CLOSING.includes(key) && next === key) {
      this.#area.setSelectionRange(from + 1, from + 1);
      return true;
    }
    if (key === "}" && /(^|\n) {4,}$/.test(text.slice(0, from))) {
      this.#area.setSelectionRange(from - INDENT.length, from);
      this.#type(key);
      return true;
    }
    if (key === "Backspace" && before in PAIRS && next === PAIRS[before]) {
      this.#area.setSelectionRange(from - 1, from + 1);
      this.#type("");
      return true;
    }
    return false;
  }
}

// From bytes of a text, as the compiler counts, to its characters, as the browser does.
export function characters(text) {
  if (!/[^\x00-\x7f]/.test(text)) return (byte) => byte;
  const places = [];
  let at = 0;
  for (const character of text) {
    const code = character.codePointAt(0);
    const bytes = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (let k = 0; k < bytes; k++) places.push(at);
    at += character.length;
  }
  return (byte) => places[byte] ?? at;
}

// The colours of kernels, which repeat.
const COLOURS = 8;

// The parts of a text in the colour of the kernel that computes them: of spans inside others, the
// inner ones show.
export function shaded(shades, length) {
  const kernels = new Int32Array(length).fill(-1);
  const outer = shades.filter(([, to]) => to <= length).sort((a, b) => b[1] - b[0] - (a[1] - a[0]));
  for (const [from, to, kernel] of outer) kernels.fill(kernel % COLOURS, from, to);
  const parts = Array.from({ length: COLOURS }, (_, k) => [`k${k}`, []]);
  for (let from = 0, to; from < length; from = to) {
    for (to = from + 1; to < length && kernels[to] === kernels[from]; ) to++;
    if (kernels[from] >= 0) parts[kernels[from]][1].push([from, to]);
  }
  return parts;
}
