// Results: pictures, heat maps, lines and tables. A place in each is chosen by the arrow keys or by
// pointing, and read out.

import { numbers } from "./arrays.js";
import { drawn, element } from "./elements.js";

// The most cells of a table, the most pixels, and the most points of a line.
const CELLS = 400;
const PIXELS = 1 << 22;
const POINTS = 800;
const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [640, 240, 60, 8, 8, 24];
// From the least to the greatest.
const HEAT = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];

export function shown({ name, dtype, shape, text, file }, files) {
  const type = `${name}: ${dtype}[${shape.join(", ")}]`;
  const values = numbers(dtype, files[file.slice(1)] ?? new Uint8Array());
  const parts = [element("h2", {}, element("code", {}, type))];
  const isPicture = shape.length === 3 && [1, 3, 4].includes(shape[2]) || shape.length === 2 && dtype === "u8";
  const broad = shape.length >= 2 && shape[0] > 1 && shape[1] > 1 && shape[0] * shape[1] <= PIXELS;
  if (isPicture && broad) parts.push(picture(type, dtype, shape, values));
  else if (shape.length === 2 && broad) parts.push(heat(type, shape, values));
  else if (shape.length === 1 && shape[0] > 1) parts.push(line(type, values));
  if ((shape.length === 1 || shape.length === 2) && values.length <= CELLS && values.length) {
    parts.push(element("details", { open: values.length <= 64 }, element("summary", {}, "Table"), table(shape, values)));
  }
  parts.push(element("details", { open: parts.length === 1 }, element("summary", {}, "Text"), element("pre", {}, text)));
  return element("section", { "aria-label": type }, ...parts);
}

const brief = (number) => String(Number(number.toPrecision(6)));

// Lets one choose a place in a drawing and reads out what is there. The drawing has margins on the
// left and on the right, as parts of its width.
function readable(drawing, label, lengths, at, mark = () => {}, [left, right] = [0, 0]) {
  const said = element("output", { className: "faint" }, "Arrow keys, or the pointer, read out values.");
  let place = lengths.map(() => 0);
  const go = (next) => {
    place = next.map((index, axis) => Math.max(0, Math.min(lengths[axis] - 1, index)));
    mark(place);
    said.value = `[${place.join(", ")}]: ${at(place)}`;
  };
  const last = lengths.length - 1;
  const steps = { ArrowLeft: [last, -1], ArrowRight: [last, 1], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  drawing.addEventListener("keydown", (event) => {
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    go(place.map((index, axis) => index + (axis === step[0] ? step[1] : 0)));
  });
  drawing.addEventListener("pointermove", (event) => {
    const box = drawing.getBoundingClientRect();
    const part = [(event.clientY - box.top) / box.height, ((event.clientX - box.left) / box.width - left) / (1 - left - right)].slice(-lengths.length);
    go(lengths.map((length, axis) => Math.floor(part[axis] * length)));
  });
  drawing.setAttribute("tabindex", "0");
  drawing.setAttribute("role", "img");
  drawing.setAttribute("aria-label", label);
  return element("figure", {}, drawing, element("figcaption", {}, said));
}

function pixels([height, width], colour) {
  const canvas = element("canvas", { width, height });
  const image = new ImageData(width, height);
  for (let k = 0; k < width * height; k++) image.data.set(colour(k), 4 * k);
  canvas.getContext("2d").putImageData(image, 0, 0);
  if (width < 320) canvas.classList.add("coarse");
  return canvas;
}

function picture(type, dtype, shape, values) {
  const channels = shape[2] ?? 1;
  const scale = /f/.test(dtype) ? 255 : dtype === "u16" ? 1 / 257 : 1;
  const of = (k) => Array.from(values.subarray(channels * k, channels * (k + 1)), (one) => one * scale);
  const colour = (k) => {
    const [red, green = red, blue = red, alpha = 255] = of(k);
    return [red, green, blue, alpha];
  };
  const at = ([i, j]) => Array.from(values.subarray(channels * (i * shape[1] + j), channels * (i * shape[1] + j + 1)), brief).join(", ");
  return readable(pixels(shape, colour), `${type}, a picture`, shape.slice(0, 2), at);
}

function heat(type, shape, values) {
  const finite = values.filter(Number.isFinite);
  const [least, most] = finite.reduce(([a, b], one) => [Math.min(a, one), Math.max(b, one)], [Infinity, -Infinity]);
  const colour = (k) => {
    if (!Number.isFinite(values[k])) return [128, 128, 128, 255];
    const part = most > least ? ((values[k] - least) / (most - least)) * (HEAT.length - 1) : 0;
    const from = Math.min(Math.floor(part), HEAT.length - 2);
    return [...HEAT[from].map((low, c) => low + (part - from) * (HEAT[from + 1][c] - low)), 255];
  };
  const label = `${type}, a heat map from ${brief(least)} to ${brief(most)}`;
  return readable(pixels(shape, colour), label, shape, ([i, j]) => brief(values[i * shape[1] + j]));
}

// For a long array, the least and the greatest of each of some hundred stretches.
function points(values) {
  const each = Math.ceil(values.length / (POINTS / 2));
  if (each <= 2) return Array.from(values, (one, k) => [k, one]);
  const stretches = Array.from({ length: Math.ceil(values.length / each) }, (_, k) => [k * each, values.subarray(k * each, (k + 1) * each)]);
  return stretches.flatMap(([at, part]) => [[at, Math.min(...part)], [at, Math.max(...part)]]);
}

function line(type, values) {
  const finite = points(values).filter(([, y]) => Number.isFinite(y));
  const [least, most] = finite.reduce(([a, b], [, y]) => [Math.min(a, y), Math.max(b, y)], [Infinity, -Infinity]);
  const x = (k) => LEFT + (k / (values.length - 1)) * (WIDTH - LEFT - RIGHT);
  const y = (one) => TOP + (most > least ? (most - one) / (most - least) : 0.5) * (HEIGHT - BOTTOM - TOP);
  const dot = drawn("circle", { r: 4, class: "dot", visibility: "hidden" });
  const label = (at, text, anchor) => drawn("text", { ...at, class: "faint", "text-anchor": anchor }, text);
  const drawing = drawn("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "line" },
    drawn("path", { class: "axis", d: `M${LEFT} ${TOP}V${HEIGHT - BOTTOM}H${WIDTH - RIGHT}` }),
    drawn("polyline", { class: "data", points: finite.map(([k, one]) => `${x(k).toFixed(1)},${y(one).toFixed(1)}`).join(" ") }),
    ...(finite.length ? [label({ x: LEFT - 6, y: 14 }, brief(most), "end"), label({ x: LEFT - 6, y: HEIGHT - BOTTOM }, brief(least), "end")] : []),
    label({ x: LEFT, y: HEIGHT - 6 }, "0", "start"),
    label({ x: WIDTH - RIGHT, y: HEIGHT - 6 }, String(values.length - 1), "end"),
    dot);
  const mark = ([k]) => {
    dot.setAttribute("cx", x(k));
    dot.setAttribute("cy", y(values[k]));
    dot.setAttribute("visibility", Number.isFinite(values[k]) ? "visible" : "hidden");
  };
  return readable(drawing, `${type}, a line from ${brief(least)} to ${brief(most)}`, [values.length], ([k]) => brief(values[k]), mark, [LEFT / WIDTH, RIGHT / WIDTH]);
}

function table(shape, values) {
  const columns = shape.at(-1);
  const rows = shape.length === 1 ? 1 : shape[0];
  const number = (k) => element("th", { scope: "col" }, String(k));
  const head = element("tr", {}, element("td"), ...Array.from({ length: columns }, (_, k) => number(k)));
  const row = (k) => element("tr", {},
    element("th", { scope: "row" }, shape.length === 1 ? "" : String(k)),
    ...Array.from(values.subarray(k * columns, (k + 1) * columns), (one) => element("td", {}, brief(one))));
  return element("div", { className: "scroll" }, element("table", {}, head, ...Array.from({ length: rows }, (_, k) => row(k))));
}
