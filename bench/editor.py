"""How long the language server takes to answer after an edit of a program of 1,000 lines.

    cargo build --release -p cli
    python3 bench/editor.py target/release/fuseloop
"""

import json
import statistics
import subprocess
import sys
import time

URI = "file:///nowhere/a.fl"
EDITS = 40

# Of ten lines: rows, reductions, a stencil, a running sum.
FUNCTION = """fn rows_{0}(x: f32[n, m], gain: f32[m]) -> f32[n, m] {{
    let centred[i, j] = x[i, j] - mean(x[i])
    let scale[i] = rsqrt(mean(centred[i] ^ 2) + 1e-5)
    let out[i, j] = centred[i, j] * scale[i] * gain[j]
    let near[i, j < m] = if j > 0 && j < m - 1 then (out[i, j - 1] + out[i, j + 1]) / 2 else out[i, j]
    let running[i, j] = sum[k <= j](near[i, k])
    let top[i] = max(running[i])
    let y[i, j] = exp(running[i, j] - top[i])
    y
}}
"""
TEXT = "".join(FUNCTION.format(k) for k in range(100))
LINES = TEXT.count("\n")


class Server:
    def __init__(self, command):
        self.process = subprocess.Popen([command, "lsp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.next = 0
        self.checked = False  # since the last edit

    def send(self, message):
        text = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(text), text))
        self.process.stdin.flush()

    def receive(self):
        length = 0
        while (line := self.process.stdout.readline().strip()) != b"":
            length = int(line.split(b":")[1])
        return json.loads(self.process.stdout.read(length))

    def notify(self, method, params):
        self.send({"method": method, "params": params})

    def until(self, wanted):
        while not wanted(message := self.receive()):
            pass
        return message

    def note(self, message):
        self.checked |= diagnosed(message)
        return False

    def request(self, method, params):
        self.next += 1
        self.send({"id": self.next, "method": method, "params": params})
        answer = self.until(lambda message: message.get("id") == self.next or self.note(message))
        assert "error" not in answer, answer
        return answer["result"]


def diagnosed(message):
    return message.get("method") == "textDocument/publishDiagnostics"


def main(command):
    server = Server(command)
    server.request("initialize", {"capabilities": {}})
    document = {"uri": URI}
    server.notify("textDocument/didOpen", {"textDocument": {**document, "languageId": "fuseloop", "version": 0, "text": TEXT}})
    found = server.until(diagnosed)["params"]["diagnostics"]
    assert found == [], found[0]
    line = LINES // 2 + 3  # in the middle: `let out[i, j] = ...`
    at = {"textDocument": document, "position": {"line": line, "character": 9}}
    screen = {"start": {"line": line - 30, "character": 0}, "end": {"line": line + 30, "character": 0}}
    # The first is what an edit waits for: nothing else is answered before it.
    requests = {
        "diagnostics": None,
        "completion": ("textDocument/completion", at),
        "hover": ("textDocument/hover", at),
        "semantic tokens": ("textDocument/semanticTokens/full", {"textDocument": document}),
        "inlay hints of 60 lines": ("textDocument/inlayHint", {"textDocument": document, "range": screen}),
        "code lenses": ("textDocument/codeLens", {"textDocument": document}),
    }
    print(f"{LINES} lines, {len(TEXT)} bytes; milliseconds after an edit, median and maximum of {EDITS}")
    version = 0
    for name, request in requests.items():
        times = []
        for _ in range(EDITS):
            version += 1
            place = {"line": line, "character": 52}
            change = {"range": {"start": place, "end": place}, "text": " "}
            server.checked = False
            start = time.perf_counter()
            server.notify(
                "textDocument/didChange",
                {"textDocument": {**document, "version": version}, "contentChanges": [change]},
            )
            if request:
                server.request(*request)
                times.append(time.perf_counter() - start)
            if not server.checked:
                server.until(diagnosed)
            if not request:
                times.append(time.perf_counter() - start)
        print(f"{name:>24} {statistics.median(times) * 1e3:8.1f} {max(times) * 1e3:8.1f}")
    server.request("shutdown", None)
    server.notify("exit", None)
    assert server.process.wait() == 0


if __name__ == "__main__":
    main(*sys.argv[1:])
