"""Runs the tests in `host.ts` in VS Code's own extension host: `test/host.py SERVER CHROMIUM`, with the folder of a VS Code that serves
browsers, such as `lib/vscode` of the npm package `code-server`. Needs the Python package `playwright`, and that `npm test` has compiled
the tests."""

import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from playwright.sync_api import sync_playwright

EXTENSION = pathlib.Path(__file__).parents[1].resolve()
ROOT = EXTENSION.parents[1]
SECONDS = 120


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_for(address):
    for _ in range(300):
        try:
            return urllib.request.urlopen(address).close()
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.1)
    raise SystemExit("VS Code does not answer")


def test(address, chromium):
    at = f"vscode-remote://{address}"
    payload = [
        ["extensionDevelopmentPath", f"{at}{EXTENSION}"],
        ["extensionTestsPath", f"{at}{EXTENSION}/out/test/test/host.js"],
        ["skipWelcome", "true"],
    ]
    said, ended = [], []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.expose_function("codeAutomationLog", lambda _, words: said.append(" ".join(map(str, words))))
        page.expose_function("codeAutomationExit", lambda code, *_: ended.append(code))
        page.goto(f"http://{address}/?folder={ROOT}&payload={json.dumps(payload)}")
        begin = time.monotonic()
        while not ended and time.monotonic() < begin + SECONDS:
            page.wait_for_timeout(100)
        if ended != [0]:
            page.screenshot(path=ROOT / "target/vscode.png")
            print(*said, f"{ended or 'no end'} after {time.monotonic() - begin:.0f} seconds: see target/vscode.png", sep="\n")
        browser.close()
    return 0 if ended == [0] else 1


def main(server, chromium):
    port = free_port()
    with tempfile.TemporaryDirectory() as data:
        command = ["node", f"{server}/out/server-main.js", "--host", "127.0.0.1", "--port", str(port), "--without-connection-token"]
        command += ["--accept-server-license-terms", "--disable-workspace-trust", "--server-data-dir", data]
        settings = pathlib.Path(data, "data/Machine/settings.json")
        settings.parent.mkdir(parents=True)
        settings.write_text(json.dumps({"fuseloop.path": os.environ.get("FUSELOOP", str(ROOT / "target/debug/fuseloop"))}))
        with open(ROOT / "target/vscode.log", "w") as log:
            child = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            wait_for(f"http://127.0.0.1:{port}/")
            return test(f"127.0.0.1:{port}", chromium)
        finally:
            child.terminate()
            child.wait()


sys.exit(main(*sys.argv[1:]))
