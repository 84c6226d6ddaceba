// The page: a program, the report on it, and its results.

import { Compiler } from "./compiler.js";
import { Editor, characters, shaded } from "./editor.js";
import { $, element, options, renew } from "./elements.js";
import { Inputs } from "./inputs.js";
import { decoded, encoded } from "./link.js";
import { shown } from "./results.js";
import { Tour } from "./tour.js";

const FIRST = `fn softmax(x: f32[m]) -> f32[m] {
    let e = exp(x - max(x))
    e / sum(e)
}

fn main(x: f32[n, m]) -> f32[n, m] {
    let y[i] = softmax(x[i])
    y
}
`;
const WORDS = ["keyword", "type", "definition", "function", "builtin", "decorator", "number", "string", "operator", "comment"];
const PANELS = ["report", "text", "results"];
// Milliseconds within which results follow a slider.
const LIVE = 500;

const compiler = new Compiler();
const editor = new Editor($("source"), $("paper"), () => edited());
const inputs = new Inputs(() => edited(), () => live());
const tour = new Tour(editor, program);
const tabs = [...$("tabs").children];
let want = "report";
let changed = 0;
let lasted = Infinity;
// The reasons why there is no report.
let refused = [];

function request(kind) {
  return {
    source: editor.text,
    function: $("functions").value || null,
    sizes: inputs.sizes,
    arguments: kind === "results" ? inputs.arguments : {},
    machine: $("machines").value || null,
    want: kind,
  };
}

// Asks for what is to be shown, and shows it. Results are only asked for by hand. A report does
// not wait for the errors in other functions.
async function edited() {
  const begin = performance.now();
  changed = begin;
  refused = [];
  $("status").value = "";
  if (want !== "report") return ask(want === "results" ? "check" : want);
  const name = $("functions").value;
  const isLast = (answer) => answer && begin === changed && want === "report";
  if (isLast(await ask("report")) && isLast(await ask("check")) && name && name !== $("functions").value) ask("report");
}

function run() {
  select("results");
  $("results").replaceChildren(element("p", { className: "faint" }, "Running ..."));
  ask("results");
}

// A call that takes no time runs again with each argument that changes.
function live() {
  if (want === "results" && lasted < LIVE) ask("results");
}

async function ask(kind) {
  const begin = changed;
  const asked = compiler.ask(request(kind), kind === "results" ? inputs.files : {});
  $("stop").disabled = false;
  const answer = await asked;
  $("stop").disabled = !compiler.isBusy;
  if (!answer) return null;
  show(answer, kind);
  if (kind === "report" && answer.lines?.some(({ type }) => type === "page")) {
    // In the next frame it is on the screen.
    const note = () => performance.measure("report", { start: begin, end: performance.now(), detail: answer.time });
    requestAnimationFrame(() => setTimeout(note));
  }
  return answer;
}

function show(answer, kind) {
  const { failure, lines = [] } = answer;
  const of = (type) => lines.filter((line) => line.type === type);
  const [words, about, machines, page, shades] = ["words", "function", "machines", "page", "shades"].map((type) => of(type)[0]);
  const failed = { severity: "error", message: `The compiler failed: ${failure}`, spans: [] };
  const wrong = failure ? [failed] : of("diagnostic");
  const at = characters(editor.text);
  const spans = (list) => list.map(([from, to]) => [at(from), at(to)]);
  if (words) {
    const classes = Map.groupBy(words.words, ([, , name]) => name);
    editor.paint(WORDS.map((name) => [name, spans(classes.get(name) ?? [])]));
  }
  if (kind === "report") refused = wrong;
  else problems([...refused, ...wrong], at);
  if (about) functions(of("signature"), about);
  if (machines && !$("machines").length) options($("machines"), machines.names);
  if (kind === want) $("time").textContent = `${answer.time.toFixed(0)} ms`;
  if (kind === "results") lasted = answer.time;
  if (kind !== want || wrong.some(({ severity }) => severity === "error")) return;
  if (kind === "report" && !page) return;
  editor.paint(shaded((shades?.shades ?? []).map(([from, to, kernel]) => [at(from), at(to), kernel]), editor.text.length));
  if (page) report(page.html);
  const [text] = of("text");
  if (text) $("text").textContent = text.text;
  if (kind === "results") $("results").replaceChildren(...of("printed").map((one) => shown(one, answer.files)));
}

// The compiler has escaped all texts in the report.
function report(html) {
  renew($("report"), new DOMParser().parseFromString(html, "text/html").body);
  const figure = [...$("report").querySelectorAll(".figure")].find((one) => one.querySelector(".name").textContent === "kernels");
  tour.see([".before", ".now"].map((part) => parseInt(figure.querySelector(part).textContent)));
}

// The functions to choose from, and the inputs of the one that the answer is about.
function functions(signatures, { name, sizes }) {
  const names = signatures.map((signature) => signature.name);
  if (String(names) !== String([...$("functions").options].map(({ value }) => value))) options($("functions"), names);
  $("functions").value = name;
  inputs.show(signatures.find((signature) => signature.name === name), sizes);
}

// The errors and warnings, under the program and as lines in it.
function problems(list, at) {
  const places = { error: [], warning: [] };
  const items = list.map(({ severity, code, message, spans, help }) => {
    const own = spans.find(({ primary, file }) => primary && !file);
    const place = own && [at(own.start), Math.max(at(own.end), at(own.start) + 1)];
    if (place) places[severity].push(place);
    const text = `${own ? `${own.line}:${own.column}: ` : ""}${message}${code ? ` (${code})` : ""}`;
    const button = element("button", { type: "button" }, text);
    button.addEventListener("click", () => (place ? editor.select(...place) : $("source").focus()));
    return element("li", { className: severity }, button, ...(help ? [element("p", {}, `Help: ${help}`)] : []));
  });
  $("problems").replaceChildren(...items);
  $("source").setAttribute("aria-invalid", String(list.some(({ severity }) => severity === "error")));
  editor.paint(Object.entries(places));
}

function select(next) {
  want = next;
  for (const tab of tabs) {
    const chosen = tab.dataset.want === want;
    tab.setAttribute("aria-selected", String(chosen));
    tab.tabIndex = chosen ? 0 : -1;
    if (chosen) PANELS.forEach((name) => ($(name).hidden = name !== tab.dataset.panel));
  }
  $("text").setAttribute("aria-labelledby", `tab-${want}`);
  $("text").textContent = "";
  $("machine").hidden = want !== "report";
}

function turn(tab) {
  select(tab.dataset.want);
  if (want === "results") run();
  else edited();
}

// A program other than the one before.
function program(text) {
  compiler.stop();
  editor.text = text;
  $("functions").replaceChildren();
  inputs.clear();
  problems([]);
  edited();
}

async function examples() {
  const list = await (await fetch("examples.json")).json();
  options($("examples"), ["", ...Object.keys(list)]);
  $("examples").options[0].textContent = "Choose ...";
  $("examples").addEventListener("change", () => $("examples").value && program(list[$("examples").value]));
}

async function open() {
  const text = await decoded(location.hash.slice(1)).catch(() => null);
  if (text !== null && text !== editor.text) program(text);
}

$("functions").addEventListener("change", edited);
$("machines").addEventListener("change", edited);
for (const [k, tab] of tabs.entries()) {
  tab.addEventListener("click", () => turn(tab));
  tab.addEventListener("keydown", ({ key }) => {
    const next = { ArrowLeft: k - 1, ArrowRight: k + 1, Home: 0, End: tabs.length - 1 }[key];
    if (next === undefined) return;
    const other = tabs.at(next % tabs.length);
    other.focus();
    turn(other);
  });
}
$("inputs").addEventListener("submit", (event) => {
  event.preventDefault();
  run();
});
$("stop").addEventListener("click", () => {
  compiler.stop();
  $("status").value = "Stopped.";
  if (want === "results") $("results").replaceChildren();
});
$("format").addEventListener("click", async () => {
  const answer = await compiler.ask(request("format"));
  const [line] = answer?.lines ?? [];
  if (line?.type === "text" && line.text !== editor.text) editor.replace(0, editor.text.length, line.text);
  // It may have taken the place of a request that waited.
  else edited();
});
$("share").addEventListener("click", async () => {
  location.hash = await encoded(editor.text);
  $("status").value = "The address of this page has the program.";
});
addEventListener("hashchange", open);

select("report");
await open();
if (!editor.text) program(FIRST);
examples();
navigator.serviceWorker?.register("offline.js").catch(() => {});
