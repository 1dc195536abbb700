"""The TensorBoard plug-in of vram: a tab with the recordings of the log directory. See docs/notebook.md.

TensorBoard imports this package in every run of an environment that has vram, so it is a package of its own, which imports
``vram`` only to make a page.
"""
