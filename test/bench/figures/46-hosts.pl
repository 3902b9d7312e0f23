# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
use Report::Stats;
{
    id => 'hosts', chapter => 'Overlap and progress', title => 'Overlap between two hosts', paper => '000 fig. 4.13, 4.14',
    shown => 'Receive overlap between two hosts of the laboratory (network namespaces, one processor each, a link of 1 Gbit/s): the receiver calls first, then sleeps or computes.',
    expected => [
        'The thesis: more than 92 % (receiver first), with adapters that move the data.',
        'Here: with ibx a thread of the process moves them: near 100 % asleep, less while computing, because thread and computation share a processor. With ob1 over tcp near 0.',
    ],
    needs => ['hosts in network namespaces'], hosts => [qw(--rate 1gbit --split-cpus)],
    program => 'overlap', runs => [map { {arguments => ['--by', $_, qw(--side receive --order receiver-first)], tags => {by => $_}} } qw(sleep compute)],
    quick => [qw(--sizes 256K --iterations 3 --milliseconds 100)], default => [qw(--sizes 256K,1M --iterations 6)], full => [qw(--sizes 256K,1M,4M --iterations 15)],
    sides => ['spec/ibx', 'spec/tcp', 'ob1/tcp'], baseline => 'ob1/tcp', panel => ['by'], x => 'size',
    names => {'by=sleep' => 'the receiver sleeps', 'by=compute' => 'the receiver computes'},
    reduce => sub { my ($r) = @_; @$r{qw(hidden exposed_us)} = (100 * $r->{raw}, $r->{total_us} - $r->{compute_us}) if defined $r->{raw}; return $r },
    values => [{key => 'hidden', unit => '% hidden'}, {key => 'exposed_us', unit => 'us on top', better => 'less', minor => 1}],
    found => sub { return Report::Stats::middles('hidden', '%.0f %% hidden', @_) },
    draw => {x => 'bytes', range => [-20, 110]}, rounds => 3, seconds => 45,
}
