"""The data model: kinds of frames, Golden, Results, DataError, casting, integer codes, JSON and text of frames."""
