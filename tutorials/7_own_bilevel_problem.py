"""7. A bilevel problem of your own: how much to shrink each weight of a regression, learned on held-out rows.

    inner:  θ(λ) = argmin ‖X θ - y‖² / n + Σ_i 4 σ(λ_i) θ_i²      on 40 training rows
    outer:  min over λ of ‖X' θ(λ) - y'‖² / n'                     on 40 validation rows

Of 30 features five count. With one coefficient a feature, the others can be shrunk to nothing.
"""

from __future__ import annotations

import torch

from fewtask.hypergradient import hypergradient

torch.manual_seed(0)
truth = torch.zeros(30, dtype=torch.float64)
truth[:5] = torch.tensor([2.0, -1.5, 1.0, 0.8, -0.6])


def draw(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(rows, 30, dtype=torch.float64)
    return x, x @ truth + torch.randn(rows, dtype=torch.float64)


train, validation, test = draw(40), draw(40), draw(2000)
theta = torch.zeros(30, dtype=torch.float64, requires_grad=True)
lam = torch.full((30,), -3.0, dtype=torch.float64, requires_grad=True)


def error(data: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    return (data[0] @ theta - data[1]).pow(2).mean()


def shrinkage() -> torch.Tensor:
    return 4 * torch.sigmoid(lam)  # between 0 and 4: more would be too steep for the steps below


def inner_loss() -> torch.Tensor:
    return error(train) + (shrinkage() * theta**2).sum()


inner, outer = torch.optim.SGD([theta], lr=0.05), torch.optim.Adam([lam], lr=0.2)
errors = []
for update in range(61):
    for _ in range(50):  # near the inner minimum, where the implicit gradient holds
        (theta.grad,) = torch.autograd.grad(inner_loss(), theta)
        inner.step()
    errors.append(float(error(test).detach()))
    if update % 20 == 0:
        print(f"after {update:2} updates: validation {float(error(validation).detach()):.3f}, test {errors[-1]:.3f}")
    # Conjugate gradients need no step size; 30 products solve a system of 30 unknowns.
    (lam.grad,) = hypergradient("conjugate-gradient", inner_loss, error(validation), [theta], [lam], step=0, terms=30)
    outer.step()

found = shrinkage().detach()
print("coefficients of the five that count:", [round(c, 2) for c in found[:5].tolist()])
print("median of the others:", round(float(found[5:].median()), 2))
assert errors[-1] < errors[0], "the learned coefficients do better on new rows"
