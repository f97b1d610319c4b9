#!/bin/sh
# Makes the virtual environment $1 and installs the locked tree and tidyberg itself, editable.
set -eu
venv=$1
here=$(dirname "$0")
python=$(sh "$here/find-python.sh")

# A moved clone or an upgraded interpreter leaves an environment that no longer runs: start over.
if [ -d "$venv" ] && ! "$venv/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  rm -rf "$venv"
fi

with_uv() {
  [ -d "$venv" ] || uv venv --quiet --seed --python "$python" "$venv" || return 1
  uv pip install --quiet --python "$venv/bin/python" -r requirements.lock || return 1
  uv pip install --quiet --python "$venv/bin/python" --no-deps --editable .
}

with_pip() {
  [ -x "$venv/bin/pip" ] || "$python" -m venv --clear "$venv"
  "$venv/bin/python" -m pip install --quiet -r requirements.lock
  "$venv/bin/python" -m pip install --quiet --no-deps --editable .
}

if command -v uv >/dev/null 2>&1; then
  echo "setting up $venv with uv"
  # uv and pip are configured apart: where only pip knows how to reach packages, pip does it.
  with_uv || { echo "uv could not do it; setting up $venv with pip"; with_pip; }
else
  echo "setting up $venv with pip (a few minutes the first time)"
  with_pip
fi
