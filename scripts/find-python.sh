#!/bin/sh
# Prints a Python that can run tidyberg; with --problem prints in one line why there is none, else nothing.
set -u
suits='import sys; sys.exit(not (3, 11) <= sys.version_info[:2])'

problem() {
  [ "${1:-}" = --problem ] && echo "$2"
  exit "$([ "${1:-}" = --problem ] && echo 0 || echo 1)"
}

found=""
# The tested versions come first; a name may exist and still not run (version managers leave such stubs).
for candidate in ${PYTHON:-python3.11 python3.12 python3 python3.13 python}; do
  if "$candidate" -c "$suits" >/dev/null 2>&1; then
    found=$(command -v "$candidate")
    break
  fi
done

if [ -z "$found" ]; then
  problem "${1:-}" "tidyberg needs Python 3.11 or newer, and ${PYTHON:-the one on the PATH} is older or missing: install Python 3.11 or name one with PYTHON=/path/to/python3.11"
fi
if ! "$found" -c "import ensurepip, venv" >/dev/null 2>&1 && ! command -v uv >/dev/null 2>&1; then
  problem "${1:-}" "$found cannot make virtual environments: install its venv module (Debian and Ubuntu: python3-venv)"
fi
[ "${1:-}" = --problem ] || echo "$found"
