// The guided tour: questions about fusion, each with an edit to make and a report that changes.

import { $ } from "./elements.js";

export class Tour {
  #steps = [];
  #at = 0;
  #editor;
  #open;

  // `open` shows a program as a new one.
  constructor(editor, open) {
    [this.#editor, this.#open] = [editor, open];
    $("start").addEventListener("click", () => ($("tour").hidden ? this.#go(0) : this.#close()));
    $("back").addEventListener("click", () => this.#go(this.#at - 1));
    $("next").addEventListener("click", () => (this.#at + 1 < this.#steps.length ? this.#go(this.#at + 1) : this.#close()));
    $("close").addEventListener("click", () => this.#close());
    $("edit").addEventListener("click", () => this.#edit());
  }

  async #go(at) {
    if (!this.#steps.length) this.#steps = await (await fetch("tour.json")).json();
    this.#at = at;
    const { title, question, task, program } = this.#steps[at];
    $("tour").hidden = false;
    $("start").setAttribute("aria-expanded", "true");
    $("step").textContent = `${at + 1} of ${this.#steps.length}: ${title}`;
    $("question").textContent = question;
    $("task").textContent = task;
    $("outcome").textContent = "";
    $("back").disabled = at === 0;
    $("next").textContent = at + 1 < this.#steps.length ? "Next" : "End";
    $("step").focus();
    this.#open(program.join("\n"));
  }

  #close() {
    $("tour").hidden = true;
    $("start").setAttribute("aria-expanded", "false");
    $("start").focus();
  }

  // Makes the edit as if it was typed. In another program, it begins with that of the step.
  #edit() {
    const { program, edit: [from, to] } = this.#steps[this.#at];
    if (!this.#editor.text.includes(from)) this.#open(program.join("\n"));
    const at = this.#editor.text.indexOf(from);
    this.#editor.replace(at, at + from.length, to);
  }

  // Looks at a report: kernels without fusion and with it.
  see(kernels) {
    if ($("tour").hidden) return;
    const { program, edit: [from, to], kernels: [, after], outcome } = this.#steps[this.#at];
    const edited = program.join("\n").replace(from, () => to);
    const isEdited = this.#editor.text.replaceAll(/\s/g, "") === edited.replaceAll(/\s/g, "");
    $("outcome").textContent = isEdited && String(kernels) === String(after) ? outcome : "";
  }
}
