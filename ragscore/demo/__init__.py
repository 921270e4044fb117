"""`ragscore demo`.

A real corpus out of the installed manuals, and four real retrieval systems over it.
"""
