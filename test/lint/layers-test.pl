#!/usr/bin/env perl
# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# test/lint/layers on a component that this test makes: each fault of its layers is seen, and nothing where there is none.
use strict;
use warnings;
use FindBin;
use File::Path qw(make_path);
use File::Temp qw(tempdir);
use Test::More;

my $long = "int table(void)\n{\n" . "    return 0; /* } */\n" x 60 . "}\n";
my %good = (
    'c/low.h' => '#include <stdio.h>', 'c/low.c' => "#include \"low.h\"\nint low(void)\n{\n    return 1;\n}\n",
    'c/up/high.h' => '#include "low.h"', 'c/up/high.c' => "#include \"high.h\"\n$long",
);
my $list = "component x c\nlimits back=0 circle=0 across=0 lines=60 long=0\nlayer bottom low\nlayer top up/*\ntable up/high.c table\n";

# What the script says of these files, as if they were the repository.
sub said
{
    my ($list, %files) = @_;
    my $top = tempdir(CLEANUP => 1);
    for my $name (keys %files, 'list') {
        make_path("$top/$name" =~ s|/[^/]*$||r);
        open my $out, '>', "$top/$name" or die;
        print $out $files{$name} // $list, "\n";
    }
    return scalar `"$FindBin::RealBin/layers" --calls --top $top --list $top/list 2>&1`;
}

like(said($list, %good), qr/\n4 passed, 0 failed/, 'nothing is wrong');
like(said($list, %good, 'c/low.c' => '#include "up/high.h"'), qr/1 of 2 arrows.*at most 0\n.*low -> up\/high \(bottom -> top\)/, 'an arrow back');
like(said($list, %good, 'c/low.c' => '#include "up/high.h"'), qr/a circle of 2.*\n.* low up\/high\n/, 'a circle');
like(said($list, %good, 'c/low.c' => "int low(void)\n{\n    return table();\n}\n"), qr/low -> up\/high/, 'a call is an arrow');
like(said($list, %good, 'c/low.c' => "/* table(); */\n"), qr/\n4 passed, 0 failed/, 'a comment is none');
like(said($list =~ s/^table.*//mr, %good), qr/1 functions over 60.*\n.*up\/high.c: table has 63 lines/, 'a long function');
like(said($list, %good, 'c/up/high.c' => ''), qr/table is no long function any more/, 'a table that went');
like(said($list, %good, 'c/new.c' => ''), qr/new.c is in no layer/, 'a file without a layer');
like(said("${list}layer more old\n", %good), qr/nothing is called old/, 'a layer of nothing');
like(said($list, %good, 'ompi/mca/y.h' => '', 'c/low.c' => $_), qr/1 includes of other components/, "an include of another component: $_")
    for '#include "ompi/mca/y.h"', '# include <ompi/mca/y.h>';
like(said($list, %good, 'c/low.c' => '#include "opal/class/opal_list.h"'), qr/\n4 passed, 0 failed/, 'an include of Open MPI');
like(said("${list}pure bottom\n", %good, 'c/low.c' => $_), qr/low.c includes .*without Open MPI/, "a layer that has nothing of Open MPI: $_")
    for '#include "opal/class/opal_list.h"', '#include <opal_config.h>';
done_testing();
