#!/bin/sh
# check-writable.sh DIR: can files be put into DIR, which need not exist yet? Says why not and exits 1 if they cannot.
# Changes nothing.

dir=$1
at=$dir
while [ ! -e "$at" ]; do
    up=$(dirname "$at")
    [ "$up" != "$at" ] || break
    at=$up
done

if [ ! -d "$at" ]; then
    echo "the directory $dir cannot be made: $at is not a directory"
elif [ ! -w "$at" ] || [ ! -x "$at" ]; then
    if [ "$at" = "$dir" ]; then
        echo "you ($(id -un 2>/dev/null || id -u)) may not write to the directory $dir"
    else
        echo "the directory $dir does not exist, and you ($(id -un 2>/dev/null || id -u)) may not make it in $at"
    fi
else
    exit 0
fi
exit 1
