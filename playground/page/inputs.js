// The inputs of a function: a length for each size, and a value for each parameter, in the forms
// that the command line takes.

import { argumentFile } from "./arrays.js";
import { $, element } from "./elements.js";
import { argument, value } from "./sizes.js";

// The most cells of a table, and the most rows and columns.
const CELLS = 144;
const SIDE = 24;

export class Inputs {
  #changed;
  #resized;
  #sizes = {};
  #given = {};
  #files = {};
  #signature = null;
  #shown = "";

  // Calls `resized` when a size was changed by hand, and `changed` when an argument was.
  constructor(resized, changed) {
    [this.#resized, this.#changed] = [resized, changed];
  }

  get sizes() {
    return this.#sizes;
  }

  get files() {
    return this.#files;
  }

  // The texts of the arguments.
  get arguments() {
    const params = this.#signature?.params ?? [];
    return Object.fromEntries(params.map((parameter) => [parameter.name, this.#text(parameter)]));
  }

  // Forgets the values of another program.
  clear() {
    [this.#sizes, this.#given, this.#files, this.#shown] = [{}, {}, {}, ""];
  }

  // Shows the inputs of a function with the sizes that the compiler took.
  show(signature, sizes) {
    const names = sizes.map(([name]) => name);
    Object.assign(this.#sizes, Object.fromEntries(sizes));
    const shown = JSON.stringify([signature.params, names]);
    if (shown === this.#shown) return;
    [this.#shown, this.#signature] = [shown, signature];
    this.#fill($("sizes"), names.map((name) => this.#size(name)));
    this.#fill($("arguments"), signature.params.map((parameter) => this.#parameter(parameter)));
  }

  #fill(set, rows) {
    set.replaceChildren(set.querySelector("legend"), ...rows);
    set.hidden = rows.length === 0;
  }

  #size(name) {
    const input = element("input", { type: "number", min: 0, name, value: this.#sizes[name] ?? "" });
    input.addEventListener("input", () => {
      this.#sizes[name] = Number.isInteger(input.valueAsNumber) ? input.valueAsNumber : null;
      this.#fill($("arguments"), this.#signature.params.map((parameter) => this.#parameter(parameter)));
      this.#resized();
    });
    return element("label", {}, `${name} `, input);
  }

  // An argument for a parameter of the same name does not fit another type.
  #key({ name, dtype, shape }) {
    return `${name}: ${dtype}[${shape.join(", ")}]`;
  }

  #text(parameter) {
    return this.#given[this.#key(parameter)] ?? argument(parameter, this.#sizes);
  }

  #give(parameter, text) {
    this.#given[this.#key(parameter)] = text;
    this.#changed();
  }

  #parameter(parameter) {
    const { name, dtype, shape } = parameter;
    const type = shape.length ? `${dtype}[${shape.join(", ")}]` : dtype;
    const input = element("input", { name, value: this.#text(parameter), title: type });
    input.addEventListener("input", () => this.#give(parameter, input.value));
    const label = element("label", {}, `${name} `, input);
    const more = shape.length ? this.#array(parameter, input) : dtype === "bool" ? [] : [this.#slider(parameter, input)];
    return element("div", { className: "argument" }, label, ...more);
  }

  // A slider around the value, which a value outside moves.
  #slider(parameter, input) {
    const isFloat = /f/.test(parameter.dtype);
    const slider = element("input", { type: "range", "aria-label": `${parameter.name}, slider` });
    const place = () => {
      const value = Number(input.value) || 0;
      if (!slider.max || value < Number(slider.min) || value > Number(slider.max)) {
        const most = Math.max(1, 2 * Math.abs(value)) * (isFloat ? 1 : 2);
        const least = parameter.dtype.startsWith("u") ? 0 : -most;
        Object.assign(slider, { min: least, max: most, step: isFloat ? most / 100 : 1 });
      }
      slider.value = value;
    };
    place();
    slider.addEventListener("input", () => {
      input.value = slider.value;
      this.#give(parameter, slider.value);
    });
    input.addEventListener("input", place);
    return slider;
  }

  // A table to fill in, and files.
  #array(parameter, input) {
    const { name, shape } = parameter;
    const lengths = shape.map((length) => value(length, this.#sizes));
    const file = element("input", { type: "file", "aria-label": `${name} from a file`, title: "a picture, .npy, .csv and so on" });
    file.addEventListener("change", () => file.files[0] && this.#file(parameter, file.files[0]));
    input.addEventListener("dragover", (event) => event.preventDefault());
    input.addEventListener("drop", (event) => {
      const [dropped] = event.dataTransfer.files;
      if (!dropped) return;
      event.preventDefault();
      this.#file(parameter, dropped);
    });
    if (shape.length > 2 || lengths.some((length) => !(length <= SIDE)) || lengths.reduce((a, b) => a * b, 1) > CELLS) return [file];
    const table = element("details", {}, element("summary", {}, `${name} as a table`));
    table.addEventListener("toggle", () => {
      table.querySelector("table")?.remove();
      if (table.open) table.append(this.#table(parameter, lengths, input));
    });
    return [file, table];
  }

  async #file(parameter, file) {
    const read = await argumentFile(file, parameter.shape);
    this.#files[read.name] = read.bytes;
    // The axes that are sizes of their own get the lengths of the file.
    parameter.shape.forEach((length, axis) => {
      if (length in this.#sizes && read.shape?.length === parameter.shape.length) this.#sizes[length] = read.shape[axis];
    });
    this.#given[this.#key(parameter)] = read.name;
    this.#shown = "";
    this.#resized();
    this.#changed();
  }

  #table(parameter, lengths, input) {
    const [rows, columns] = lengths.length === 1 ? [1, lengths[0]] : lengths;
    const cells = elements(input.value, rows * columns, parameter.dtype);
    const write = () => {
      const row = (k) => `[${cells.slice(k * columns, (k + 1) * columns).join(", ")}]`;
      input.value = lengths.length === 1 ? row(0) : `[${Array.from({ length: rows }, (_, k) => row(k)).join(", ")}]`;
      this.#give(parameter, input.value);
    };
    const cell = (k) => {
      const place = lengths.length === 1 ? [k] : [Math.floor(k / columns), k % columns];
      const made = element("input", { value: cells[k], inputMode: "decimal", "aria-label": `${parameter.name}[${place.join(", ")}]` });
      made.addEventListener("input", () => {
        cells[k] = made.value;
        write();
      });
      return element("td", {}, made);
    };
    const row = (k) => element("tr", {}, ...Array.from({ length: columns }, (_, j) => cell(k * columns + j)));
    return element("table", {}, ...Array.from({ length: rows }, (_, k) => row(k)));
  }
}

// The elements that a text has, as far as it says them: generated ones are those to begin with.
function elements(text, count, dtype) {
  const said = text.startsWith("[") ? text.replaceAll(/[[\]\s]/g, "").split(",") : [];
  if (said.length === count) return said;
  const made = { ones: () => 1, zeros: () => 0, arange: (k) => k }[text.split(":")[0]] ?? ((k) => (7 * k + 3) % 10);
  return Array.from({ length: count }, (_, k) => (dtype === "bool" ? String(made(k) % 2 === 1) : String(made(k))));
}
