// Tests within VS Code: an extension host runs `run`, as `host.py` has it started.

import assert from "node:assert/strict";
import { join } from "node:path";

import * as vscode from "vscode";

/** Waits until there is a value. */
async function until<T>(what: string, value: () => T | undefined | false): Promise<T> {
  for (let tries = 0; tries < 300; tries++) {
    const found = value();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`no ${what} after 30 seconds`);
}

function tab(label: string): vscode.Tab | undefined {
  return vscode.window.tabGroups.all.flatMap((group) => group.tabs).find((one) => one.label.startsWith(label));
}

async function opened(text: string): Promise<vscode.TextDocument> {
  const document = await vscode.workspace.openTextDocument({ language: "fuseloop", content: text });
  await vscode.window.showTextDocument(document);
  return document;
}

async function errorsAndTheirFixes(): Promise<void> {
  const { uri } = await opened("fn total(x: f32[n]) = summ(x)\n");
  const [error] = await until("error", () => vscode.languages.getDiagnostics(uri).length > 0 && vscode.languages.getDiagnostics(uri));
  assert.match(error!.message, /there is no function `summ`/);
  const fixes = await vscode.commands.executeCommand<vscode.CodeAction[]>("vscode.executeCodeActionProvider", uri, error!.range);
  assert.ok(fixes[0]?.edit && (await vscode.workspace.applyEdit(fixes[0].edit)));
  await until("end of the error", () => vscode.languages.getDiagnostics(uri).length === 0);
}

async function hoverAndFormat(): Promise<void> {
  const { uri } = await opened("fn twice(x:f32[n])=x*2\n");
  const hovers = await vscode.commands.executeCommand<vscode.Hover[]>("vscode.executeHoverProvider", uri, new vscode.Position(0, 20));
  assert.match(hovers.flatMap((hover) => hover.contents).map((one) => (one as vscode.MarkdownString).value).join(), /f32\[n\]/);
  const options = { tabSize: 4, insertSpaces: true };
  const edits = await vscode.commands.executeCommand<vscode.TextEdit[]>("vscode.executeFormatDocumentProvider", uri, options);
  assert.ok(edits.length > 0);
}

async function commands(folder: string): Promise<void> {
  const document = await vscode.workspace.openTextDocument(join(folder, "examples/softmax.fl"));
  assert.equal(document.languageId, "fuseloop");
  await vscode.window.showTextDocument(document);
  await vscode.commands.executeCommand("fuseloop.explain");
  await until("report", () => tab("Fusion: "));

  await vscode.window.showTextDocument(document, vscode.ViewColumn.One);
  const run = vscode.commands.executeCommand("fuseloop.run");
  const shown = () => vscode.workspace.textDocuments.find((one) => one.isUntitled && one.getText().startsWith("# softmax"));
  await until("results", () => {
    // Takes the arguments that the box for them begins with.
    void vscode.commands.executeCommand("workbench.action.acceptSelectedQuickOpenItem");
    return shown();
  });
  await run;

  await vscode.commands.executeCommand("fuseloop.restart");
  await errorsAndTheirFixes();
}

export async function run(): Promise<void> {
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
  assert.ok(folder);
  await errorsAndTheirFixes();
  await hoverAndFormat();
  await commands(folder);
}
