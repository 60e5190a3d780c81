#!/bin/sh
# Builds the playground: sh make.sh OUT. DISTIR_PYTHON names the Python with the project's test extra.
set -eu
out=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$(dirname "$0")"
python=${DISTIR_PYTHON:-$(pwd)/../../.venv/bin/python}
compiled=$(pwd)/../../build/packages # of Pyodide's distribution; kept from one build to the next

for tool in node npm; do
  command -v "$tool" >/dev/null || { echo "error: the playground is built with $tool (node 20)" >&2; exit 2; }
done
[ node_modules/.installed -nt package-lock.json ] || {
  npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && touch node_modules/.installed
}

# DistIR and what the server needs, of the versions that are tested here.
wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
"$python" -m pip freeze --exclude-editable --disable-pip-version-check >"$wheels/versions.txt"
"$python" -m pip download --quiet --disable-pip-version-check --only-binary :all: --platform any --python-version 3.14 \
  --constraint "$wheels/versions.txt" --dest "$wheels" lark pygls
(cd ../.. && "$python" -m hatchling build --target wheel --directory "$wheels" >/dev/null)

# numpy for WebAssembly is not on PyPI by itself. It comes from Pyodide's distribution; where that cannot be reached, from
# a package that carries a copy. Only the file that Pyodide's own lock file names, by its digest, is taken (packages.mjs).
mkdir -p "$compiled"
node packages.mjs fetch "$compiled" || {
  "$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --python-version 3.12 \
    --dest "$wheels/carrier" open-webui==0.12.4 || true
  for carrier in "$wheels"/carrier/*.whl; do
    [ ! -e "$carrier" ] || "$python" - "$carrier" "$compiled" <<'EOF'
import sys, zipfile
from pathlib import Path
with zipfile.ZipFile(sys.argv[1]) as carrier:
    for name in carrier.namelist():
        if Path(name).name.startswith("numpy-") and name.endswith("_wasm32.whl"):
            (Path(sys.argv[2]) / Path(name).name).write_bytes(carrier.read(name))
EOF
  done
}

node build.mjs "$out" "$compiled" "$wheels"/*.whl
