"""Downloads from a server on this machine:
broken connections, busy hosts, progress; and the sets of images.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from uop_ir import override
from uop_nn import DataError, MissingDataError, image_sets, load_cifar10, load_fashion_mnist, network
from uop_nn.download import DataFile, DataFolders, fetch
from uop_nn.settings import settings


class Server(ThreadingHTTPServer):
    """Serves `files` by path; each answer comes after those of `failures`:
    a status, or a share of the body.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.failures: list[int | float] = []
        self.asked: list[str] = []

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}{path}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        failure = self.server.failures.pop(0) if self.server.failures else 1.0
        body = self.server.files.get(self.path)
        if isinstance(failure, int) or body is None:
            self.send_error(failure if isinstance(failure, int) else 404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: int(failure * len(body))])

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(network, "PAUSE", 0.0)
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture
def folders(tmp_path: Path) -> DataFolders:
    return DataFolders(None, tmp_path / "data")


def file_of(server: Server, contents: bytes) -> DataFile:
    server.files["/fox"] = contents
    return DataFile("fox", len(contents), hashlib.sha256(contents).hexdigest(), (server.url("/fox"),))


@pytest.mark.parametrize("failures", [[], [503], [0.5, 429], [500, 0.0]])
def test_failures_that_pass(server: Server, folders: DataFolders, failures: list[int | float]) -> None:
    file = file_of(server, bytes(1000))
    server.failures = [*failures]
    assert fetch(file, folders) == bytes(1000)
    assert server.asked == ["/fox"] * (len(failures) + 1)
    assert fetch(file, folders) == bytes(1000)
    assert len(server.asked) == len(failures) + 1
    assert [path.name for path in folders.cache.iterdir()] == ["fox"]


@pytest.mark.parametrize(
    ("failures", "said", "asked"),
    [([404], "404", 1), ([503] * 5, "503", 3), ([0.5] * 5, "IncompleteRead", 3)],
)
def test_failures_that_stay(
    server: Server, folders: DataFolders, failures: list[int | float], said: str, asked: int
) -> None:
    file = file_of(server, bytes(1000))
    server.failures = failures
    with pytest.raises(MissingDataError, match=said) as error:
        fetch(file, folders)
    assert server.url("/fox") in str(error.value)
    assert "set UOP_DATA to a folder that holds fox" in str(error.value)
    assert len(server.asked) == asked
    assert not folders.cache.exists()


def test_nobody_answers(folders: DataFolders, server: Server) -> None:
    file = file_of(server, b"fox")
    server.server_close()
    with pytest.raises(MissingDataError, match="refused"):
        fetch(file, folders)


def test_a_large_file_shows_its_progress(
    server: Server, folders: DataFolders, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(fetch(file_of(server, bytes(1 << 21)), folders)) == 1 << 21
    assert "fox: 100%" in capsys.readouterr().err
    fetch(replace(file_of(server, b"small"), name="other"), folders)
    assert capsys.readouterr().err == ""


def idx(values: np.ndarray[Any, Any]) -> bytes:
    sizes = b"".join(size.to_bytes(4, "big") for size in values.shape)
    return bytes([0, 0, 8, values.ndim]) + sizes + values.tobytes()


def test_fashion_mnist(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    arrays = [
        array
        for n in (6, 3)
        for array in (
            random.integers(0, 256, (n, 28, 28)).astype(np.uint8),
            random.integers(0, 10, n).astype(np.uint8),
        )
    ]
    files = []
    for file, array in zip(image_sets.FASHION, arrays, strict=True):
        raw = gzip.compress(idx(array), mtime=0)
        server.files[f"/{file.name}"] = raw
        digest = hashlib.sha256(raw).hexdigest()
        files.append(replace(file, size=len(raw), sha256=digest, urls=(server.url(f"/{file.name}"),)))
    monkeypatch.setattr(image_sets, "FASHION", tuple(files))
    with override(settings, uop_data="", uop_cache=str(tmp_path)):
        for _ in range(2):  # from the network, then from the cache
            found = load_fashion_mnist()
            for given, loaded in zip(arrays, found, strict=True):
                expected = given.reshape(len(given), -1) / 255 if given.ndim > 1 else given
                np.testing.assert_allclose(loaded, expected, rtol=1e-6)
        assert len(server.asked) == 4
        monkeypatch.setattr(image_sets, "FASHION", image_sets.FASHION[:1] * 4)
        (tmp_path / "data" / files[0].name).write_bytes(gzip.compress(b"something else"))
        assert load_fashion_mnist().train_images.shape == (6, 784)  # a damaged file is fetched again
    assert found.train_images.dtype == np.float32
    assert found.test_labels.dtype == np.int32


def cifar_archive(parts: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, contents in parts.items():
            info = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            info.size = len(contents)
            archive.addfile(info, io.BytesIO(contents))
    return out.getvalue()


def test_cifar10(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [*(f"data_batch_{n}.bin" for n in range(1, 6)), "test_batch.bin"]
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (12, 3, 32, 32)).astype(np.uint8)
    labels = random.integers(0, 10, 12).astype(np.uint8)

    def record(n: int) -> bytes:
        raw: bytes = images[n].tobytes()
        return bytes([labels[n]]) + raw

    def install(raw: bytes) -> None:
        (tmp_path / "cifar-10-binary.tar.gz").write_bytes(raw)
        file = replace(image_sets.CIFAR10, size=len(raw), sha256=hashlib.sha256(raw).hexdigest(), urls=())
        monkeypatch.setattr(image_sets, "CIFAR10", file)

    parts = {name: record(2 * n) + record(2 * n + 1) for n, name in enumerate(names)}
    with override(settings, uop_data=str(tmp_path)):
        install(cifar_archive({"readme.html": b"", **parts}))
        found = load_cifar10()
        np.testing.assert_allclose(
            np.concatenate([found.train_images, found.test_images]), images / 255, rtol=1e-6
        )
        np.testing.assert_array_equal(np.concatenate([found.train_labels, found.test_labels]), labels)
        assert found.train_images.dtype == np.float32
        assert found.train_labels.dtype == np.int32
        for bad, message in (
            (cifar_archive({"data_batch_1.bin": b""}), "not the archive of CIFAR-10"),
            (b"no archive", "not the archive of CIFAR-10"),
            (cifar_archive({**parts, "test_batch.bin": b"short"}), "5 bytes are not images"),
        ):
            install(bad)
            with pytest.raises(DataError, match=message):
                load_cifar10()
        (tmp_path / "cifar-10-binary.tar.gz").write_bytes(b"other bytes")
        with pytest.raises(DataError, match=r"cifar-10-binary.tar.gz is damaged: expected .* sha256"):
            load_cifar10()
