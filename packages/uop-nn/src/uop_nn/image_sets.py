"""Fashion-MNIST and CIFAR-10, from where MNIST comes from: UOP_DATA, the cache, or the network. Week 9."""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .data import Mnist, parse_idx, pixels
from .download import DataError, DataFile, DataFolders, fetch

__all__ = ["Cifar10", "load_cifar10", "load_fashion_mnist"]

FASHION_MIRRORS = (
    "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
)


def _fashion_file(name: str, size: int, sha256: str) -> DataFile:
    urls = tuple(mirror + name for mirror in FASHION_MIRRORS)
    return DataFile(f"fashion-mnist/{name}", size, sha256, urls, packed=True)


#: The digests are of the files as they are: every mirror has the same ones.
FASHION = (
    _fashion_file(
        "train-images-idx3-ubyte.gz",
        26421880,
        "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
    ),
    _fashion_file(
        "train-labels-idx1-ubyte.gz",
        29515,
        "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
    ),
    _fashion_file(
        "t10k-images-idx3-ubyte.gz",
        4422102,
        "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
    ),
    _fashion_file(
        "t10k-labels-idx1-ubyte.gz", 5148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"
    ),
)
CIFAR10 = DataFile(
    "cifar-10-binary.tar.gz",
    170052171,
    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
    ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
    packed=True,
)
CIFAR_TRAIN, CIFAR_TEST = tuple(f"data_batch_{n}.bin" for n in range(1, 6)), ("test_batch.bin",)
RECORD = 1 + 3 * 32 * 32  # a label and the pixels of an image: red, green, blue


class Cifar10(NamedTuple):
    """Images are float32 [N, 3, 32, 32] in [0, 1], red, green and blue; labels are int32 [N], 0 to 9.

    Airplane, automobile, bird, cat, deer, dog, frog, horse, ship, truck.
    """

    train_images: NDArray[np.float32]
    train_labels: NDArray[np.int32]
    test_images: NDArray[np.float32]
    test_labels: NDArray[np.int32]


def load_fashion_mnist(cache: Path | None = None) -> Mnist:
    """Return 60,000 and 10,000 images of clothes, in the format of MNIST.

    In UOP_DATA they are in the folder fashion-mnist. `cache` stands for the value of UOP_CACHE. Raises
    DataError if a file is damaged, and MissingDataError, which says where it looked, if one is not found.
    """
    folders = DataFolders.from_settings(cache)
    x, y, test_x, test_y = (parse_idx(_unpacked(file, fetch(file, folders))) for file in FASHION)
    return Mnist(pixels(x), y.astype(np.int32), pixels(test_x), test_y.astype(np.int32))


def load_cifar10(cache: Path | None = None) -> Cifar10:
    """Return the 50,000 and 10,000 small photographs of CIFAR-10,
    0.7 GB. Raises like `load_fashion_mnist`.
    """
    raw = fetch(CIFAR10, DataFolders.from_settings(cache))
    try:
        with tarfile.open(fileobj=io.BytesIO(raw), mode="r:gz") as archive:
            members = {Path(member.name).name: member for member in archive if member.isfile()}
            parts = {
                name: file.read()
                for name in (*CIFAR_TRAIN, *CIFAR_TEST)
                if (file := archive.extractfile(members[name])) is not None
            }
    except (tarfile.TarError, KeyError, OSError, EOFError, zlib.error) as error:
        raise DataError(f"{CIFAR10.name} is not the archive of CIFAR-10: {error}") from error
    train, test = (_records([parts[name] for name in names]) for names in (CIFAR_TRAIN, CIFAR_TEST))
    return Cifar10(*train, *test)


def _records(parts: list[bytes]) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    data = np.frombuffer(b"".join(parts), np.uint8)
    if data.size % RECORD:
        raise DataError(f"{CIFAR10.name}: {data.size} bytes are not images of {RECORD}")
    records = data.reshape(-1, RECORD)
    return pixels(records[:, 1:]).reshape(-1, 3, 32, 32), records[:, 0].astype(np.int32)


def _unpacked(file: DataFile, raw: bytes) -> bytes:
    try:
        return gzip.decompress(raw)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{file.name} is not a gzip file: {error}") from error
