"""What differs from one storage to the other: conditions, versions of files, errors."""

from types import SimpleNamespace

import pytest

from ragscore.store.objects import put_in_place
from ragscore.store.places import RemotePath, is_storage_error, stamps
from tests.messages import refused


@pytest.mark.parametrize("where", [{"endpoint_url": "https://storage.googleapis.com"}, {}])
def test_googles_storage_is_not_written_to_as_s3(where):
    options = {} if where else {"endpoint_url": "https://storage.googleapis.com"}
    fs = SimpleNamespace(
        protocol=("s3", "s3a"), client_kwargs=options, unstrip_protocol="s3://{}".format, **where
    )
    with refused("gs://", file="s3://bucket/run.json", field="storage_options"):
        put_in_place(RemotePath(fs, "bucket/run.json"), b"{}", "digest", [])


VERSIONS = {  # what file systems of fsspec tell of a file, besides its size
    "S3": ("ETag", {"ETag": "a", "LastModified": "t", "mtime": 1}),
    "Azure": ("etag", {"etag": "a", "last_modified": "t", "creation_time": "t"}),
    "Google": ("generation", {"generation": "a", "updated": "t", "mtime": "t"}),
    "memory": ("created", {"created": "a"}),
}


@pytest.mark.parametrize("storage", VERSIONS)
def test_a_file_written_anew_at_the_same_size_has_another_stamp(storage):
    key, told = VERSIONS[storage]

    def stamp(version):
        listed = {"bucket/run.json": told | {key: version, "size": 7}}
        fs = SimpleNamespace(
            invalidate_cache=lambda: None, exists=lambda path: True,
            find=lambda path, detail: listed,
        )  # fmt: skip
        return stamps(RemotePath(fs, "bucket"), ["run.json", "none"])

    assert stamp("a") == ["7 a", None] and stamp("b") == ["7 b", None]


def test_errors_of_any_storages_package_are_of_the_storage_and_errors_of_readers_are_not():
    def error_of(module):
        return type("SomeError", (Exception,), {"__module__": module})()

    for module in ("botocore.exceptions", "azure.core.exceptions", "gcsfs.retry", "fsspec.core"):
        assert is_storage_error(error_of(module))
    for module in ("builtins", "json.decoder", "pyarrow.lib", "pandas.errors", "ragscore.io"):
        assert not is_storage_error(error_of(module))
    assert is_storage_error(PermissionError())
