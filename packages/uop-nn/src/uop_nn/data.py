"""The data sets of the two models: MNIST digits and text for the character GPT. Week 5.

Every file is looked for in the folder that `UOP_DATA` names, then in the cache (the folder `data` of
`UOP_CACHE`, ~/.cache/uop by default), then on the network, and its contents are compared with a pinned
sha256.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .download import DataError, DataFile, DataFolders, MissingDataError, fetch
from .text import embedded_text

__all__ = [
    "DataError",
    "MissingDataError",
    "Mnist",
    "load_mnist",
    "load_text",
    "load_tinyshakespeare",
    "parse_idx",
    "pixels",
]

MIRRORS = (
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
)


def _mnist_file(name: str, size: int, sha256: str, mirrors: tuple[str, ...] = MIRRORS) -> DataFile:
    return DataFile(name, size, sha256, tuple(mirror + name for mirror in mirrors))


# The digests are of the uncompressed IDX files. No mirror has the train10k pair, the first 10,000 examples of
# the training set: it is for machines without a network, and is read from UOP_DATA only.
TRAIN = (
    _mnist_file(
        "train-images-idx3-ubyte.gz",
        47040016,
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    ),
    _mnist_file(
        "train-labels-idx1-ubyte.gz",
        60008,
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    ),
)
TRAIN_10K = (
    _mnist_file(
        "train10k-images-idx3-ubyte.gz",
        7840016,
        "2889698e6bc3614913e76901316712919d1998fc2b44512451bfe65bc1e668b1",
        mirrors=(),
    ),
    _mnist_file(
        "train10k-labels-idx1-ubyte.gz",
        10008,
        "651e38e2ac0632f5113ec18f1df4977117f953197819034009971a6675a0df78",
        mirrors=(),
    ),
)
TEST = (
    _mnist_file(
        "t10k-images-idx3-ubyte.gz",
        7840016,
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    ),
    _mnist_file(
        "t10k-labels-idx1-ubyte.gz",
        10008,
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
)
TINY_SHAKESPEARE = DataFile(
    "tinyshakespeare.txt",
    1115394,
    "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
    ("https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",),
)


class Mnist(NamedTuple):
    """Images are float32 [N, 784] in [0, 1], a row of pixels after the other;
    labels are int32 [N], 0 to 9.
    """

    train_images: NDArray[np.float32]
    train_labels: NDArray[np.int32]
    test_images: NDArray[np.float32]
    test_labels: NDArray[np.int32]


def load_mnist(cache: Path | None = None) -> Mnist:
    """Return the training and the test set of MNIST.

    The training set has 60,000 examples, or its first 10,000 where UOP_DATA has only the files train10k-*;
    the test set has 10,000. `cache` stands for the value of UOP_CACHE. Raises DataError if a file is damaged,
    and MissingDataError, which says where it looked, if one is not found.
    """
    folders = DataFolders.from_settings(cache)
    train = TRAIN
    if folders.user is not None and not _has(folders.user, TRAIN) and _has(folders.user, TRAIN_10K):
        train = TRAIN_10K
    train_images, train_labels, test_images, test_labels = (
        parse_idx(fetch(file, folders)) for file in (*train, *TEST)
    )
    return Mnist(
        pixels(train_images),
        train_labels.astype(np.int32),
        pixels(test_images),
        test_labels.astype(np.int32),
    )


def load_tinyshakespeare(cache: Path | None = None) -> str:
    """Return the 1,115,394 characters of Tiny Shakespeare. Raises like `load_mnist`."""
    return fetch(TINY_SHAKESPEARE, DataFolders.from_settings(cache)).decode("ascii")


def load_text(path: Path | str | None, min_length: int, cache: Path | None = None) -> tuple[str, str | None]:
    """Return a text of at least `min_length` characters to train on, and a line to show to the user, or None.

    The text is that of the file at `path` (UTF-8) where one is given, else Tiny Shakespeare, else the text
    that this package carries; then the line says so. Raises DataError if a file cannot be read or is damaged,
    and if the text is too short.
    """
    note = None
    if path is not None:
        origin, text = str(path), _read_text(Path(path))
    else:
        try:
            origin, text = "Tiny Shakespeare", load_tinyshakespeare(cache)
        except MissingDataError:
            origin, text = "the embedded text", embedded_text()
            note = (
                f"Tiny Shakespeare is in neither UOP_DATA nor the cache and could not be downloaded: "
                f"training on the embedded text of {len(text):,} characters"
            )
    if len(text) < min_length:
        raise DataError(
            f"{origin} has {len(text):,} characters, but the context needs at least {min_length:,}",
            remedy="give a longer text or a smaller context",
        )
    return text, note


def parse_idx(data: bytes) -> NDArray[np.uint8]:
    """Return the array in an IDX file of unsigned bytes, the format of MNIST.

    The file is two zero bytes, the type (8), the number of axes, each axis as a big-endian uint32, and the
    bytes in row-major order. Raises DataError if `data` is anything else.
    """
    if len(data) < 4 or data[:3] != b"\0\0\x08" or len(data) < 4 + 4 * data[3]:
        raise DataError(f"not an IDX file of unsigned bytes: it starts with {data[:4].hex(' ')}")
    shape = struct.unpack_from(f">{data[3]}I", data, 4)
    values = np.frombuffer(data, np.uint8, offset=4 + 4 * len(shape))
    expected = int(np.prod(shape, dtype=np.int64))
    if values.size != expected:
        raise DataError(f"an IDX file of shape {shape} needs {expected} bytes of data, found {values.size}")
    return values.reshape(shape)


def _has(folder: Path, files: tuple[DataFile, ...]) -> bool:
    return all((folder / file.name).exists() for file in files)


def pixels(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Images [N, ...] as rows of numbers in [0, 1]."""
    return images.reshape(len(images), -1).astype(np.float32) / np.float32(255)


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is not UTF-8 text: byte {error.object[error.start]:#04x} at {error.start}"
        ) from error
