# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
{
    id => 'connections', chapter => 'Several connections at once', title => 'One process with several connections', paper => '000 fig. 3.6, 3.7',
    shown => 'Rank 0 exchanges messages with 1, 2, 4, 8 others in turn. Half the time of a round on all connections, divided by their number; sum of the bandwidths.',
    expected => [
        'The thesis (at the user level, up to 16 connections): normalized latency falls for small messages, stays for those above 2 KiB; bandwidth is sustained (section 3.4.1).',
        'Here: the same for small messages, because one system call of ibx serves several peers; the others run on the same processors.',
    ],
    program => 'pairs',
    runs => [
        map({ my $n = $_; {processes => 1 + $n, arguments => [qw(--shape star --mode lat --sizes 8,4K --inner 20)]} } 1, 2, 4, 8),
        map({ my $n = $_; {processes => 1 + $n, arguments => [qw(--shape star --mode both --sizes 64K --inner 1)]} } 1, 2, 4, 8),
    ],
    quick => [qw(--repetitions 2)], default => [qw(--repetitions 6)], full => [qw(--repetitions 20)],
    sides => ['ob1/ibx', 'ob1/tcp'], baseline => 'ob1/tcp', x => 'connections', panel => ['size'],
    values => [
        {panel => 'Normalized latency', key => 'normalized_us', unit => 'us', better => 'less'},
        {panel => 'Bandwidth', key => 'mb_s', unit => 'MB/s', better => 'more'},
    ],
    departures => 'The thesis has several connections between two processes, which no message layer makes; here each goes to another process.',
    draw => {x => 'connections'}, rounds => 3, seconds => 50,
}
