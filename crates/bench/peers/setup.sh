#!/usr/bin/env bash
# Makes the peers that are programs of other languages ready: those of `consume` and `encode` in this folder, those of
# `today` in `streaming`. Safe to run again. Exit 0 when all are ready; a peer that is missing is left out by the benchmarks,
# which say so.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 3
missing=0

ready() { echo "peer ready: $1"; }
lacking() {
  echo "PEER MISSING: $1 (needs $2)"
  missing=1
}

# The packages of a folder's package-lock.json.
node_packages() {
  if (cd "$1" && npm ci --no-audit --no-fund --loglevel=error >&2); then
    ready "$2 (Node.js)"
  else
    lacking "$2" 'Node.js 18 or later with npm, and the package registry'
  fi
}

# The packages of a folder's requirements.txt, in an environment beside it.
python_packages() {
  if { [ -x "$1/.venv/bin/python" ] || python3 -m venv "$1/.venv" >&2; } &&
    "$1/.venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$1/requirements.txt" >&2; then
    ready "$2 (Python)"
  else
    lacking "$2" 'Python 3.10 or later with venv, and the package index'
  fi
}

node_packages . '@ag-ui/client and @ag-ui/encoder'
python_packages . 'ag-ui-validate and ag-ui-protocol'
node_packages streaming '@durable-streams/server and resumable-stream'
python_packages streaming 'FastAPI with ag-ui-protocol'
if command -v redis-server >/dev/null; then
  ready 'redis-server'
else
  lacking 'redis-server, which resumable-stream talks to' "Debian's package redis-server"
fi

[ "$missing" = 0 ] || exit 3
