"""Renders photo.png, the picture of ../photo.fl: hills and the sun over a lake, with haze, reflections and a sensor's grain.

    python examples/photo/scene.py

Nothing of it is anybody's photograph: it is NumPy and a fixed seed, under the licence of this repository.
"""

from pathlib import Path

import numpy as np
from PIL import Image

HEIGHT, WIDTH, HORIZON = 128, 192, 80
rng = np.random.default_rng(3)


def ridge(roughness, height, base):
    """A skyline: octaves of noise, each finer and lower."""
    line = np.full(WIDTH, float(base))
    for octave in range(1, 7):
        knots = rng.standard_normal(2**octave + 1)
        line -= height * roughness**octave * np.interp(np.linspace(0, 2**octave, WIDTH), range(2**octave + 1), knots)
    return line


def sky(y, x):
    t = (y / HORIZON)[..., None]
    colour = (1 - t) * [0.25, 0.42, 0.72] + t * [0.98, 0.76, 0.52]
    glow = np.exp(-((x - 132) ** 2 + 1.6 * (y - 40) ** 2) / 500)[..., None]
    disc = (np.hypot(x - 132, y - 40) < 7)[..., None]
    return np.where(disc, [1.0, 0.97, 0.86], colour + glow * [0.45, 0.30, 0.08])


def land(y, x):
    """The scene above the water: the sky and four ridges before it, the nearer the darker."""
    colour = sky(y, x)
    for depth, (base, height) in enumerate([(58, 9), (66, 8), (73, 6), (79, 5)]):
        tone = np.array([0.52, 0.50, 0.58]) * (1 - depth / 5) + np.array([0.05, 0.12, 0.07]) * depth / 5
        texture = 1 + 0.10 * (depth + 1) * rng.standard_normal((*y.shape, 1)) * (depth > 0) * 0.6
        colour = np.where((y > SKYLINES[depth][x.astype(int)])[..., None], tone * texture, colour)
    return colour


SKYLINES = [ridge(0.62, height, base) for base, height in [(58, 9), (66, 8), (73, 6), (79, 5)]]


def main():
    y, x = np.mgrid[:HEIGHT, :WIDTH].astype(float)
    above = land(y, x)
    depth = np.maximum(y - HORIZON, 0)
    wave = np.sin(depth * 2.1 + 3 * np.sin(x / 17)) * (0.4 + depth / 10)
    rows = np.clip(HORIZON - 1 - depth * 1.4, 0, HORIZON - 1).astype(int)
    columns = np.clip(x + wave, 0, WIDTH - 1).astype(int)
    water = above[rows, columns] * 0.72 + [0.0, 0.02, 0.05]
    scene = np.where((y >= HORIZON)[..., None], water, above)
    vignette = 1 - 0.25 * (((x / WIDTH - 0.5) ** 2 + (y / HEIGHT - 0.5) ** 2) * 2)[..., None]
    grain = rng.normal(0, 0.012, scene.shape)
    pixels = np.rint(np.clip(scene * vignette + grain, 0, 1) * 255).astype(np.uint8)
    folder = Path(__file__).parent
    Image.fromarray(pixels).save(folder / "photo.png", optimize=True)


if __name__ == "__main__":
    main()
