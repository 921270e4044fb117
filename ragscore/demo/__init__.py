"""The demo: a corpus of the installed manuals and four retrieval systems over it."""
