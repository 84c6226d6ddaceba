// The extension: starts `fuseloop lsp`, shows its reports in a panel and the results of runs in a
// text.

import * as vscode from "vscode";
import { LanguageClient, type LanguageClientOptions, type ServerOptions } from "vscode-languageclient/node";

import { atLine, call, notStarted, results, type Call, type Lens } from "./commands";

let client: LanguageClient | undefined;

/** The panel with the report that was asked for last. */
let report: vscode.WebviewPanel | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const changed = vscode.workspace.onDidChangeConfiguration(async (change) => {
    if (change.affectsConfiguration("fuseloop.path")) await restart();
  });
  context.subscriptions.push(vscode.commands.registerCommand("fuseloop.restart", restart), changed);
  await start();
}

export async function deactivate(): Promise<void> {
  const last = client;
  client = undefined;
  await last?.dispose();
}

async function restart(): Promise<void> {
  await deactivate();
  await start();
}

async function start(): Promise<void> {
  const path = vscode.workspace.getConfiguration("fuseloop").get<string>("path") || "fuseloop";
  const server: ServerOptions = { command: path, args: ["lsp"] };
  const options: LanguageClientOptions = {
    documentSelector: [{ language: "fuseloop" }],
    synchronize: { fileEvents: vscode.workspace.createFileSystemWatcher("**/*.fl") },
    middleware: {
      // The client registers the server's commands; here they get what they lack, and their results are
      // shown.
      executeCommand: async (command, given, next) => {
        const wanted = call(given[0]) ?? (await atCursor(command));
        switch (wanted && command) {
          case "fuseloop.explain":
            return explain(wanted!, (call) => next(command, [call]));
          case "fuseloop.run":
            return run(wanted!, (call) => next(command, [call]));
          default:
            return next(command, given);
        }
      },
    },
  };
  client = new LanguageClient("fuseloop", "Fuseloop", server, options);
  try {
    await client.start();
  } catch (error) {
    void vscode.window.showErrorMessage(notStarted(path, error));
  }
}

/** Asks the server; its refusals are said to the user. */
type Ask = (call: Call) => Promise<unknown> | unknown;

/** The function at the cursor, from the lenses that the server has for the text. */
async function atCursor(command: string): Promise<Call | undefined> {
  const editor = vscode.window.activeTextEditor;
  if (!client || editor?.document.languageId !== "fuseloop") return undefined;
  const textDocument = client.code2ProtocolConverter.asTextDocumentIdentifier(editor.document);
  const lenses = await client.sendRequest<Lens[] | null>("textDocument/codeLens", { textDocument });
  const lens = atLine(lenses ?? [], command, editor.selection.active.line);
  if (!lens) return undefined;
  const { command: found } = await client.sendRequest<Lens>("codeLens/resolve", lens);
  return call(found?.arguments?.[0]);
}

async function explain(wanted: Call, ask: Ask): Promise<void> {
  const html = await ask(wanted);
  if (typeof html !== "string") return;
  if (!report) {
    report = vscode.window.createWebviewPanel("fuseloop.report", "", { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true });
    report.onDidDispose(() => (report = undefined));
  }
  report.title = `Fusion: ${wanted.function}`;
  // The page has no scripts, and a policy of its own that allows none.
  report.webview.html = html;
  report.reveal(undefined, true);
}

async function run(wanted: Call, ask: Ask): Promise<void> {
  const given = await vscode.window.showInputBox({
    title: `Run ${wanted.function}`,
    prompt: "An argument for each parameter: random:4x3, zeros:4x3, [1, 2, 3], 0.5, or a file",
    value: wanted.arguments ?? "",
    ignoreFocusOut: true,
  });
  if (given === undefined) return;
  const called = { ...wanted, arguments: given };
  const progress = { location: vscode.ProgressLocation.Notification, title: `Running ${called.function}`, cancellable: true };
  const text = await vscode.window.withProgress(progress, async (_, token) => {
    const ended = new Promise<undefined>((resolve) => token.onCancellationRequested(() => resolve(undefined)));
    const params = { command: "fuseloop.run", arguments: [called] };
    // Not through `ask`, which cannot be cancelled.
    const asked = client?.sendRequest<string>("workspace/executeCommand", params, token) ?? ask(called);
    return Promise.race([asked, ended]);
  });
  if (typeof text !== "string") return;
  const document = await vscode.workspace.openTextDocument({ language: "fuseloop", content: results(called, text) });
  await vscode.window.showTextDocument(document, { viewColumn: vscode.ViewColumn.Beside, preview: true, preserveFocus: true });
}
