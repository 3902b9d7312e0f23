# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
my $shm = {net => 'shared memory'};
my $net = {net => 'network stack'};
my @modes = ({processes => 2, arguments => [qw(--mode both)]}, {processes => 4, arguments => [qw(--mode opposite)]});
{
    id => 'bidirectional', chapter => 'Latency and bandwidth', title => 'Bandwidth, both ways', paper => '000 fig. 3.5 (both ways), 6.5',
    shown => 'Both processes post 16 receives, then 16 sends (fig. 3.5); two pairs that send in opposite directions (fig. 6.5). Sum of both ways.',
    expected => [
        'The thesis: 2300 MB/s both ways over iWARP, 92 % of the network (section 3.3.2); MPI over datagram iWARP up to 40 % above connection-based at 2 KiB (section 6.6.1).',
        'Here: as one way; two pairs are more processes than two processors can run at once.',
    ],
    program => 'pairs', runs => \@modes,
    quick => [qw(--sizes 64K --repetitions 2)], default => [qw(--sizes 2K,16K,64K,256K --repetitions 6)],
    full => [qw(--sizes 1K,2K,4K,16K,64K,256K,1M --repetitions 15)],
    sides => [
        {name => 'spec/vader', of => 'spec/vader', tags => $shm}, {name => 'ob1/vader', of => 'ob1/vader', tags => $shm},
        {name => 'spec/ibx', of => 'spec/ibx', tags => $net}, {name => 'ob1/ibx', of => 'ob1/ibx', tags => $net},
        {name => 'ob1/tcp', of => 'ob1/tcp', tags => $net},
    ],
    beside => {'spec/vader' => 'ob1/vader', 'spec/ibx' => 'ob1/tcp', 'ob1/ibx' => 'ob1/tcp'}, panel => [qw(mode net)],
    names => {'mode=both' => 'one pair, both ways', 'mode=opposite' => 'two pairs, opposite ways'},
    x => 'size', values => [{key => 'mb_s', unit => 'MB/s', better => 'more'}], draw => {x => 'bytes', logx => 1},
    rounds => 5, seconds => 50,
}
