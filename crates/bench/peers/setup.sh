#!/usr/bin/env bash
# Makes the peers that are programs of other languages ready: the packages of package-lock.json and of requirements.txt,
# in this folder. Safe to run again. Exit 0 when both are ready; a peer that is missing is left out by the benchmarks.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 3
missing=0

if npm ci --no-audit --no-fund --loglevel=error >&2; then
  echo 'peer ready: @ag-ui/client and @ag-ui/encoder (Node.js)'
else
  echo 'PEER MISSING: @ag-ui/client and @ag-ui/encoder (needs Node.js 18 or later with npm, and the package registry)'
  missing=1
fi

if { [ -x .venv/bin/python ] || python3 -m venv .venv >&2; } &&
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.txt >&2; then
  echo 'peer ready: ag-ui-validate and ag-ui-protocol (Python)'
else
  echo 'PEER MISSING: ag-ui-validate and ag-ui-protocol (needs Python 3.10 or later with venv, and the package index)'
  missing=1
fi

[ "$missing" = 0 ] || exit 3
