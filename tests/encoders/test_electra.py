"""The fine-tuned text encoder, with a tiny random ELECTRA."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fewtask.encoders import make_encoder
from fewtask.errors import SettingsError
from fewtask.methods import make_method
from fewtask.pool import TaskPool
from fewtask.settings import EncoderSettings, RunSettings, update
from fewtask.training.loop import new_state, training_step


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    transformers = pytest.importorskip("transformers")
    config = transformers.ElectraConfig(
        vocab_size=60,
        embedding_size=16,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
    )
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("electra")
    transformers.ElectraModel(config).save_pretrained(path)
    return path


def rows(count: int, length: int = 12) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(1, 60, (count, length), generator=generator)
    mask = (torch.arange(length) < torch.randint(4, length, (count, 1), generator=generator)).long()
    return torch.stack([ids * mask, torch.zeros_like(ids), mask], dim=1).to(torch.int32)


def settings(path: Path) -> RunSettings:
    return update(
        RunSettings(method="meta-interpolation"),
        {
            "encoder": {"name": "electra", "width": 16, "path": str(path)},
            "episode": {"way": 2, "shot": 2, "query": 2, "batch": 1},
            "optimizer": {"name": "adamw", "lr": 3e-5, "schedule": "linear"},
            "hyper": {"period": 2, "terms": 3},
            "set_function": {"hidden": 16},
            "interpolation": {"layer": 2},
            "train": {"steps": 4},
        },
    )


def pool() -> TaskPool:
    tasks = {f"t{t}": {"no": range(20 * t, 20 * t + 10), "yes": range(20 * t + 10, 20 * t + 20)} for t in range(3)}
    return TaskPool.fixed(rows(60), {k: {c: list(r) for c, r in v.items()} for k, v in tasks.items()}, scale=None)


def test_a_hyper_update_goes_through_electra_and_changes_lambda(tiny: Path) -> None:
    tasks = pool()
    method = make_method(settings(tiny), tasks.input_shape)
    method.train()
    state = new_state(method, tasks, tasks)
    before = [p.detach().clone() for p in method.outer()]
    word = method.encoder.layers[0].model.embeddings.word_embeddings.weight  # type: ignore[union-attr]
    words = word.detach().clone()
    first, second = training_step(state), training_step(state)
    assert first is None
    assert second is not None
    assert second["hyper"]["indirect"] > 0
    assert any((a != b).any() for a, b in zip(before, method.outer()))
    assert (words != word).any(), "the pretrained model itself is fine-tuned"


def test_padding_that_no_row_uses_changes_nothing(tiny: Path) -> None:
    encoder = make_encoder(EncoderSettings("electra", 16, path=str(tiny)), (3, 12)).eval()
    short = rows(4)
    short[:, :, 8:] = 0
    short[:, 2, :4] = 1
    with torch.no_grad():
        torch.testing.assert_close(encoder(short)[:2], encoder(short[:2]), atol=1e-6, rtol=1e-5)


def test_tokens_cannot_be_interpolated(tiny: Path) -> None:
    with pytest.raises(SettingsError, match="token ids cannot be interpolated"):
        make_method(update(settings(tiny), {"interpolation": {"layer": 0}}), (3, 12))


def test_a_model_that_is_not_there_is_named_and_not_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    transformers = pytest.importorskip("transformers")
    asked: list[bool] = []

    def from_pretrained(path: str, local_files_only: bool = False, **more: str) -> None:
        asked.append(local_files_only)
        raise OSError("not there")

    monkeypatch.setattr(transformers.ElectraModel, "from_pretrained", from_pretrained)
    with pytest.raises(SettingsError, match=r"`hf download someone/electra` fetches it, .* by encoder\.path"):
        make_encoder(EncoderSettings("electra", 16, path="someone/electra"), (3, 12))
    assert asked == [True]
