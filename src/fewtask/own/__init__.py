"""A user's own table, folder or arrays, from the file to the pools that training takes."""

from __future__ import annotations

from fewtask.own.data import OwnData
from fewtask.own.reading import read_own

__all__ = ["OwnData", "read_own"]
