"""An image file to .npy and back: u8[height, width, 3], the type that ../photo.fl takes.

    pip install numpy pillow
    python examples/photo/image.py photo.png photo.npy
    python examples/photo/image.py blurred.npy blurred.png
"""

import sys

import numpy as np
from PIL import Image


def main(source, target):
    if source.endswith(".npy"):
        Image.fromarray(np.load(source)).save(target)
    else:
        np.save(target, np.asarray(Image.open(source).convert("RGB")))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
