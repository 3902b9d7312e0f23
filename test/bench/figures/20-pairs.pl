# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
{
    id => 'pairs', chapter => 'Several connections at once', title => 'Several pairs of processes', paper => '000 fig. 3.8, 3.9',
    shown => 'Half a round trip, mean over the pairs, divided by their number (normalized latency); sum of the bandwidths with all pairs sending both ways.',
    expected => [
        'The thesis: normalized latency falls up to four pairs; bandwidth rises with the pairs over iWARP and InfiniBand (section 3.4.2).',
        'Here, with fewer processors than processes, pairs wait for each other: it can at best stay level. Between transports the order must stay.',
    ],
    program => 'pairs',
    runs => [
        map({ my $pairs = $_; {processes => 2 * $pairs, arguments => [qw(--mode lat --sizes 8,4K --inner 20)]} } 1, 2, 4),
        map({ my $pairs = $_; {processes => 2 * $pairs, arguments => [qw(--mode both --sizes 64K --inner 1)]} } 1, 2, 4),
    ],
    quick => [qw(--repetitions 2)], default => [qw(--repetitions 6)], full => [qw(--repetitions 20)],
    sides => ['spec/vader', 'spec/ibx', 'ob1/ibx', 'ob1/tcp'], baseline => 'ob1/tcp', beside => {'spec/vader' => ''},
    x => 'connections', panel => ['size'],
    values => [
        {panel => 'Normalized latency', key => 'normalized_us', unit => 'us', better => 'less'},
        {panel => 'Bandwidth', key => 'mb_s', unit => 'MB/s', better => 'more'},
    ],
    draw => {x => 'pairs'}, rounds => 5, seconds => 60,
}
