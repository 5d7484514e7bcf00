"""A user's own table, folder or arrays, from the file to the pools that training takes."""

from __future__ import annotations

from fewtask.own.data import OwnData

__all__ = ["OwnData"]
