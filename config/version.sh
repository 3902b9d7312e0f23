#!/bin/sh
# Prints the version that the file VERSION describes, without a newline at the end so that m4 can take it as it is.
# With an argument (major, minor, release, greek) it prints that part only.
set -eu

file=$(dirname "$0")/../VERSION

part() {
    sed -n "s/^$1=//p" "$file" | head -n 1 | tr -d ' \r\n'
}

if [ $# -eq 1 ]; then
    part "$1"
else
    printf '%s.%s.%s%s' "$(part major)" "$(part minor)" "$(part release)" "$(part greek)"
fi
