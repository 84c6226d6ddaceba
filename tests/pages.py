"""Shows the pages of `explain` and `bench` to a browser, light and dark: python tests/pages.py CHROMIUM FOLDER

The screenshots stay in the folder, to be looked at. What a machine can see of them is held: the background is light or dark, there is
much that stands out from it, some of it in colours, and the browser has nothing to complain about.
"""

import subprocess
import sys
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).parents[1]
CHROMIUM, FOLDER = sys.argv[1], Path(sys.argv[2]).resolve()
PAGES = {
    "explain": "explain examples/layer_norm.fl --fn layer_norm_rows n=1000 d=300",
    "gpu": "explain examples/softmax.fl --fn softmax_rows --device gpu n=16384 m=4096",
    "bench": "bench examples/softmax.fl --fn softmax_rows n=256 m=777",
}
SCHEMES = {"dark": 0, "light": 1}
OPTIONS = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr", "--window-size=1400,3000"]


def luminance(pixel):
    red, green, blue = (channel / 255 for channel in pixel)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def look(path, scheme):
    image = Image.open(path).convert("RGB")
    counted = sorted(image.getcolors(image.width * image.height), reverse=True)
    background = counted[0][1]
    assert (luminance(background) > 0.8) == (scheme == "light"), (path, background)
    assert (luminance(background) < 0.2) == (scheme == "dark"), (path, background)
    stands_out = sum(n for n, pixel in counted if abs(luminance(pixel) - luminance(background)) > 0.3)
    coloured = sum(n for n, pixel in counted if max(pixel) - min(pixel) > 60)
    assert stands_out > 5000 and coloured > 500, (path, stands_out, coloured)


FOLDER.mkdir(parents=True, exist_ok=True)
for name, line in PAGES.items():
    page = FOLDER / f"{name}.html"
    command = [ROOT / "target/release/fuseloop", *line.split(), "--format", "html"]
    page.write_bytes(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    for scheme, number in SCHEMES.items():
        shot = FOLDER / f"{name}-{scheme}.png"
        settings = [f"--blink-settings=preferredColorScheme={number}", f"--screenshot={shot}", f"--user-data-dir={FOLDER}/browser"]
        said = subprocess.run([CHROMIUM, *OPTIONS, *settings, page.as_uri()], check=True, stderr=subprocess.PIPE, timeout=120)
        assert b"CONSOLE" not in said.stderr, said.stderr.decode()
        look(shot, scheme)
print(f"{len(PAGES)} pages, light and dark")
