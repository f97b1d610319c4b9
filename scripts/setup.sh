#!/bin/sh
# Makes the virtual environment $1 and installs tidyberg itself, editable, on the locked tree of $2:
# requirements.lock for everything, requirements-runtime.lock for what tidyberg needs to run.
set -eu
venv=$1
lock=$2
here=$(dirname "$0")
python=$(sh "$here/find-python.sh")

# A moved clone or an upgraded interpreter leaves an environment that no longer runs: start over.
if [ -d "$venv" ] && ! "$venv/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  rm -rf "$venv"
fi

make_venv() {
  [ -x "$venv/bin/python" ] || "$python" -m venv "$venv" 2>/dev/null ||
    uv venv --quiet --seed --clear --python "$python" "$venv"
}

# The machine's own where it is new enough, else one from PyPI in the environment itself: 4 seconds that save minutes.
find_uv() {
  for uv in uv "$venv/bin/uv"; do
    if "$uv" pip install --help 2>/dev/null | grep -q -e --config-settings-package; then return 0; fi
  done
  uv="$venv/bin/uv"
  "$venv/bin/python" -m pip install --quiet "uv>=0.9" >/dev/null 2>&1
}

# uv and pip are configured apart: hand on where packages come from and which certificates to trust.
use_settings_of_pip() {
  settings=$("$venv/bin/python" -m pip config list 2>/dev/null || true)
  pip_setting() { printf '%s\n' "$settings" | sed -n "s/^.*\.$1='\(.*\)'\$/\1/p" | tail -n 1; }
  index=$(pip_setting index-url)
  cert=$(pip_setting cert)
  if [ -n "$index" ] && [ -z "${UV_DEFAULT_INDEX:-}${UV_INDEX_URL:-}" ]; then export UV_DEFAULT_INDEX="$index"; fi
  if [ -n "$cert" ] && [ -z "${SSL_CERT_FILE:-}" ]; then export SSL_CERT_FILE="$cert"; fi
}

# The lock is complete, so nothing has to be resolved. PySpark comes as a source archive of 450 MB, from which a wheel
# is made: its jars are compressed as they are, and doing it again takes 20 seconds.
with_uv() {
  "$uv" pip install --quiet --python "$venv/bin/python" --no-deps \
    --config-settings-package "pyspark:--build-option=--compression=stored" -r "$lock" || return 1
  "$uv" pip install --quiet --python "$venv/bin/python" --no-deps --editable .
}

with_pip() {
  "$venv/bin/python" -m pip install --quiet --no-deps -r "$lock"
  "$venv/bin/python" -m pip install --quiet --no-deps --editable .
}

echo "setting up $venv"
make_venv
if find_uv; then
  use_settings_of_pip
  with_uv || { echo "uv could not do it; setting up $venv with pip (a few minutes the first time)"; with_pip; }
else
  echo "there is no uv to be had; setting up $venv with pip (a few minutes the first time)"
  with_pip
fi
