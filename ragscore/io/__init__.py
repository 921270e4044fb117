"""Files <-> frames: run files, golden files and the formats of other tools.

`load.py` reads any of them. The reader of a format ends in frames or in one `DataError` that names
file and line; its writer is beside it. `formats/` holds file formats; the files of other
evaluation tools are rows of a table in `foreign.py`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
