"""The making of Rainbow-MNIST tasks: digits on a coloured background, at two sizes and four angles.

7 colours x 2 sizes x 4 angles are 56 tasks; the paper names the 16 / 6 / 10 that it uses. The background takes
the colour and the digit stays dark.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (255, 0, 0),
    "orange": (255, 165, 0),
    "yellow": (255, 255, 0),
    "green": (0, 128, 0),
    "blue": (0, 0, 255),
    "indigo": (75, 0, 130),
    "violet": (238, 130, 238),
}
SIZES = ("full", "half")
ANGLES = (0, 90, 180, 270)
Transform = tuple[str, str, int]

TRANSFORMS: dict[str, tuple[Transform, ...]] = {
    "train": (
        ("red", "full", 90), ("indigo", "full", 0), ("blue", "full", 270), ("orange", "half", 270),
        ("green", "full", 90), ("green", "full", 270), ("orange", "full", 180), ("red", "full", 180),
        ("green", "full", 0), ("orange", "full", 0), ("violet", "full", 270), ("orange", "half", 90),
        ("violet", "half", 180), ("orange", "full", 90), ("violet", "full", 180), ("blue", "full", 90),
    ),
    "validation": (
        ("indigo", "half", 270), ("blue", "full", 0), ("yellow", "half", 180),
        ("yellow", "half", 0), ("yellow", "half", 90), ("violet", "half", 0),
    ),
    "test": (
        ("yellow", "full", 270), ("red", "full", 0), ("blue", "half", 270), ("blue", "half", 0),
        ("blue", "half", 180), ("red", "half", 270), ("violet", "full", 90), ("blue", "half", 90),
        ("green", "half", 270), ("red", "half", 90),
    ),
}  # fmt: skip


def task_name(transform: Transform) -> str:
    colour, size, angle = transform
    return f"{colour} {size} {angle}°"


def paint(ink: np.ndarray, transform: Transform) -> np.ndarray:
    """Grey digits [M, H, H] of uint8 (0 paper, 255 ink) to images [M, 3, H, H] of uint8."""
    colour, size, angle = transform
    side = ink.shape[1]
    digit = torch.from_numpy(ink).float()[:, None]
    if size == "half":
        small = F.interpolate(digit, size=side // 2, mode="area")
        before = (side - side // 2) // 2
        after = side - side // 2 - before
        digit = F.pad(small, (before, after, before, after))
    digit = torch.rot90(digit, angle // 90, dims=(2, 3)) / 255.0
    background = torch.tensor(COLOURS[colour]).float()[None, :, None, None]
    return ((1.0 - digit) * background).round().to(torch.uint8).numpy()
