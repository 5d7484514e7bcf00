"""What a trained set function does, in pictures: whose share is how large, and where a merged task lies."""

from __future__ import annotations

from fewtask.explain.merging import Merging, draw_merging, merge_two_tasks
from fewtask.explain.shares import Shares, class_shares, draw, second_share

__all__ = ["Merging", "Shares", "class_shares", "draw", "draw_merging", "merge_two_tasks", "second_share"]
