#!/bin/sh
# Resolves pyproject.toml, development tools included, into requirements.lock: exact versions, no addresses.
set -eu
venv=$1
if command -v uv >/dev/null 2>&1; then
  uv=uv
else
  "$venv/bin/python" -m pip install --quiet uv
  uv="$venv/bin/uv"
fi
"$uv" pip compile --quiet --universal --python-version 3.11 --group dev \
  --no-emit-index-url --no-emit-find-links --no-annotate --custom-compile-command "make lock" \
  --output-file requirements.lock --upgrade pyproject.toml
