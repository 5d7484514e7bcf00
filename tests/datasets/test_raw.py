"""Finding, downloading and opening the publishers' files."""

from __future__ import annotations

import hashlib
import http.server
import io
import tarfile
import threading
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fewtask.datasets import SOURCES, raw
from fewtask.datasets.archives import open_zip, read_member, unpack_archive
from fewtask.datasets.base import Prepared, RawFile, Source
from fewtask.datasets.pins import FirstUseWarning
from fewtask.errors import DataError
from fewtask.pool import Dataset
from fewtask.settings import DataSettings


def never_built(prepared: Prepared, data: DataSettings) -> Dataset:
    raise AssertionError


def source_of(*files: RawFile) -> Source:
    return Source("toy", "t", "d", "l", "s", never_built, folder="toys", files=files)


def zip_of(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as out:
        for name, content in members.items():
            out.writestr(name, content)
    return stream.getvalue()


def tar_of(members: dict[str, bytes], link: str | None = None) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as out:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            out.addfile(info, io.BytesIO(content))
        if link is not None:
            info = tarfile.TarInfo("link")
            info.type, info.linkname = tarfile.SYMTYPE, link
            out.addfile(info)
    return stream.getvalue()


def test_a_raw_folder_may_hold_the_data_sets_folder_or_be_it(tmp_path: Path) -> None:
    source = source_of(RawFile("a.csv"))
    (tmp_path / "toys").mkdir()
    (tmp_path / "toys" / "a.csv").write_text("x")
    assert raw.locate(source, tmp_path) == tmp_path / "toys"
    assert raw.locate(source, tmp_path / "toys") == tmp_path / "toys"


def test_the_environment_names_the_raw_folder_where_no_argument_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.csv").write_text("x")
    monkeypatch.setenv("FEWTASK_RAW", str(tmp_path))
    assert raw.raw_folder(source_of(RawFile("a.csv")), None, tmp_path / "unused") == tmp_path
    assert not (tmp_path / "unused").exists()


def test_missing_files_are_listed_with_address_and_flag(tmp_path: Path) -> None:
    source = source_of(RawFile("a.csv", "https://example.org/a"), RawFile("b.csv", "https://example.org/b"))
    (tmp_path / "toys").mkdir()
    (tmp_path / "toys" / "b.csv").write_text("x")
    with pytest.raises(DataError) as caught:
        raw.locate(source, tmp_path)
    message = str(caught.value)
    assert "a.csv" in message
    assert "b.csv" not in message
    assert "https://example.org/a" in message
    assert "--raw-dir" in message


def test_a_file_without_an_address_is_asked_of_the_user(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"own\.csv, which no public address offers.*--raw-dir"):
        raw.download(source_of(RawFile("own.csv")), tmp_path)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    folder = tmp_path / "served"
    folder.mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: object, **named: object) -> None:
            super().__init__(*args, directory=str(folder), **named)  # type: ignore[arg-type]

        def log_message(self, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_a_download_is_checked_and_an_archive_loses_its_top_folder(
    tmp_path: Path, served: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FEWTASK_RAW", raising=False)
    folder, address = served
    archive = zip_of({"repo-master/meta/index.csv": b"index", "repo-master/audio/1.wav": b"wav"})
    (folder / "repo.zip").write_bytes(archive)
    (folder / "plain.csv").write_bytes(b"plain")
    source = source_of(
        RawFile("meta/index.csv", f"{address}/repo.zip", f"sha256:{hashlib.sha256(archive).hexdigest()}", "zip"),
        RawFile("plain.csv", f"{address}/plain.csv?raw=true", f"md5:{hashlib.md5(b'plain').hexdigest()}"),
    )
    found = raw.raw_folder(source, None, tmp_path / "raw", may_download=True)
    assert (found / "meta" / "index.csv").read_bytes() == b"index"
    assert (found / "audio" / "1.wav").read_bytes() == b"wav"
    assert (found / "plain.csv").read_bytes() == b"plain"
    left = {path.name for path in found.rglob("*") if path.is_file()}
    assert left == {"index.csv", "1.wav", "plain.csv"}


def test_a_download_with_the_wrong_checksum_is_refused_and_leaves_no_file(
    tmp_path: Path, served: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw, "RETRIES", 0)
    folder, address = served
    (folder / "a.csv").write_bytes(b"something else")
    source = source_of(RawFile("a.csv", f"{address}/a.csv", "md5:" + "0" * 32))
    with pytest.raises(DataError, match="does not have the checksum"):
        raw.download(source, tmp_path / "raw")
    assert not list((tmp_path / "raw").iterdir())


def test_without_internet_the_error_names_the_flag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw, "RETRIES", 0)
    source = source_of(RawFile("a.csv", "http://127.0.0.1:9/a.csv"))
    with pytest.raises(DataError, match=r"could not be downloaded.*--raw-dir DIR"):
        raw.download(source, tmp_path / "raw")


@pytest.mark.parametrize("name", ["../escaped.txt", "/tmp/escaped.txt", "a/../../escaped.txt", "..\\escaped.txt"])
@pytest.mark.parametrize("form", ["zip", "tar"])
def test_a_member_that_would_leave_the_folder_is_refused(tmp_path: Path, name: str, form: str) -> None:
    members = {"fine.txt": b"fine", name: b"bad"}
    archive = tmp_path / "archive"
    archive.write_bytes(zip_of(members) if form == "zip" else tar_of(members))
    inner = tmp_path / "deep" / "folder"
    with pytest.raises(DataError, match="would be written outside"):
        unpack_archive(archive, form, inner)
    assert not list(inner.iterdir())
    assert not list(tmp_path.rglob("*escaped*"))


def test_a_link_in_a_tar_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / "a.tar.gz"
    archive.write_bytes(tar_of({}, link="/etc/passwd"))
    with pytest.raises(DataError, match="link or a device"):
        unpack_archive(archive, "tar", tmp_path / "out")


@pytest.mark.parametrize("form", ["zip", "tar"])
def test_a_truncated_archive_is_refused_and_leaves_nothing(tmp_path: Path, form: str) -> None:
    members = {"data.bin": np.random.default_rng(0).bytes(50_000)}
    whole = zip_of(members) if form == "zip" else tar_of(members)
    archive = tmp_path / f"cut.{form}"
    archive.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="damaged"):
        unpack_archive(archive, form, tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())


def test_a_zip_member_with_a_wrong_checksum_is_noticed(tmp_path: Path) -> None:
    content = bytes(range(256)) * 4
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as out:
        out.writestr("a.sdf", content)
    changed = stream.getvalue().replace(content, content[:100] + b"?" + content[101:])
    path = tmp_path / "a.zip"
    path.write_bytes(changed)
    with open_zip(path) as opened, pytest.raises(DataError, match=r"a\.sdf.*damaged"):
        read_member(opened, "a.sdf")


def test_nothing_is_downloaded_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEWTASK_RAW", raising=False)
    monkeypatch.setattr(raw, "download", lambda *_: pytest.fail("downloaded"))
    source = source_of(RawFile("a.csv", "https://example.org/a.csv"))
    with pytest.raises(DataError, match=r"`fewtask data prepare toy` fetches it from https://example\.org/a\.csv"):
        raw.raw_folder(source, None, tmp_path)


def test_a_zip_file_that_wants_a_password_is_refused(tmp_path: Path) -> None:
    content = bytearray(zip_of({"a.txt": b"text"}))
    # The flag of encryption, in the member's own header and in the index.
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.zip is damaged or is no zip file"):
        unpack_archive(tmp_path / "a.zip", "zip", tmp_path / "out")


def test_a_file_without_a_checksum_is_trusted_once_and_must_then_stay_the_same(
    tmp_path: Path, served: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw, "RETRIES", 0)
    folder, address = served
    (folder / "a.csv").write_bytes(b"first")
    source, there = source_of(RawFile("a.csv", f"{address}/a.csv")), tmp_path / "raw"
    with pytest.warns(FirstUseWarning, match=f"sha256 {hashlib.sha256(b'first').hexdigest()}"):
        raw.download(source, there)
    (there / "a.csv").unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        raw.download(source, there)
    assert (there / "a.csv").read_bytes() == b"first"
    (there / "a.csv").unlink()
    (folder / "a.csv").write_bytes(b"another")
    with pytest.raises(DataError, match=r"which its first download had \(\.checksums\.json\)"):
        raw.download(source, there)
    assert not (there / "a.csv").exists()
    for damage in ("no json", "[]", '{"a": 1}'):
        (there / ".checksums.json").write_text(damage)
        with pytest.raises(DataError, match=r"checksums\.json is damaged"):
            raw.download(source, there)


@pytest.mark.parametrize("spoilt", [None, "audio/1.wav", "audio/2.wav", "audio/sub/1.wav"])
def test_the_archive_of_a_commit_is_checked_by_the_hashes_that_git_has_of_its_folders(
    spoilt: str | None, tmp_path: Path, served: tuple[Path, str]
) -> None:
    folder, address = served
    members = {"repo/meta/index.csv": b"hello\n", "repo/audio/1.wav": b"wav"}
    (folder / "repo.zip").write_bytes(zip_of(members | ({f"repo/{spoilt}": b"?"} if spoilt else {})))
    # From `git write-tree`.
    trees = {"meta": "7c71d05108ee3e3d87cbc62d7ef084de1c250256", "audio": "c9587d4b36e08c1fe137fc19a8621b2cd9ac1860"}
    source = source_of(RawFile("meta/index.csv", f"{address}/repo.zip", unpack="zip", git_trees=trees))
    there = tmp_path / "raw"
    if spoilt is None:
        raw.download(source, there)
        assert (there / "audio" / "1.wav").read_bytes() == b"wav"
        return
    with pytest.raises(DataError, match=r"is not that commit's \('audio' differs\), and was removed"):
        raw.download(source, there)
    assert raw.missing_files(source, there), "a second call must not take what the first refused"


def test_the_files_without_a_checksum_are_those_that_security_names() -> None:
    without = {
        file.path
        for source in SOURCES.working().values()
        for file in source.files
        if file.url is not None and not (file.known_hash or file.git_trees)
    }
    page = (Path(__file__).parents[2] / "SECURITY.md").read_text()
    (line,) = [line for line in page.splitlines() if line.startswith("    ")]
    assert without == set(line.split())
