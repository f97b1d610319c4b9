#!/bin/sh
# Builds the source distribution and the wheel into dist/.
set -eu
venv=$1
rm -rf dist
if command -v uv >/dev/null 2>&1; then
  uv build --quiet --out-dir dist
else
  "$venv/bin/python" -m pip install --quiet build
  "$venv/bin/python" -m build --outdir dist
fi
ls -l dist
