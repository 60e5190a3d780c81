#!/bin/sh
# All tests of the extension: types, unit tests, grammar, the package, and a real workbench where chromium can be had.
# DISTIR_PYTHON names the Python with the server; by default that of the project's .venv.
set -eu
cd "$(dirname "$0")"

skip() { echo "skipped: $1" >&2; }

if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
  skip "all tests of the VS Code extension: they need node 20 and npm"
  exit 0
fi

# Install what the lock file names, once: `.installed` is as old as the lock file that it was installed for.
installed() { # folder
  [ "$1/node_modules/.installed" -nt "$1/package-lock.json" ]
}
installed . || { npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && touch node_modules/.installed; }

echo "== types"
npx tsc --noEmit
echo "== unit tests"
node build.mjs --tests
node --test dist-test/unit/
echo "== grammar"
npm run --silent test:grammar
echo "== package"
rm -rf dist # packaging builds what it needs
npm run --silent package >/dev/null
size=$(wc -c <distir.vsix)
echo "distir.vsix: $size bytes"
[ "$size" -le 1500000 ] || { echo "distir.vsix is larger than 1.5 MB" >&2; exit 1; }

CHROMIUM=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
if [ -z "$CHROMIUM" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "== chromium is missing: installing it"
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } >/dev/null || true
  CHROMIUM=$(command -v chromium || true)
fi
[ -z "$CHROMIUM" ] || export CHROMIUM

echo "== timeline"
installed timeline || { (cd timeline && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error) && touch timeline/node_modules/.installed; }
(cd timeline && npm run --silent test)

if [ -n "$CHROMIUM" ]; then
  echo "== playground"
  sh playground/make.sh ../build/playground
  (cd playground && npm run --silent test)
fi

if [ -z "$CHROMIUM" ]; then
  skip "the tests in a real workbench: there is no chromium (apt-get install chromium, or CHROMIUM=/path/of/it)"
  exit 0
fi

case $(node --version) in
  v20.*) ;;
  *) skip "the tests in a real workbench: this release of code-server needs node 20"; exit 0 ;;
esac

if ! installed e2e; then
  echo "== installing code-server"
  (cd e2e && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
  (cd e2e/node_modules/code-server/lib/vscode && npm install --omit=dev --ignore-scripts --no-audit --no-fund --loglevel=error)
  node e2e/stub-natives.mjs
  touch e2e/node_modules/.installed
fi

echo "== in VS Code for the Web"
npm run --silent test:web
echo "== inside the extension host, and in a real workbench"
npm run --silent test:workbench # of what is packaged and built above
