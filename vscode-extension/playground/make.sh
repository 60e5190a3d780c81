#!/bin/sh
# Builds the playground: sh make.sh OUT. DISTIR_PYTHON names the Python with the project's test extra.
set -eu
out=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$(dirname "$0")"
python=${DISTIR_PYTHON:-$(pwd)/../../.venv/bin/python}

for tool in node npm; do
  command -v "$tool" >/dev/null || { echo "error: the playground is built with $tool (node 20)" >&2; exit 2; }
done
[ node_modules/.installed -nt package-lock.json ] || {
  npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && touch node_modules/.installed
}

# DistIR and what the server needs, of the versions that are tested here. numpy has no package for browsers.
wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
"$python" -m pip freeze --exclude-editable --disable-pip-version-check >"$wheels/versions.txt"
"$python" -m pip download --quiet --disable-pip-version-check --only-binary :all: --platform any --python-version 3.13 \
  --constraint "$wheels/versions.txt" --dest "$wheels" lark pygls
(cd ../.. && "$python" -m hatchling build --target wheel --directory "$wheels" >/dev/null)
npx tsc --noEmit
node build.mjs "$out" "$wheels"/*.whl
