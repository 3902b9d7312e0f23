# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# The numbers of a run as pages of text, for docs/measurements: a page for each figure that was measured, with the machine and
# the date, and a list of all pages there. Pure, but for reading the first lines of the pages that are there.
package Report::Pages;

use strict;
use warnings;
use Report::Page;

my $made = 'Made by `test/bench/report pages`; not to be changed by hand.';

sub cell { my ($t) = @_; return ($t // '') =~ s/\|/\\|/gr =~ s/\n/ /gr }
sub row { return '| ' . join(' | ', map { cell($_) } @_) . " |\n" }

# One line for the machine: what a reader has to know of it to compare.
sub machine {
    my ($data) = @_;
    my %of = map { $_->[0] => $_->[1] } @{$data->{environment}};
    return join '; ', map { defined $of{$_} ? ('cpu' eq $_ ? '' : "$_ ") . $of{$_} : () }
        'cpu', 'memory', 'virtual machine', 'kernel', 'Open MPI', 'compiler', 'this source', 'load at the start', 'taken by the host';
}

# The page of a figure: page(DATA, FIGURE, RESULT, POINTS...).
sub page {
    my ($data, $figure, $result, @points) = @_;
    my $text = "# $figure->{title}\n\n$made\n\n- Date: $data->{started}\n- Machine: " . machine($data) . "\n- Run: $data->{mode}, "
        . "$result->{rounds} rounds (`report --only $figure->{id}`)" . join('', map { "\n- Note: $_" } @{$data->{notes} // []}) . "\n";
    $text .= "- Corresponds to " . Report::Page::paper($figure->{paper}) . "\n\n";
    $text .= "$figure->{shown}\n\n" if $figure->{shown};
    my @found = ((grep { $_->{verdict} } @points) ? Report::Page::found($figure, @points) : (), $figure->{found} ? $figure->{found}->(@points) : ());
    $text .= join('', map { "- $_\n" } @found) . "\n" if @found;
    $text .= "Medians and quartiles. A ratio is that of two runs of one round, with its quartiles.\n";
    my (@panels, %in);
    for (@points) {
        push @panels, $_->{panel} if !$in{$_->{panel}};
        push @{$in{$_->{panel}}}, $_;
    }
    my $x = 'size' eq $figure->{x} ? 'size' : $figure->{x};
    for my $panel (@panels) {
        $text .= "\n" . (length $panel ? "## $panel\n\n" : '') . row('series', $x, 'what', 'median', 'quartiles', 'ratio', 'beside') . "|---|---|---|---|---|---|---|\n";
        for my $p (@{$in{$panel}}) {
            my $r = $p->{ratio};
            $text .= row($p->{series}, Report::Page::x_text($figure, $p->{x}), $p->{unit}, Report::Page::number($p->{median}),
                $p->{n} > 1 ? join(' to ', map { Report::Page::number($_) } @$p{qw(q1 q3)}) : 'one run',
                $r ? Report::Page::ratio($r->{median}) . ($r->{n} > 1 ? ' (' . join(' to ', map { Report::Page::ratio($_) } @$r{qw(q1 q3)}) . ')' : '') : '',
                $r ? $p->{base} : '');
        }
    }
    return $text =~ s/–/-/gr =~ s/−/-/gr;
}

# The list of the pages in a folder: index(DIR).
sub index_of {
    my ($dir) = @_;
    my $text = "# Measurements\n\n$made\n\nEach page is one figure of one run, with its date and its machine; how it is measured is in\n"
        . "[the benchmarks](../../test/bench/README.md) and [the laboratory report](../../test/bench/REPORT.md). Machines differ by more than most\n"
        . "changes do: compare within a page, and measure on your own.\n\n| figure | date | machine |\n|---|---|---|\n";
    for my $path (sort glob "$dir/*.md") {
        my ($name) = $path =~ m{([^/]+)$};
        next if 'README.md' eq $name;
        open my $in, '<:encoding(UTF-8)', $path or next;
        my $page = do { local $/; <$in> };
        my ($title) = $page =~ /^# (.*)/;
        my ($date) = $page =~ /^- Date: (.*)/m;
        my ($machine) = $page =~ /^- Machine: ([^;\n]*)/m;
        $text .= row("[$title]($name)", $date, $machine);
    }
    return $text;
}

1;
