"""What `fewtask` exports can be imported from it, whatever was imported before."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

import fewtask


@pytest.mark.parametrize("name", [name for name in fewtask.__all__ if name != "__version__"])
def test_every_exported_name_is_there(name: str) -> None:
    assert callable(getattr(fewtask, name))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'train'"):
        fewtask.train  # noqa: B018


def test_hypergradient_is_a_function_even_though_a_package_has_its_name() -> None:
    from fewtask import hypergradient
    from fewtask.hypergradient import ESTIMATORS

    theta, lam = torch.tensor([1.0], requires_grad=True), torch.tensor([2.0], requires_grad=True)
    train, validation = ((theta - lam) ** 2).sum(), (theta**2).sum()
    (found,) = hypergradient("neumann", train, validation, [theta], [lam], step=0.1, terms=50)
    assert "neumann" in ESTIMATORS
    assert found.item() == pytest.approx(2.0, rel=1e-3)


def test_importing_fewtask_does_not_import_torch() -> None:
    code = "import sys, fewtask; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
