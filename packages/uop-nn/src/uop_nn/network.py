"""A file from the network: in parts, with progress, and again where the connection fails. Week 5."""

from __future__ import annotations

import http.client
import sys
import time
import urllib.error
import urllib.request

from tqdm import tqdm

__all__ = ["ATTEMPTS", "download"]

TIMEOUT = 10.0  # seconds without an answer after which a host counts as unreachable
ATTEMPTS = 3
PAUSE = 0.5  # seconds before the second attempt; twice as long before each further one
BUSY = (429, 500, 502, 503, 504)  # answers of a host that may do better later
PART = 1 << 18  # bytes between two looks at the progress
LARGE = 1 << 20  # bytes from which a bar is shown


def download(url: str, limit: int) -> bytes:
    """At most `limit` bytes from `url`; whether they are all and the right ones is for their digest to say.

    Where a connection breaks, or the host is busy, it is tried again, after a pause. Raises OSError or
    HTTPException.
    """
    for attempt in range(ATTEMPTS - 1):
        try:
            return _read(url, limit)
        except (OSError, http.client.HTTPException) as error:
            if not _may_pass(error):
                raise
        time.sleep(PAUSE * 2**attempt)
    return _read(url, limit)


def _read(url: str, limit: int) -> bytes:
    request = urllib.request.Request(url, headers={"User-Agent": "uop-nn"})  # noqa: S310  pinned URLs of http and https
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:  # noqa: S310  pinned URLs of http and https
        size: int | None = getattr(response, "length", None)
        data = bytearray()
        quiet = size is None or size < LARGE
        with tqdm(
            total=size, desc=url.rpartition("/")[2], unit="B", unit_scale=True, disable=quiet, file=sys.stderr
        ) as bar:
            while len(data) < limit and (part := response.read(min(PART, limit - len(data)))):
                data += part
                bar.update(len(part))
    if size is not None and len(data) < min(size, limit):
        raise http.client.IncompleteRead(bytes(data), size - len(data))
    return bytes(data)


def _may_pass(error: BaseException) -> bool:
    """Whether the next attempt may succeed: not where the host is unknown, refuses, or does not have the
    file.
    """
    if isinstance(error, urllib.error.HTTPError):
        return error.code in BUSY
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    broken = (http.client.IncompleteRead, http.client.RemoteDisconnected, TimeoutError, ConnectionResetError)
    return isinstance(reason, broken)
