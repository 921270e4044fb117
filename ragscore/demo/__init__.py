"""`ragscore demo`: a real corpus out of the installed manuals, and four real retrieval systems over it."""
