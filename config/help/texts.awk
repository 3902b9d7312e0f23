# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# A file of help texts as the table that show_help.h shows them from.
#   awk -f texts.awk help-mpi-FRAMEWORK-NAME.txt >help_texts.c
# A topic begins with its name in brackets; lines that begin with # are comments.

function quoted(line, end) {
    gsub(/\\/, "\\\\", line)
    gsub(/"/, "\\\"", line)
    return "\"" line end "\""
}

BEGIN {
    print "#include \"help/show_help.h\"\n"
    print "const spec_help_text_t spec_help_texts[] = {"
}
/^#/ { next }
/^\[.*\]$/ {
    if (topics++) {
        print "    },"
    }
    print "    {" quoted(substr($0, 2, length($0) - 2), "") ","
    next
}
topics { print "     " quoted($0, "\\n") }
END {
    if (topics) {
        print "    },"
    }
    print "    {NULL, NULL},\n};"
}
