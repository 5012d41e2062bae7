"""Data sets: what is found where, and that nothing damaged is ever used or left behind."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import io
import struct
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from uop_ir import UopError, override
from uop_nn import data
from uop_nn.data import DataError, MissingDataError, load_mnist, load_text, load_tinyshakespeare, parse_idx
from uop_nn.download import DataFile, DataFolders, fetch
from uop_nn.files import replacing
from uop_nn.settings import settings
from uop_nn.text import embedded_text

CONTENTS = b"the quick brown fox " * 50
PLAIN = DataFile(
    "fox.txt", len(CONTENTS), hashlib.sha256(CONTENTS).hexdigest(), ("https://one/fox", "https://two/fox")
)
PACKED = DataFile("fox.gz", PLAIN.size, PLAIN.sha256, PLAIN.urls)

needs_data = pytest.mark.skipif(not settings.uop_data, reason="UOP_DATA is not set")


class Network:
    """Stands for urlopen: a body, or an exception to raise,
    for each URL; anything else is a host not found.
    """

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def __call__(self, request: urllib.request.Request, timeout: float) -> Any:
        assert timeout > 0
        self.asked.append(request.full_url)
        answer = self.answers.get(request.full_url, urllib.error.URLError("host not found"))
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, Broken):
            return Broken(answer.error)
        return io.BytesIO(answer) if isinstance(answer, bytes) else answer


class Broken(io.BytesIO):
    """A response whose connection ends, in the way given, when it is read."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def read(self, size: int | None = -1, /) -> bytes:
        raise self.error


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Network]:
    def install(answers: dict[str, Any] | None = None) -> Network:
        fake = Network(answers or {})
        monkeypatch.setattr(urllib.request, "urlopen", fake)
        return fake

    return install


@pytest.fixture(autouse=True)
def isolated(
    network: Callable[..., Network], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    network()
    monkeypatch.setattr("uop_nn.network.PAUSE", 0.0)
    with override(settings, uop_cache=str(tmp_path / "own-cache")):
        yield


@pytest.fixture
def folders(tmp_path: Path) -> DataFolders:
    user = tmp_path / "user"
    user.mkdir()
    return DataFolders(user, tmp_path / "cache" / "data")


def one_line(error: pytest.ExceptionInfo[UopError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


def test_the_users_folder_comes_first(folders: DataFolders, network: Callable[..., Network]) -> None:
    fake = network()
    assert folders.user is not None
    (folders.user / "fox.gz").write_bytes(gzip.compress(CONTENTS, 1))
    assert fetch(PACKED, folders) == CONTENTS
    (folders.user / "fox.txt").write_bytes(CONTENTS)
    assert fetch(PLAIN, folders) == CONTENTS
    assert fake.asked == []
    assert not folders.cache.exists()


def test_download_is_kept_and_used_again(folders: DataFolders, network: Callable[..., Network]) -> None:
    packed = gzip.compress(CONTENTS)
    fake = network({"https://two/fox": packed})
    assert fetch(PACKED, folders) == CONTENTS
    assert fake.asked == ["https://one/fox", "https://two/fox"]
    assert [path.name for path in folders.cache.iterdir()] == ["fox.gz"]
    assert (folders.cache / "fox.gz").read_bytes() == packed
    fake = network()
    assert fetch(PACKED, folders) == CONTENTS
    assert fake.asked == []


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Broken(ConnectionResetError(104, "Connection reset by peer")), "Connection reset"),
        (Broken(http.client.IncompleteRead(b"half")), "IncompleteRead"),
        (Broken(TimeoutError()), "TimeoutError"),
        (CONTENTS[:-1], "damaged"),
        (CONTENTS + b"!", "damaged"),
        (b"<html>please log in</html>", "damaged"),
        (urllib.error.HTTPError("https://one/fox", 404, "Not Found", http.client.HTTPMessage(), None), "404"),
    ],
)
def test_failed_download_leaves_nothing(
    folders: DataFolders, network: Callable[..., Network], answer: Any, told: str
) -> None:
    network({"https://one/fox": answer})
    with pytest.raises(MissingDataError) as error:
        fetch(PLAIN, folders)
    text = one_line(error)
    assert told in text
    assert "host not found" in text
    for place in (str(folders.user), str(folders.cache), *PLAIN.urls, "set UOP_DATA"):
        assert place in text
    assert not folders.cache.exists()


def test_interrupted_download_leaves_nothing(folders: DataFolders, network: Callable[..., Network]) -> None:
    network({"https://one/fox": Broken(KeyboardInterrupt())})
    with pytest.raises(KeyboardInterrupt):
        fetch(PLAIN, folders)
    assert not folders.cache.exists()


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_interrupted_write_keeps_the_old_file(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def write() -> None:
        with replacing(path) as file:
            file.write(b"ne")
            raise error

    with pytest.raises(error):
        write()
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
    assert path.read_bytes() == b"old"
    with replacing(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
    assert path.read_bytes() == b"new"


PACKED_BYTES = gzip.compress(CONTENTS, mtime=0)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"not gzip at all",
        PACKED_BYTES[:-9],
        PACKED_BYTES[:20] + b"\xff\xff\xff" + PACKED_BYTES[23:],
        gzip.compress(CONTENTS[::-1], mtime=0),
        gzip.compress(CONTENTS + b"more", mtime=0),
    ],
    ids=["empty", "not gzip", "cut", "overwritten", "other contents", "more contents"],
)
def test_damaged_files(folders: DataFolders, network: Callable[..., Network], raw: bytes) -> None:
    assert folders.user is not None
    network({"https://one/fox": PACKED_BYTES})
    (folders.user / "fox.gz").write_bytes(raw)
    with pytest.raises(DataError) as error:
        fetch(PACKED, folders)
    text = one_line(error)
    assert str(folders.user / "fox.gz") in text
    assert f"expected contents of sha256 {PACKED.sha256}" in text
    assert "found" in text
    assert (folders.user / "fox.gz").read_bytes() == raw

    (folders.user / "fox.gz").unlink()
    folders.cache.mkdir(parents=True)
    (folders.cache / "fox.gz").write_bytes(raw)
    assert fetch(PACKED, folders) == CONTENTS
    assert (folders.cache / "fox.gz").read_bytes() == PACKED_BYTES


def test_damaged_cache_without_network(folders: DataFolders) -> None:
    folders.cache.mkdir(parents=True)
    (folders.cache / "fox.txt").write_bytes(b"rotten")
    with pytest.raises(MissingDataError) as error:
        fetch(PLAIN, folders)
    assert hashlib.sha256(b"rotten").hexdigest() in one_line(error)
    assert list(folders.cache.iterdir()) == []


def test_a_cache_that_cannot_be_written(folders: DataFolders, network: Callable[..., Network]) -> None:
    network({"https://one/fox": CONTENTS})
    folders.cache.parent.write_bytes(b"a file where the folder should be")
    with pytest.raises(DataError, match="UOP_CACHE"):
        fetch(PLAIN, folders)


def test_user_folder_must_exist(tmp_path: Path) -> None:
    with override(settings, uop_data=str(tmp_path / "absent")), pytest.raises(DataError) as error:
        load_mnist()
    assert "absent, which is not a folder" in one_line(error)


def test_parse_idx() -> None:
    values = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    raw = b"\0\0\x08\x03" + struct.pack(">3I", 2, 3, 4) + values.tobytes()
    np.testing.assert_array_equal(parse_idx(raw), values)
    for wrong in (b"", b"\0\0", raw[:7], raw[:-1], raw + b"\0", b"\0\0\x0d" + raw[3:]):
        with pytest.raises(DataError, match="IDX"):
            parse_idx(wrong)


def idx(values: np.ndarray[Any, Any]) -> bytes:
    return bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()


def pinned(name: str, contents: bytes) -> DataFile:
    return DataFile(name, len(contents), hashlib.sha256(contents).hexdigest())


def test_load_mnist_from_small_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    sets = {
        name: (random.integers(0, 256, (n, 28, 28), np.uint8), random.integers(0, 10, n).astype(np.uint8))
        for name, n in (("TRAIN", 6), ("TRAIN_10K", 4), ("TEST", 3))
    }
    files: dict[str, list[DataFile]] = {}
    for name, arrays in sets.items():
        files[name] = [pinned(f"{name}-{part}.gz", idx(array)) for part, array in enumerate(arrays)]
        monkeypatch.setattr(data, name, tuple(files[name]))
        if name != "TRAIN":
            for file, array in zip(files[name], arrays, strict=True):
                (tmp_path / file.name).write_bytes(gzip.compress(idx(array)))

    with override(settings, uop_data=str(tmp_path)):
        small = load_mnist()
        for file, array in zip(files["TRAIN"], sets["TRAIN"], strict=True):
            (tmp_path / file.name).write_bytes(gzip.compress(idx(array)))
        full = load_mnist()
    images, labels = sets["TRAIN_10K"]
    assert small.train_images.dtype == np.float32
    assert small.train_labels.dtype == np.int32
    expected = [[pixel / 255 for row in image for pixel in row] for image in images.tolist()]
    np.testing.assert_allclose(small.train_images, expected, rtol=1e-6)
    assert small.train_labels.tolist() == labels.tolist()
    assert small.test_labels.tolist() == sets["TEST"][1].tolist()
    assert full.train_images.shape == (6, 784)
    assert full.train_labels.tolist() == sets["TRAIN"][1].tolist()


def test_load_mnist_without_any_source() -> None:
    with override(settings, uop_data=""), pytest.raises(MissingDataError) as error:
        load_mnist()
    text = one_line(error)
    assert "train-images-idx3-ubyte.gz" in text
    assert "UOP_DATA (not set)" in text
    assert "https://" in text


@needs_data
def test_load_mnist() -> None:
    mnist = load_mnist()
    assert mnist.train_images.shape in {(10_000, 784), (60_000, 784)}
    assert mnist.test_images.shape == (10_000, 784)
    assert mnist.train_images.min() == 0
    assert mnist.train_images.max() == 1
    # The first labels of each set, as everybody has seen them printed.
    assert mnist.train_labels[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert mnist.test_labels[:10].tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]
    assert np.bincount(mnist.test_labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert mnist.train_images[:10_000].mean() == pytest.approx(0.1307, abs=2e-3)


@needs_data
def test_load_tinyshakespeare() -> None:
    text = load_tinyshakespeare()
    assert text.startswith("First Citizen:\nBefore we proceed any further, hear me speak.\n")
    assert len(text) == 1_115_394
    assert len(set(text)) == 65
    assert load_text(None, 65) == (text, None)


def test_load_text_of_the_user(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_bytes("\ufeffna\u00efve\r\ntext\n".encode())
    assert load_text(path, 11) == ("na\u00efve\ntext\n", None)
    assert load_text(str(path), 11) == load_text(path, 11)
    with pytest.raises(DataError) as error:
        load_text(path, 12)
    assert f"{path} has 11 characters, but the context needs at least 12" in one_line(error)
    path.write_bytes(b"abc\xff")
    with pytest.raises(DataError, match="not UTF-8 text: byte 0xff at 3"):
        load_text(path, 1)
    for wrong in (tmp_path, tmp_path / "absent"):
        with pytest.raises(DataError) as error:
            load_text(wrong, 1)
        assert str(wrong) in one_line(error)


def test_load_text_falls_back_to_the_embedded_text() -> None:
    with override(settings, uop_data=""):
        text, note = load_text(None, 1000)
        assert text == embedded_text()
        assert note is not None
        assert "embedded text" in note
        assert "\n" not in note
        with pytest.raises(DataError, match="embedded text has"):
            load_text(None, 10_000_000)


def test_load_text_does_not_hide_damage(tmp_path: Path) -> None:
    (tmp_path / "tinyshakespeare.txt").write_bytes(b"First Citizen:\n")
    with override(settings, uop_data=str(tmp_path)), pytest.raises(DataError, match="damaged"):
        load_text(None, 1)


def test_where_the_cache_is() -> None:
    for values, root in (
        ({"uop_cache": "/mine", "xdg_cache_home": "/xdg"}, Path("/mine")),
        ({"uop_cache": "", "xdg_cache_home": "/xdg"}, Path("/xdg/uop")),
        ({"uop_cache": "", "xdg_cache_home": ""}, Path.home() / ".cache" / "uop"),
    ):
        with override(settings, **values):
            assert DataFolders.from_settings().cache == root / "data"
