#!/usr/bin/env bash
# Makes the peers of the benchmark `today` ready: the packages of package-lock.json and of requirements.txt, in this folder,
# and says whether Redis is there. Safe to run again. Exit 0 when all are ready; a peer that is missing is left out by the
# benchmark, which says so.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 3
missing=0

if npm ci --no-audit --no-fund --loglevel=error >&2; then
  echo 'peer ready: @durable-streams/server and resumable-stream (Node.js)'
else
  echo 'PEER MISSING: @durable-streams/server and resumable-stream (needs Node.js 18 or later with npm, and the package registry)'
  missing=1
fi

if command -v redis-server >/dev/null; then
  echo 'peer ready: redis-server'
else
  echo "PEER MISSING: redis-server, which resumable-stream needs (Debian's package redis-server)"
  missing=1
fi

if { [ -x .venv/bin/python ] || python3 -m venv .venv >&2; } &&
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.txt >&2; then
  echo 'peer ready: FastAPI with ag-ui-protocol (Python)'
else
  echo 'PEER MISSING: FastAPI with ag-ui-protocol (needs Python 3.10 or later with venv, and the package index)'
  missing=1
fi

[ "$missing" = 0 ] || exit 3
