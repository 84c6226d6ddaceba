"""Uses the playground as people do, in a real browser: `playground/check.py FOLDER [CHROMIUM]`, with the folder that `playground/build`
wrote. Needs the Python package `playwright`. Pictures of the page go to FOLDER/pictures."""

import functools
import http.server
import json
import pathlib
import sys
import threading
import time

from playwright.sync_api import sync_playwright

SIZES = {"desk": (1400, 900), "tablet": (820, 1180), "phone": (390, 844)}
ENDLESS = "fn main(x: f64) = loop y = x while y < 2 { y * 1 }\n"
HOSTILE = {
    "brackets": "fn main(x: f32) = " + "(" * 1_000_000,
    "operators": "fn main(x: f32) = " + "-" * 1_000_000 + "x",
    "markup": "fn main(x: f32[n]) = x # <script>document.title = 'taken'</script><img src=x onerror=\"document.title='taken'\">\n",
}


class Quiet(http.server.SimpleHTTPRequestHandler):
    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".wasm": "application/wasm"}

    def log_message(self, *_):
        pass


class Page:
    """The page, with everything that its console said."""

    def __init__(self, browser, address, **context):
        self.said = []
        self.page = browser.new_context(**context).new_page()
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.goto(address)

    def read(self, name, field="textContent"):
        return self.page.evaluate(f"document.getElementById('{name}').{field}")

    def until(self, holds, what, seconds=60):
        """Waits. (The page's policy forbids the browser's own way, which evaluates text.)"""
        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end, f"{what} did not happen: {self.read('problems')[:300]} {self.said}"
            time.sleep(0.02)

    def report(self):
        """The heading of the report that is shown."""
        html = self.read("page", "srcdoc") or ""
        return html.partition("<h1><code>")[2].partition("<")[0]

    def program(self, text):
        self.page.fill("#source", text)

    def milliseconds(self):
        words = self.read("status", "value").split()
        return float(words[0]) if words[1:] == ["ms"] else None


def examples(page, programs):
    """Every example has a report; says the slowest."""
    times = {}
    for name in programs:
        before = page.read("page", "srcdoc")
        page.page.select_option("#examples", name)
        page.until(lambda: page.read("page", "srcdoc") != before or page.read("problems"), f"the report on {name}")
        errors = page.page.evaluate("[...document.querySelectorAll('#problems .error')].map((one) => one.textContent)")
        assert not errors, f"{name}: {errors}"
        page.until(lambda: page.milliseconds() is not None, f"the time of {name}")
        times[name] = page.milliseconds()
    slowest = max(times, key=times.get)
    print(f"{len(times)} examples; the slowest report, on {slowest}, takes {times[slowest]:.0f} ms")


def typing(page):
    page.program("fn twice(x: f32[n]) = 2 * x\n")
    page.until(lambda: page.report() == "twice", "the report on what is typed")
    page.program("fn twice(x: f32[n]) = 2 * (x\n")
    page.until(lambda: "E0010" in page.read("problems"), "the error")
    assert page.page.evaluate("document.querySelectorAll('#marks mark').length") == 1
    page.program("fn thrice(x: f32[n]) = 3 * x\n")
    page.until(lambda: page.report() == "thrice" and not page.read("problems"), "the report after the error")


def results(page):
    page.program("fn squares(x: f32[n]) = x * x\n")
    page.until(lambda: page.report() == "squares", "the report")
    page.page.fill("#arguments input[name=x]", "[1, 2, 3]")
    page.page.click("#run")
    page.until(lambda: "[1., 4., 9.]" in page.read("text"), "the result")
    page.page.click("[data-want=schedule]")
    page.until(lambda: "squares" in page.read("text"), "the schedule")
    page.page.click("[data-want=report]")


def stopping(page):
    page.program(ENDLESS)
    page.until(lambda: page.report() == "main", "the report on the endless loop")
    page.page.click("#run")
    time.sleep(0.5)
    page.page.click("#stop")
    page.program("fn after(x: f32[n]) = x + 1\n")
    page.page.click("[data-want=report]")
    page.until(lambda: page.report() == "after", "the report after an endless loop")


def links(page, browser, address):
    text = "fn linked(x: f32[n]) = x - 1\n"
    page.program(text)
    page.page.click("#share")
    page.until(lambda: "#" in page.page.url, "the link")
    other = Page(browser, page.page.url)
    other.until(lambda: other.report() == "linked", "the report on a linked program")
    assert other.read("source", "value") == text
    strange = Page(browser, f"{address}#%3Cscript%3E")
    strange.until(lambda: strange.report() == "main", "the first program under a link that is none")
    for name, program in HOSTILE.items():
        strange.program(program)
        strange.until(lambda: strange.milliseconds() is not None, f"an answer to {name}")
        assert "taken" not in strange.page.title()
        strange.program("fn calm(x: f32[n]) = x\n")
        strange.until(lambda: strange.report() == "calm", f"a report after {name}")
    return [other, strange]


def pictures(browser, address, folder):
    folder.mkdir(exist_ok=True)
    pages = []
    for size, (width, height) in SIZES.items():
        for theme in ["light", "dark"]:
            page = Page(browser, address, viewport={"width": width, "height": height}, color_scheme=theme)
            page.until(lambda: page.report() == "main", "the first report")
            time.sleep(0.2)
            page.page.screenshot(path=folder / f"{size}-{theme}.png")
            assert page.page.evaluate("document.documentElement.scrollWidth") <= width, f"{size} scrolls sideways"
            pages.append(page)
    return pages


def main(folder, chromium=None):
    folder = pathlib.Path(folder)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}/"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = Page(browser, address)
        page.until(lambda: page.report() == "main", "the first report")
        examples(page, json.loads((folder / "examples.json").read_text()))
        typing(page)
        results(page)
        stopping(page)
        pages = [page, *links(page, browser, address), *pictures(browser, address, folder / "pictures")]
        said = [text for one in pages for text in one.said]
        assert not said, said
        browser.close()
    print("typed, run, stopped, linked, in three sizes and two themes; the console is empty")


main(*sys.argv[1:])
