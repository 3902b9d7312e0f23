# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# Which tests of a list run in ./check, where all would take too long: a sample that each commit rotates.
#
# A list of tests has strata (the program that a test runs) and tags (its transport). With N parts a sample is one Nth of
# each stratum, and at least one test of each; a tag that is in none of these adds one test of its own. N samples with
# seeds that follow each other have every test of the list: test/lint/samples shows that of each list there is.
package Sample;
use strict;
use warnings;
use Cwd 'abs_path';
use Exporter 'import';
use File::Basename 'dirname';
our @EXPORT_OK = qw(seed choose told);

# TEST_SAMPLE_SEED in the environment; else the number of commits, so that each commit has the next sample. A checkout without
# its history has only the name of its commit, and a tarball only the day.
sub seed {
    return $ENV{TEST_SAMPLE_SEED} if ($ENV{TEST_SAMPLE_SEED} // '') =~ /^\d+$/;
    my $git = 'git -C ' . quotemeta(dirname(abs_path(__FILE__)));
    chomp(my ($is_shallow, $count, $name) = map { scalar(`$git $_ 2>/dev/null`) // '' }
        'rev-parse --is-shallow-repository', 'rev-list --count HEAD', 'rev-parse HEAD');
    return $count if 'false' eq $is_shallow && $count =~ /^\d+$/;
    return hex $1 if $name =~ /^([0-9a-f]{7})/;
    return int(time / 86400);
}

# A number that a word always has.
sub number_of {
    my ($word) = @_;
    my $sum = 0;
    $sum = ($sum * 31 + ord $_) % 65521 for split //, $word;
    return $sum;
}

# The places of the sample in the list of tests: choose(SEED, PARTS, {stratum => TEXT, tags => [TEXT, ...]}, ...).
sub choose {
    my ($seed, $parts, @items) = @_;
    my (%stratum, %tag, %chosen);
    for my $i (0 .. $#items) {
        push @{$stratum{$items[$i]{stratum}}}, $i;
        push @{$tag{$_}}, $i for @{$items[$i]{tags} // []};
    }
    for my $name (keys %stratum) {
        my @its = @{$stratum{$name}};
        # What has fewer tests than there are parts has its turn with each of them.
        my $n = @its < $parts ? @its : $parts;
        my $turn = ($seed + number_of($name)) % $n;
        $chosen{$its[$_]} = 1 for grep { $_ % $n == $turn } 0 .. $#its;
    }
    for my $name (sort keys %tag) {
        my @its = @{$tag{$name}};
        $chosen{$its[($seed + number_of($name)) % @its]} = 1 unless grep { $chosen{$_} } @its;
    }
    return sort { $a <=> $b } keys %chosen;
}

# How a sample is told.
sub told {
    my ($name, $some, $all, $seed) = @_;
    return "sample   $name: $some of $all, seed $seed; all: ./check --full\n";
}

1;
