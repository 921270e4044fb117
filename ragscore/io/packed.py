"""The content of an HTTP reply, unpacked up to a limit: few bytes may hold thousands."""

import zlib

GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS


def unpacked(content: bytes, encoding: str, limit: int | None) -> bytes:
    """Return a reply's content as it was before it was packed; one byte over the limit at most.

    Raises
    ------
    ValueError
        It is packed in another way than gzip or deflate, damaged, or its end is missing.
    """
    encoding = encoding.strip().lower()
    if encoding in ("", "identity") or not content:
        return content
    if encoding not in ("gzip", "x-gzip", "deflate"):
        named = encoding if encoding in ("br", "compress", "zstd") else "something else"
        raise ValueError(f"is encoded as {named!r}; gzip or deflate")
    stream = zlib.decompressobj(GZIP_OR_ZLIB)
    try:
        whole = stream.decompress(content, 0 if limit is None else limit + 1)
    except zlib.error as error:
        raise ValueError(f"can't be unpacked: {error}") from error
    if not stream.eof and (limit is None or len(whole) <= limit):
        raise ValueError("can't be unpacked: its end is missing")
    return whole
