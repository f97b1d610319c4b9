"""Manifests to Arrow, with numpy and the standard library alone: the same code reads them here and on executors."""
