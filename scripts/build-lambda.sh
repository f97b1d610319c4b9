#!/bin/sh
# Builds a zip file for AWS Lambda into build/: tidyberg and what its handler needs, in the versions of
# requirements-runtime.lock. Spark, the REST service and the command line are not part of it.
set -eu
venv=$1
root=$(pwd)
python=${LAMBDA_PYTHON:-3.12}
platform=${LAMBDA_PLATFORM:-x86_64-manylinux_2_28}
target=build/lambda
limit_mb=250
if command -v uv >/dev/null 2>&1; then
  uv=uv
else
  [ -x "$venv/bin/uv" ] || "$venv/bin/python" -m pip install --quiet uv
  uv="$venv/bin/uv"
fi
rm -rf "$target" build/tidyberg-lambda.zip
mkdir -p "$target"

# Nothing that the handler imports needs these. tests/serverless/test_package.py proves it.
without='pyspark|py4j|pandas|grpcio|grpcio-status|googleapis-common-protos|protobuf|opentelemetry-api'
without="$without|fastapi|starlette|uvicorn|uvloop|httptools|h11|httpcore|httpx|anyio|pyjwt|cryptography|cffi|pycparser"
without="$without|rich|pygments|markdown-it-py|mdurl|typer|shellingham|annotated-doc|prometheus-client|colorama|tzdata"
grep -Ev "^($without)==" requirements-runtime.lock | grep -v '^ *#' > "$target.txt"
"$uv" pip install --quiet --link-mode copy --no-deps --only-binary :all: --python-version "$python" --python-platform "$platform" \
  --target "$target" --requirement "$target.txt"
"$uv" build --quiet --wheel --out-dir build/wheel .
"$uv" pip install --quiet --link-mode copy --no-deps --python-version "$python" --target "$target" build/wheel/tidyberg-*.whl
rm -rf build/wheel "$target.txt"

# Arrow's remote procedure calls, headers, sources and test suites are never loaded.
rm -rf "$target/pyarrow/include" "$target/pyarrow/src" "$target/pyarrow/includes" "$target/bin"
find "$target" -type d \( -name tests -o -name __pycache__ \) -prune -exec rm -rf {} +
find "$target/pyarrow" \( -name '*.pyx' -o -name '*.pxd' -o -name '*.pxi' -o -name '*.h' -o -name '*.cc' \) -delete
rm -f "$target"/pyarrow/libarrow_flight* "$target"/pyarrow/libarrow_python_flight* "$target"/pyarrow/_flight* \
  "$target"/pyarrow/gandiva* "$target"/pyarrow/libgandiva*

# Some libraries still have their debug symbols. Those below *.libs were patched, and strip would damage them.
if command -v strip >/dev/null 2>&1; then
  find "$target" -name '*.libs' -prune -o -name '*.so' \( -path '*/zstandard/*' -o -path '*/sqlalchemy/*' -o -name 'pyroaring*' \) \
    -exec strip --strip-unneeded {} + 2>/dev/null || true
fi
rm -f "$target"/zstandard/_cffi*  # the C backend is used

# A function cannot keep compiled modules: its directory is read-only. Without this, each cold start compiles them, which
# takes most of its time. The import also shows that nothing is missing of what was removed above.
interpreter=$("$uv" python find --no-python-downloads "$python" 2>/dev/null || true)
if [ -n "$interpreter" ]; then
  "$interpreter" -B -I -S -c "
import sys
sys.path.insert(0, '$root/$target')
import tidyberg.serverless.preload
files = {getattr(module, '__file__', None) or '' for module in list(sys.modules.values())}
print(*sorted(file for file in files if file.startswith('$root/$target') and file.endswith('.py')), sep='\n')
" > "$target.txt"
  "$interpreter" -m compileall -q --invalidation-mode unchecked-hash -s "$root/$target" -p /var/task -i "$target.txt"
  rm -f "$target.txt"
else
  echo "There is no Python $python here, so the function compiles its modules at each cold start." >&2
fi

unzipped=$(du -sm --apparent-size "$target" | cut -f1)
(cd "$target" && "$root/$venv/bin/python" -m zipfile -c ../tidyberg-lambda.zip .)
zipped=$(du -sm --apparent-size build/tidyberg-lambda.zip | cut -f1)
echo "build/tidyberg-lambda.zip: $zipped MB, $unzipped MB unzipped (Lambda allows $limit_mb MB)"
if [ "$unzipped" -gt "$limit_mb" ]; then
  echo "it is too large for a zip file: use an image" >&2
  exit 1
fi
