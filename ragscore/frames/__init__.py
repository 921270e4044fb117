"""The data model: kinds of frames, Golden, Results, DataError, ranking, codes, displays."""
