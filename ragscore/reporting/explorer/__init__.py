"""The explorer: every query of some runs in one HTML element that needs neither server nor network.

`data` turns frames into the content that is embedded, `element` mounts it in a page or a notebook,
`explorer` is the object that `cmp.explore()` and `ev.explore()` return, and `widget` brings the
selection back to Python.
"""
