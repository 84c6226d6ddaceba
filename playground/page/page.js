// The page: a program, the report on it, and its results.

import { Compiler } from "./compiler.js";
import { decoded, encoded } from "./link.js";
import { argument, names } from "./sizes.js";

const $ = (id) => document.getElementById(id);
const compiler = new Compiler();
const first = `fn softmax(x: f32[m]) -> f32[m] {
    let e = exp(x - max(x))
    e / sum(e)
}

fn main(x: f32[n, m]) -> f32[n, m] {
    let y[i] = softmax(x[i])
    y
}
`;
const state = { want: "report", signatures: [], sizes: {}, given: {} };

// A new element. Texts are set as texts, and never parsed.
function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function request(want) {
  const sizes = Object.fromEntries(Object.entries(state.sizes).filter(([, value]) => Number.isInteger(value)));
  const chosen = state.signatures.find(({ name }) => name === $("functions").value);
  return {
    source: $("source").value,
    function: $("functions").value || null,
    // A name that the function has not would be an error.
    sizes: Object.fromEntries(lengths(chosen).filter((name) => name in sizes).map((name) => [name, sizes[name]])),
    arguments: Object.fromEntries([...$("arguments").querySelectorAll("input")].map((input) => [input.name, input.value])),
    want,
  };
}

function lengths(signature) {
  return signature ? names(signature.params.flatMap(({ shape }) => shape)) : [];
}

// Asks for what is to be shown, and shows it.
async function update() {
  const want = state.want === "results" ? "nests" : state.want;
  show(await compiler.ask(request(want)), want);
}

async function run() {
  select("results");
  $("text").textContent = "";
  show(await compiler.ask(request("results")), "results");
}

function show(answer, want) {
  $("stop").disabled = !compiler.isBusy;
  if (!answer) return;
  if (answer.failure) {
    $("status").value = "";
    return problems([{ severity: "error", message: `The compiler failed: ${answer.failure}`, spans: [] }]);
  }
  const of = (type) => answer.lines.filter((line) => line.type === type);
  const wrong = of("diagnostic");
  problems(wrong);
  if (of("signature").length) functions(of("signature"));
  $("status").value = `${answer.time.toFixed(0)} ms`;
  if (want !== state.want || wrong.some(({ severity }) => severity === "error")) return;
  const [page] = of("page");
  if (page) $("page").srcdoc = page.html;
  const texts = [
    ...of("text").map(({ text }) => text),
    ...of("printed").map(({ name, dtype, shape, text }) => `${name}: ${dtype}[${shape.join(", ")}]\n${text}\n`),
  ];
  if (texts.length) $("text").textContent = texts.join("\n");
}

// The functions to choose from. If their signatures change, so do the inputs.
function functions(signatures) {
  const before = $("functions").value;
  const same = JSON.stringify(signatures) === JSON.stringify(state.signatures);
  if (same) return;
  state.signatures = signatures;
  $("functions").replaceChildren(...signatures.map(({ name }) => element("option", { value: name, textContent: name })));
  const chosen = [before, "main"].find((name) => signatures.some((one) => one.name === name));
  $("functions").value = chosen ?? signatures.at(-1).name;
  inputs();
  update();
}

// An input for each size and each parameter of the function.
function inputs() {
  const signature = state.signatures.find(({ name }) => name === $("functions").value);
  if (!signature) return;
  const [sizes, parameters] = [$("sizes"), $("arguments")];
  const clear = (set) => set.querySelectorAll("label").forEach((label) => label.remove());
  clear(sizes);
  clear(parameters);
  for (const name of lengths(signature)) {
    state.sizes[name] ??= 64;
    const input = element("input", { type: "number", min: 0, name, value: state.sizes[name] });
    input.addEventListener("input", () => {
      state.sizes[name] = input.valueAsNumber;
      parameters.querySelectorAll("input").forEach((other) => {
        if (!(`${other.name}: ${other.parentElement.title}` in state.given)) other.value = argument(other.parameter, state.sizes);
      });
      later();
    });
    sizes.append(element("label", {}, `${name} `, input));
  }
  for (const parameter of signature.params) {
    const { name, dtype, shape } = parameter;
    const type = shape.length ? `${dtype}[${shape.join(", ")}]` : dtype;
    // An argument for a parameter of the same name does not fit another type.
    const key = `${name}: ${type}`;
    const input = element("input", { name, parameter, value: state.given[key] ?? argument(parameter, state.sizes) });
    input.addEventListener("input", () => (state.given[key] = input.value));
    parameters.append(element("label", { title: type }, `${name} `, input));
  }
}

// The errors and warnings, under the program and as lines in it.
function problems(list) {
  const source = $("source").value;
  const bytes = new TextEncoder().encode(source);
  const at = (byte) => new TextDecoder().decode(bytes.subarray(0, byte)).length;
  const places = [];
  const items = list.map(({ severity, code, message, spans, help }) => {
    const own = spans.find(({ primary, file }) => primary && !file);
    const place = own && { from: at(own.start), to: Math.max(at(own.end), at(own.start) + 1), severity };
    if (place) places.push(place);
    const button = element("button", { type: "button" }, `${own ? `${own.line}:${own.column}: ` : ""}${message}${code ? ` (${code})` : ""}`);
    button.addEventListener("click", () => {
      $("source").focus();
      if (place) $("source").setSelectionRange(place.from, place.to);
    });
    const more = help ? [element("p", {}, `Help: ${help}`)] : [];
    return element("li", { className: severity }, button, ...more);
  });
  $("problems").replaceChildren(...items);
  places.sort((a, b) => a.from - b.from);
  const parts = [];
  let done = 0;
  for (const { from, to, severity } of places.filter(({ from }, k) => k === 0 || from >= places[k - 1].to)) {
    parts.push(source.slice(done, from), element("mark", { className: severity }, source.slice(from, to)));
    done = to;
  }
  $("marks").replaceChildren(...parts, `${source.slice(done)}\n`);
}

function select(want) {
  state.want = want;
  for (const tab of $("tabs").children) tab.setAttribute("aria-selected", String(tab.dataset.want === want));
  $("page").hidden = want !== "report";
  $("text").hidden = want === "report";
}

// Updates soon, once for several changes in quick succession.
let timer = 0;
function later() {
  clearTimeout(timer);
  timer = setTimeout(() => {
    // A call that goes on forever ends when the program changes.
    if (compiler.isBusy) compiler.stop();
    update();
  }, 60);
}

async function examples() {
  const list = await (await fetch("examples.json")).json();
  const options = [["", "Choose ..."], ...Object.keys(list).map((name) => [name, name])];
  $("examples").replaceChildren(...options.map(([value, text]) => element("option", { value, textContent: text })));
  $("examples").addEventListener("change", () => {
    const text = list[$("examples").value];
    if (text !== undefined) program(text);
  });
}

function program(text) {
  $("source").value = text;
  state.given = {};
  compiler.stop();
  problems([]);
  update();
}

$("source").addEventListener("input", () => {
  problems([]);
  later();
});
$("source").addEventListener("scroll", () => {
  [$("marks").scrollTop, $("marks").scrollLeft] = [$("source").scrollTop, $("source").scrollLeft];
});
$("functions").addEventListener("change", () => {
  inputs();
  update();
});
for (const tab of $("tabs").children) {
  tab.addEventListener("click", () => {
    select(tab.dataset.want);
    $("text").textContent = "";
    if (tab.dataset.want === "results") run();
    else update();
  });
}
$("inputs").addEventListener("submit", (event) => {
  event.preventDefault();
  $("stop").disabled = false;
  run();
});
$("stop").addEventListener("click", () => {
  compiler.stop();
  $("stop").disabled = true;
  $("status").value = "stopped";
});
$("format").addEventListener("click", async () => {
  const answer = await compiler.ask(request("format"));
  const text = answer?.lines?.find(({ type }) => type === "text")?.text;
  if (text !== undefined) program(text);
});
$("share").addEventListener("click", async () => {
  location.hash = await encoded($("source").value);
  $("status").value = "The address of this page has the program.";
});
addEventListener("hashchange", open);

async function open() {
  const text = await decoded(location.hash.slice(1)).catch(() => null);
  if (text !== null && text !== $("source").value) program(text);
}

select("report");
await open();
if (!$("source").value) program(first);
examples();
