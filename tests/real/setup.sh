#!/usr/bin/env bash
# Makes the real parts of Runwire's tests ready, and says for each whether it is: `real part ready: …` or
# `REAL PART MISSING: … (what to do)` on stdout, one line a part; what the installers print goes to stderr.
# Exit 0 when all are ready, 3 when one is missing. Safe to run again and at the same time as itself; when
# everything is in place it takes a fraction of a second.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 3

node_stamp=node_modules/.runwire-ready
venv_stamp=.venv/.runwire-ready
# Names the browser's program, for those who start it. `npm ci` takes it away together with what drives the browser.
browser_stamp=node_modules/.runwire-browser
missing=0

ready() { printf 'real part ready: %s\n' "$1"; }
lacking() {
  printf 'REAL PART MISSING: %s (%s)\n' "$1" "$2"
  missing=1
}

# Test programs start in parallel and each may call this script; two installers in one folder break each other.
if command -v flock >/dev/null 2>&1; then
  exec 9<.
  flock 9
fi

can_apt() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; }
apt_updated=0
apt_install() {
  can_apt || return 1
  if [ "$apt_updated" = 0 ]; then
    apt-get update -qq >&2 || return 1
    apt_updated=1
  fi
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2
}

node_is_new_enough() {
  command -v node >/dev/null 2>&1 && command -v npm >/dev/null 2>&1 &&
    node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 18 || (a === 18 && b >= 3) ? 0 : 1)'
}

set_up_node_packages() {
  local name='AG-UI clients and stream readers (Node.js)' key
  if ! node_is_new_enough; then
    apt_install nodejs npm
    hash -r
    if ! node_is_new_enough; then
      lacking "$name" 'install Node.js 18.3 or later with npm, then run tests/real/setup.sh again'
      return
    fi
  fi
  # The key names all that the result depends on, so that a change of any of them installs anew.
  key="$(cat package.json package-lock.json .npmrc | cksum) node $(node --version)"
  if [ "$(cat "$node_stamp" 2>/dev/null)" != "$key" ]; then
    if ! npm ci --no-audit --no-fund --loglevel=error >&2; then
      lacking "$name" 'npm ci failed in tests/real; its message is above: check the network or the package registry, then run tests/real/setup.sh again'
      return
    fi
    printf '%s' "$key" >"$node_stamp"
  fi
  ready "$name"
}

# Those of an example that the tests open in the browser, in its own folder.
set_up_example_packages() {
  local folder="../../examples/$1" name="packages of examples/$1 (Node.js)" key stamp
  stamp="$folder/node_modules/.runwire-ready"
  if ! node_is_new_enough; then
    lacking "$name" 'Node.js is missing; see above'
    return
  fi
  key="$(cat "$folder/package.json" "$folder/package-lock.json" | cksum) node $(node --version)"
  if [ "$(cat "$stamp" 2>/dev/null)" != "$key" ]; then
    if ! (cd "$folder" && npm ci --no-audit --no-fund --loglevel=error) >&2; then
      lacking "$name" "npm ci failed in examples/$1; its message is above: check the network or the package registry, then run tests/real/setup.sh again"
      return
    fi
    printf '%s' "$key" >"$stamp"
  fi
  ready "$name"
}

# The app of examples/copilotkit, as vite builds it. Its packages are only for the app, so they stay with it.
set_up_copilotkit_app() {
  local name='CopilotKit app (Node.js)' app=../../examples/copilotkit key built
  if ! node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 22 || (a === 22 && b >= 12) || (a === 20 && b >= 19) ? 0 : 1)'; then
    lacking "$name" 'vite wants Node.js 20.19, 22.12 or later; install it, then run tests/real/setup.sh again'
    return
  fi
  key="$(cd "$app" && cat package.json package-lock.json .npmrc | cksum) node $(node --version)"
  if [ "$(cat "$app/node_modules/.runwire-ready" 2>/dev/null)" != "$key" ]; then
    if ! npm ci --prefix "$app" --no-audit --no-fund --loglevel=error >&2; then
      lacking "$name" 'npm ci failed in examples/copilotkit; its message is above: check the network or the package registry, then run tests/real/setup.sh again'
      return
    fi
    printf '%s' "$key" >"$app/node_modules/.runwire-ready"
  fi
  built="$key $(cat "$app/index.html" "$app/vite.config.js" "$app"/src/* ../../clients/js/runwire.js | cksum)"
  if [ "$(cat "$app/dist/.runwire-ready" 2>/dev/null)" != "$built" ]; then
    if ! (cd "$app" && npm run --silent build -- --logLevel error >&2); then
      lacking "$name" 'vite build failed in examples/copilotkit; its message is above'
      return
    fi
    printf '%s' "$built" >"$app/dist/.runwire-ready"
  fi
  ready "$name"
}

python_is_new_enough() {
  command -v python3 >/dev/null 2>&1 &&
    python3 -c 'import sys; sys.exit(0 if sys.version_info >= (3, 10) else 1)'
}

make_venv() {
  rm -rf .venv
  python3 -m venv .venv >&2
}

set_up_python_packages() {
  local name='pydantic-ai agent (Python)' key
  if ! python_is_new_enough; then
    apt_install python3 python3-venv python3-pip
    hash -r
    if ! python_is_new_enough; then
      lacking "$name" 'install Python 3.10 or later with venv, then run tests/real/setup.sh again'
      return
    fi
  fi
  key="$(cksum <upstream/requirements.txt) $(python3 --version) $PWD"
  if [ "$(cat "$venv_stamp" 2>/dev/null)" != "$key" ] || [ ! -x .venv/bin/python ]; then
    # Debian ships Python without the parts that venv needs.
    if ! make_venv && ! { apt_install python3-venv python3-pip && make_venv; }; then
      lacking "$name" 'python3 -m venv failed; its message is above: install the venv module of your Python, then run tests/real/setup.sh again'
      return
    fi
    if ! .venv/bin/python -m pip install --quiet --disable-pip-version-check -r upstream/requirements.txt >&2; then
      lacking "$name" 'pip install failed for tests/real/upstream/requirements.txt; its message is above: check the network or the package index, then run tests/real/setup.sh again'
      return
    fi
    printf '%s' "$key" >"$venv_stamp"
  fi
  ready "$name"
}

# The first of the browser's usual names whose program starts; Ubuntu's package is a script that may only ask for a snap.
find_browser() {
  local program
  for program in chromium google-chrome-stable google-chrome chromium-browser; do
    program="$(command -v "$program")" && "$program" --version >/dev/null 2>&1 && printf '%s' "$program" && return
  done
  return 1
}

set_up_browser() {
  local name='browser (Chromium)' program
  if [ ! -f "$node_stamp" ]; then
    rm -f "$browser_stamp"
    lacking "$name" 'it is driven by one of the Node.js packages, which are missing; see above'
    return
  fi
  program="$(cat "$browser_stamp" 2>/dev/null)"
  if [ -z "$program" ] || [ ! -x "$program" ]; then
    rm -f "$browser_stamp"
    if ! program="$(find_browser)" && ! { apt_install chromium && hash -r && program="$(find_browser)"; }; then
      lacking "$name" 'install Chromium or Chrome so that it is on the PATH, then run tests/real/setup.sh again'
      return
    fi
    printf '%s' "$program" >"$browser_stamp"
  fi
  ready "$name"
}

# Its library lets a test set the clock of one process.
set_up_clock() {
  local name='clock that can be set (faketime)'
  if ! compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' >/dev/null && ! apt_install faketime; then
    lacking "$name" "install Debian's package faketime, then run tests/real/setup.sh again"
    return
  fi
  ready "$name"
}

set_up_node_packages
set_up_example_packages plain
set_up_copilotkit_app
set_up_python_packages
set_up_browser
set_up_clock
[ "$missing" = 0 ] || exit 3
