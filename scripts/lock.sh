#!/bin/sh
# Resolves pyproject.toml into exact versions, no addresses: requirements.lock with the development tools, and
# requirements-runtime.lock, the part of it that tidyberg needs to run, and requirements-operator.lock, the part that
# the operator for Kubernetes needs.
set -eu
venv=$1
if command -v uv >/dev/null 2>&1; then
  uv=uv
else
  [ -x "$venv/bin/uv" ] || "$venv/bin/python" -m pip install --quiet uv
  uv="$venv/bin/uv"
fi
resolve() {
  "$uv" pip compile --quiet --universal --python-version 3.11 \
    --no-emit-index-url --no-emit-find-links --no-annotate --custom-compile-command "make lock" "$@"
}
resolve --group dev --upgrade --output-file requirements.lock pyproject.toml
resolve --constraints requirements.lock --output-file requirements-runtime.lock pyproject.toml
resolve --constraints requirements.lock --output-file requirements-operator.lock --group operator
