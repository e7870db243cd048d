#!/bin/sh
# An agent that just writes text: what it prints is the answer. It says how many words the last message has, and wants it to
# be plain text on one line. A real one would read the run input with a JSON reader such as jq.
set -eu

# The run input is one line of JSON. Of all contents the last, with its quotes taken off.
content=$(sed 's/.*"content":"\([^"]*\)".*/\1/')

echo "counting words" >&2
count=$(printf '%s' "$content" | wc -w)
printf 'Your message has '
printf '%d words.\n' "$count"
