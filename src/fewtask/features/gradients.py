"""A classic feature of pictures: histograms of oriented gradients (Dalal and Triggs, 2005) and of colours.

No pretrained file is needed, and a small network on it learns from far fewer pictures than one on pixels.
"""

from __future__ import annotations

import numpy as np

SIDE = 64
CELL = 8
DIRECTIONS = 9
BLOCK = 2
CLIP = 0.2
COLOUR_BINS = 8
QUARTERS = 2
EPSILON = 1e-6
LUMA = np.array([0.299, 0.587, 0.114])


def classic_features(picture: np.ndarray) -> np.ndarray:
    """[3, 64, 64] bytes to [1860] float32: 1,764 of gradients and 96 of colours, both of about unit size."""
    return np.concatenate([oriented_gradients(picture), colours(picture)]).astype(np.float32)


def oriented_gradients(picture: np.ndarray) -> np.ndarray:
    """[1764] histograms of unsigned gradient directions in cells of 8 x 8, normalised in blocks of 2 x 2 cells."""
    grey = np.tensordot(LUMA, picture / 255.0, axes=1)
    down, right = np.zeros_like(grey), np.zeros_like(grey)
    down[1:-1], right[:, 1:-1] = grey[2:] - grey[:-2], grey[:, 2:] - grey[:, :-2]
    strength = np.hypot(down, right)
    # Each gradient is shared between the two nearest of the directions' centres.
    place = (np.arctan2(down, right) % np.pi) / np.pi * DIRECTIONS - 0.5
    lower = np.floor(place).astype(int)
    share = place - lower
    cells = SIDE // CELL
    cell = (np.arange(SIDE) // CELL)[:, None] * cells + (np.arange(SIDE) // CELL)[None, :]
    histogram = np.zeros(cells * cells * DIRECTIONS)
    for bins, weight in ((lower % DIRECTIONS, 1 - share), ((lower + 1) % DIRECTIONS, share)):
        index = (cell * DIRECTIONS + bins).reshape(-1)
        histogram += np.bincount(index, (strength * weight).reshape(-1), len(histogram))
    grid = histogram.reshape(cells, cells, DIRECTIONS)
    steps = cells - BLOCK + 1
    corners = [grid[i : i + steps, j : j + steps] for i in range(BLOCK) for j in range(BLOCK)]
    blocks = np.concatenate(corners, axis=2)
    blocks = np.minimum(_unit(blocks), CLIP)
    return _unit(blocks).reshape(-1)


def colours(picture: np.ndarray) -> np.ndarray:
    """[96] histograms of each channel's bytes in each quarter of the picture, as square roots of shares."""
    part = SIDE // QUARTERS
    found = []
    for top in range(0, SIDE, part):
        for left in range(0, SIDE, part):
            for channel in picture[:, top : top + part, left : left + part]:
                counts = np.bincount(channel.reshape(-1).astype(int) * COLOUR_BINS // 256, minlength=COLOUR_BINS)
                found.append(np.sqrt(counts / channel.size))
    return np.concatenate(found)


def _unit(vectors: np.ndarray) -> np.ndarray:
    unit: np.ndarray = vectors / np.sqrt((vectors**2).sum(axis=-1, keepdims=True) + EPSILON**2)
    return unit
