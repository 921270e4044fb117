"""Foreign formats, each with its reader and its writer."""
