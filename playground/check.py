"""Uses the playground as people do, in a real browser: `playground/check.py FOLDER CHROMIUM`, with the folder that `playground/build`
wrote. Needs the Python packages `playwright` and `pillow`. Screenshots go to FOLDER/pictures.

With `--times`, prints the milliseconds from an edit to the report for each example, and the size of the page, and checks nothing else.
With `--screenshots DOCS`, writes the pictures of the documentation there."""

import argparse
import base64
import functools
import gzip
import http.server
import io
import json
import pathlib
import statistics
import threading
import time
import zlib

from PIL import Image
from playwright.sync_api import sync_playwright

SIZES = {"desk": (1400, 900), "tablet": (820, 1180), "phone": (390, 844)}
ENDLESS = "fn main(x: f64) = loop y = x while y < 2 { y * 1 }\n"
MARKUP = "<script>document.title = 'taken'</script><img src=x onerror=\"document.title='taken'\">"
HOSTILE = {
    "brackets": "fn main(x: f32) = " + "(" * 1_000_000,
    "operators": "fn main(x: f32) = " + "-" * 1_000_000 + "x",
    "markup": f"fn main(x: f32[n]) = x # {MARKUP}\n",
    "a name": f"fn {MARKUP}(x: f32[n]) = x\n",
    "names": "".join(f"fn f{k}(x: f32[n]) = x\n" for k in range(2000)),
}
# The program of the screenshots.
SHOWN = """# Rows as shares, over the greatest share.
fn softmax(x: f32[m]) -> f32[m] {
    let e = exp(x - max(x))
    e / sum(e)
}

fn main(x: f32[n, m]) -> f32[n, m] {
    let p[i] = softmax(x[i])
    p / max(p)
}
"""
# The most bytes of the page, compressed.
MOST_BYTES = 2_000_000
POLICY = ["default-src 'none'", "script-src 'self' 'wasm-unsafe-eval'", "style-src 'self'", "connect-src 'self'"]


class Quiet(http.server.SimpleHTTPRequestHandler):
    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".wasm": "application/wasm"}

    def log_message(self, *_):
        pass


class Page:
    """The page, with everything that its console said."""

    def __init__(self, browser, address, **context):
        self.said = []
        self.context = browser.new_context(**context)
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.goto(address)

    def read(self, name, field="textContent"):
        return self.page.evaluate(f"document.getElementById('{name}').{field}")

    def until(self, holds, what, seconds=60):
        """Waits. (The page's policy forbids the browser's own way, which evaluates text.)"""
        end = time.monotonic() + seconds
        while not (found := holds()):
            assert time.monotonic() < end, f"{what} did not happen: {self.read('problems')[:300]} {self.said[-3:]}"
            time.sleep(0.02)
        return found

    def report(self):
        """The heading of the report that is shown."""
        return self.page.evaluate("document.querySelector('#report h1')?.textContent ?? ''")

    def shows(self, name):
        """Whether the report on a function is shown, and the check of the others has ended."""
        return self.report() == name and self.is_answered()

    def kernels(self):
        """The kernels without fusion and with it, as the report says."""
        parts = "['.before', '.now'].map((part) => parseInt(document.querySelector('#report .figure').querySelector(part).textContent))"
        return self.page.evaluate(parts)

    def measures(self):
        """The milliseconds from each edit to its report, and those of the compiler alone."""
        return self.page.evaluate("performance.getEntriesByName('report').map(({ duration, detail }) => [duration, detail])")

    def ranges(self, *names):
        """The number of ranges that have a look."""
        return sum(self.page.evaluate("(names) => names.map((name) => CSS.highlights.get(name)?.size ?? 0)", list(names)))

    def program(self, text):
        self.page.fill("#source", text)

    def is_answered(self):
        return self.read("stop", "disabled")

    def tab(self, want):
        self.page.click(f"[data-want={want}]")


def is_shown(page):
    return page.until(lambda: page.report() and page.is_answered(), "the first report")


def examples(page, programs):
    """Every example has a report, without errors."""
    for name in programs:
        before = len(page.measures())
        page.page.select_option("#examples", name)
        page.until(lambda: len(page.measures()) > before and page.is_answered(), f"the report on {name}")
        assert not page.page.query_selector("#problems .error"), f"{name}: {page.read('problems')}"
    print(f"{len(programs)} examples have reports")


def typing(page):
    page.program("fn twice(x: f32[n]) = 2 * x\n")
    page.until(lambda: page.shows("twice"), "the report on what is typed")
    assert page.ranges("keyword", "type", "number", "definition") == 4 and page.ranges("k0") == 1
    page.program("# ü, 𝄞\nfn twice(x: f32[n]) = 2 * (x\n")
    page.until(lambda: "E0010" in page.read("problems"), "the error")
    assert page.ranges("error") == 1 and page.read("source", "ariaInvalid") == "true"
    page.program("# ü, 𝄞\nfn thrice(x: f32[n]) = 3 * x\n")
    page.until(lambda: page.shows("thrice") and not page.read("problems"), "the report after the error")
    placed = page.page.evaluate("[...CSS.highlights.get('definition')].map(String).join()")
    assert placed == "thrice", placed
    # An error in another function keeps no report out.
    page.program("fn thrice(x: f32[n]) = 3 * x + 1\nfn other(x: f32[n]) = y\n")
    page.until(lambda: page.shows("thrice") and "`y`" in page.read("problems"), "the error in the other function")
    assert page.kernels() == [2, 1] and page.ranges("k0") == 1, page.kernels()


def keys(page):
    """Brackets come in pairs, lines are indented, and Escape lets one leave."""
    page.program("")
    page.page.focus("#source")
    keyboard = page.page.keyboard
    keyboard.type("fn f(x: f32[n]) {")
    keyboard.press("Enter")
    keyboard.type("let y = exp(x)")
    keyboard.press("Enter")
    keyboard.type("y")
    text = "fn f(x: f32[n]) {\n    let y = exp(x)\n    y\n}"
    assert page.read("source", "value") == text, page.read("source", "value")
    keyboard.press("Shift+Tab")
    assert page.read("source", "value") == text.replace("    y", "y")
    keyboard.press("Tab")
    assert page.read("source", "value") == text.replace("    y", "y" + " " * 4)
    for _ in range(2):
        keyboard.press("Control+z")
    assert page.read("source", "value") == text, page.read("source", "value")
    page.until(lambda: page.shows("f"), "the report on what is typed")
    assert page.read("paper") == text + "\n"
    keyboard.press("Escape")
    keyboard.press("Tab")
    assert page.page.evaluate("document.activeElement.id") != "source"


def reading(page):
    """The tree of the browser for screen readers has the roles and names of everything that is used."""
    session = page.context.new_cdp_session(page.page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    # Some versions of the browser keep the space between a label and its control.
    word = lambda node, field: node.get(field, {}).get("value", "").strip()
    found = {(word(node, "role"), word(node, "name")) for node in nodes if not node.get("ignored")}
    expected = [
        ("textbox", "Program"), ("combobox", "Example"), ("combobox", "Function"), ("combobox", "Machine"), ("button", "Run"),
        ("button", "Format"), ("button", "Link"), ("button", "Tour"), ("region", "Program"), ("region", "Answers"), ("main", ""),
        ("banner", ""), ("heading", "Fuseloop"), ("list", "Errors and warnings"), ("tabpanel", "Report"),
        *[("tab", name) for name in ["Report", "Nests", "Schedule", "Derivative", "Results"]],
    ]  # fmt: skip
    missing = [one for one in expected if one not in found]
    assert not missing, missing
    controls = {"textbox", "combobox", "button", "tab", "slider", "spinbutton", "img", "image"}
    unnamed = [role for role, name in found if role in controls and not name]
    assert not unnamed, unnamed
    live = page.page.evaluate("['problems', 'outcome', 'status'].map((id) => document.getElementById(id)).map((one) => one.ariaLive ?? one.role ?? one.tagName)")
    assert live == ["polite", "status", "OUTPUT"], live


def walking(page):
    """The tabs by arrow keys; the Tab key goes through everything, in the order of the page."""
    page.page.focus("#tab-report")
    for want in ["nests", "schedule", "derivative"]:
        page.page.keyboard.press("ArrowRight")
        page.until(lambda: page.read("text").strip(), f"the text of {want}")
        assert page.page.evaluate("document.activeElement.dataset.want") == want
    page.page.keyboard.press("Home")
    page.page.focus("#examples")
    order = []
    for _ in range(40):
        order.append(page.page.evaluate("document.activeElement.id || document.activeElement.name || document.activeElement.tagName"))
        if order[-1] == "source":
            page.page.keyboard.press("Escape")
        page.page.keyboard.press("Tab")
        if order[-1] == "report":
            break
    known = ["examples", "functions", "format", "share", "start", "source", "run", "tab-report", "machines", "report"]
    assert [one for one in order if one in known] == known, order


def texts(page):
    page.program("fn loss(w: f32[n], x: f32[n]) = sum(w * w * x)\n")
    page.until(lambda: page.shows("loss"), "the report")
    page.tab("schedule")
    page.until(lambda: "loss" in page.read("text"), "the schedule")
    page.tab("derivative")
    page.until(lambda: "fn loss_grad" in page.read("text"), "the derivative")
    page.program("fn none(w: f32[n]) = w\n")
    page.until(lambda: "error" in page.read("text"), "the reason why there is no derivative")
    page.tab("report")
    page.until(lambda: "desktop" in page.read("report"), "the first machine")
    names = page.page.evaluate("[...document.getElementById('machines').options].map(({ value }) => value)")
    page.page.select_option("#machines", names[-1])
    page.until(lambda: names[-1] in page.read("report"), "the other machine")


def results(page):
    page.program("fn squares(x: f32[n], by: f32) = x * x * by\n")
    page.until(lambda: page.shows("squares"), "the report")
    page.page.fill("#sizes input[name=n]", "3")
    page.page.fill("#arguments input[name=x]", "[1, 2, 3]")
    page.page.fill("#arguments input[name=by]", "2")
    page.page.click("#run")
    page.until(lambda: "[ 2.,  8., 18.]" in page.read("results"), "the result")
    # A slider by its keys, and a cell of a table: the results follow.
    slider = page.page.locator("input[type=range]")
    slider.focus()
    slider.press("Home")
    page.until(lambda: "-36" in page.read("results"), "the result at the end of the slider")
    page.page.click("#arguments summary")
    page.page.fill("[aria-label='x[2]']", "10")
    page.until(lambda: "-400" in page.read("results"), "the result of a cell")
    drawing = page.page.locator("#results svg")
    drawing.focus()
    drawing.press("ArrowRight")
    assert "[1]: -16" in page.read("results"), page.read("results")
    page.program("fn outer(x: f32[n], y: f32[m]) { let z[i, j] = x[i] * y[j]\n z }\n")
    page.until(lambda: page.read("functions", "value") == "outer", "the check")
    page.page.click("#run")
    canvas = page.page.locator("#results canvas")
    canvas.wait_for()
    canvas.focus()
    canvas.press("ArrowDown")
    canvas.press("ArrowRight")
    assert "[1, 1]: 0." in page.read("results")


def files(page):
    """A picture that is dropped in, a table, and an array."""
    page.tab("report")
    page.program("fn dark(image: u8[h, w, 3]) { let y[i, j, c] = image[i, j, c] / 2\n y }\n")
    page.until(lambda: page.shows("dark"), "the report")
    image = Image.new("RGB", (20, 10), (100, 50, 200))
    data = io.BytesIO()
    image.save(data, "png")
    drop = """(bytes) => {
        const data = new DataTransfer();
        data.items.add(new File([Uint8Array.from(bytes)], "a b.png", { type: "image/png" }));
        document.querySelector("#arguments input").dispatchEvent(new DragEvent("drop", { dataTransfer: data, cancelable: true }));
    }"""
    page.page.evaluate(drop, list(data.getvalue()))
    page.until(lambda: page.page.evaluate("document.querySelector('#sizes input[name=w]').value") == "20", "the size of the picture")
    page.page.click("#run")
    canvas = page.page.locator("#results canvas")
    canvas.wait_for()
    canvas.focus()
    canvas.press("ArrowRight")
    assert "[0, 1]: 50, 25, 100" in page.read("results"), page.read("results")
    page.tab("report")
    page.program("fn total(x: f64[n, m]) = sum(x)\n")
    page.until(lambda: page.shows("total"), "the report")
    file = page.page.locator("#arguments input[type=file]")
    file.set_input_files({"name": "t.csv", "mimeType": "text/csv", "buffer": b"a,b\n1,2\n3,4.5\n"})
    page.until(lambda: page.page.evaluate("document.querySelector('#sizes input[name=n]').value") == "2", "the size of the table")
    page.page.click("#run")
    page.until(lambda: "10.5" in page.read("results"), "the sum of the table")
    page.tab("report")


def stopping(page):
    page.program(ENDLESS)
    page.until(lambda: page.shows("main"), "the report on the endless loop")
    page.page.click("#run")
    time.sleep(0.5)
    assert not page.is_answered()
    page.page.click("#stop")
    page.until(page.is_answered, "the end of the endless loop")
    page.page.click("#run")
    time.sleep(0.5)
    page.tab("report")
    page.program("fn after(x: f32[n]) = x + 1\n")
    page.until(lambda: page.shows("after"), "the report after an endless loop")


def touring(page, steps):
    """Each step of the tour: its report, the edit, and the report that it says."""
    page.page.click("#start")
    for number, step in enumerate(steps, 1):
        before, after = step["kernels"]
        page.until(lambda: page.read("step").startswith(f"{number} of {len(steps)}"), f"step {number}")
        page.until(lambda: page.is_answered() and page.kernels() == before, f"the report before the edit of step {number}")
        assert not page.read("outcome")
        page.page.click("#edit")
        page.until(lambda: page.is_answered() and page.kernels() == after, f"the report after the edit of step {number}")
        assert page.until(lambda: page.read("outcome"), f"the outcome of step {number}") == step["outcome"]
        assert not page.page.query_selector("#problems .error"), step
        page.page.click("#next")
    assert page.read("tour", "hidden")
    print(f"{len(steps)} steps of the tour")


def link(page):
    """The address with the program."""
    page.page.click("#share")
    page.until(lambda: "address" in page.read("status", "value"), "the link")
    return page.page.evaluate("location.href")


def links(page, browser, address):
    text = "fn linked(x: f32[n]) = x - 1\n"
    page.program(text)
    page.until(lambda: page.shows("linked"), "the report on a program to link to")
    other = Page(browser, link(page))
    other.until(lambda: other.shows("linked"), "the report on a linked program")
    assert other.read("source", "value") == text
    strange = Page(browser, f"{address}#%3Cscript%3E")
    strange.until(lambda: strange.shows("main"), "the first program under a link that is none")
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = base64.urlsafe_b64encode(packer.compress(b" " * 200_000_000) + packer.flush()).decode().rstrip("=")
    large = Page(browser, f"{address}#{packed}")
    large.until(lambda: large.shows("main"), "the first program under a link to one that is too long")
    for name, program in HOSTILE.items():
        page.program(program)
        page.until(page.is_answered, f"an answer to {name}")
        strange.page.goto(link(page))
        strange.until(lambda: strange.read("source", "value") == program, f"the program of {name}")
        strange.until(strange.is_answered, f"an answer to {name}")
        assert "taken" not in strange.page.title()
        assert not strange.page.query_selector("#work img, #work script")
        strange.program("fn calm(x: f32[n]) = x\n")
        strange.until(lambda: strange.shows("calm"), f"a report after {name}")
    return [other, strange, large]


def offline(browser, address, server):
    """The page again, without the server."""
    page = Page(browser, address)
    is_shown(page)
    page.until(lambda: page.page.evaluate("navigator.serviceWorker.controller !== null"), "the worker that keeps the files")
    page.context.set_offline(True)
    server.shutdown()
    server.server_close()
    page.page.reload()
    is_shown(page)
    page.program("fn alone(x: f32[n]) = x\n")
    page.until(lambda: page.shows("alone"), "a report without a network")
    page.page.select_option("#examples", "softmax")
    page.until(lambda: page.shows("softmax_rows"), "an example without a network")
    return [page]


def pictures(browser, address, folder):
    folder.mkdir(parents=True, exist_ok=True)
    pages = []
    for size, (width, height) in SIZES.items():
        for theme in ["light", "dark"]:
            page = Page(browser, address, viewport={"width": width, "height": height}, color_scheme=theme)
            is_shown(page)
            time.sleep(0.2)
            page.page.screenshot(path=folder / f"{size}-{theme}.png")
            assert page.page.evaluate("document.documentElement.scrollWidth") <= width, f"{size} scrolls sideways"
            pages.append(page)
    return pages


def screenshots(browser, address, folder):
    """The pictures of the documentation: 256 colours are enough for a page."""
    def shoot(page, name):
        data = page.page.screenshot()
        Image.open(io.BytesIO(data)).convert("RGB").quantize(128, dither=Image.Dither.NONE).save(folder / f"{name}.png", optimize=True)

    folder.mkdir(parents=True, exist_ok=True)
    for name, scheme, size in [("light", "light", (1200, 760)), ("dark", "dark", (1200, 760)), ("phone", "light", SIZES["phone"])]:
        page = Page(browser, address, viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
        is_shown(page)
        page.program(SHOWN)
        page.until(lambda: page.kernels()[0] == 7 and page.is_answered(), "the report")
        shoot(page, name)
    page = Page(browser, address, viewport={"width": 1200, "height": 760})
    is_shown(page)
    page.page.select_option("#examples", "pictures")
    page.until(lambda: page.report() and page.is_answered(), "the report")
    page.page.select_option("#functions", "mandelbrot")
    page.until(lambda: page.shows("mandelbrot"), "the report")
    for name, value in {"height": 320, "width": 384, "limit": 60}.items():
        page.page.fill(f"#arguments input[name={name}]", str(value))
    page.page.click("#run")
    page.page.locator("#results canvas").wait_for(timeout=120_000)
    shoot(page, "results")


def times(page, programs, folder):
    """A table of milliseconds until the report is on the screen: of an example that is opened, and of a key that edits it, as the
    median of five after two. Also those that the compiler takes for the edit."""
    rows = {}
    for _ in range(2):
        for name in programs:
            count = len(page.measures())
            page.page.select_option("#examples", name)
            page.until(lambda: len(page.measures()) > count, f"the report on {name}")
            opened = page.measures()[-1][0]
            for number in range(7):
                count = len(page.measures())
                page.page.focus("#source")
                page.page.evaluate("document.getElementById('source').setSelectionRange(0, 0)")
                page.page.keyboard.type(" ")
                page.until(lambda: len(page.measures()) > count, f"the report on {name}")
                time.sleep(0.05)
            rows[name] = tuple(map(statistics.median, zip(*page.measures()[-5:]))) + (opened,)
    print("| example | edited, ms | in the compiler, ms | opened, ms |\n|---|--:|--:|--:|")
    for name, figures in sorted(rows.items(), key=lambda row: row[1], reverse=True):
        print(f"| `{name}` |" + "".join(f" {value:.0f} |" for value in figures))
    edited, _, opened = zip(*rows.values())
    print(f"\nmedian {statistics.median(edited):.0f} ms, most {max(edited):.0f} ms, opened {statistics.median(opened):.0f} ms")
    print(f"{sum(value < 50 for value in edited)} of {len(edited)} edits take less than 50 ms")
    print(f"{compressed(folder) / 1e6:.2f} MB, compressed")


def compressed(folder):
    return sum(len(gzip.compress(path.read_bytes(), 9)) for path in folder.iterdir() if path.is_file())


def main(options):
    folder = options.folder
    programs = json.loads((folder / "examples.json").read_text())
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}/"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=options.chromium, args=["--no-sandbox"])
        if options.screenshots:
            return screenshots(browser, address, options.screenshots)
        page = Page(browser, address)
        is_shown(page)
        if options.times:
            return times(page, programs, folder)
        size = compressed(folder)
        assert size < MOST_BYTES, size
        policy = page.page.evaluate("document.querySelector('meta[http-equiv]').content")
        assert all(part in policy for part in POLICY) and "unsafe-inline" not in policy, policy
        examples(page, programs)
        for use in [typing, keys, reading, walking, texts, results, files, stopping]:
            use(page)
        touring(page, json.loads((folder / "tour.json").read_text()))
        pages = [page, *links(page, browser, address), *pictures(browser, address, folder / "pictures")]
        pages += offline(browser, address, server)
        said = [text for one in pages for text in one.said]
        assert not said, said[:5]
        browser.close()
    print("typed, read, run, stopped, linked, in three sizes and two themes, without a network; the console is empty")


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("folder", type=pathlib.Path)
parser.add_argument("chromium")
parser.add_argument("--times", action="store_true")
parser.add_argument("--screenshots", type=pathlib.Path)
main(parser.parse_args())
