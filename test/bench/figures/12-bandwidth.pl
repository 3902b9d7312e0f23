# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
my $shm = {net => 'shared memory'};
my $net = {net => 'network stack'};
{
    id => 'bandwidth', chapter => 'Latency and bandwidth', title => 'Bandwidth, one way', paper => '000 fig. 3.5 (one way), 3.2',
    shown => 'Windows of 64 messages in flight, each window answered by an empty message.',
    expected => [
        'The thesis: 1100 MB/s for iWARP, 1600 MB/s for InfiniBand, more than 85 % of what the platform can (section 3.3.2).',
        'Here: spec at least 0.98 times ob1 in shared memory; ibx at least as much as tcp for large messages.',
    ],
    program => 'pingpong', arguments => [qw(--mode bw)],
    quick => [qw(--sizes 64K --repetitions 2)], default => [qw(--sizes 4K,64K,256K,1M --repetitions 5)],
    full => [qw(--sizes 1K,4K,16K,64K,256K,1M,4M --repetitions 9)],
    sides => [
        {name => 'spec/vader', of => 'spec/vader', tags => $shm}, {name => 'ob1/vader', of => 'ob1/vader', tags => $shm},
        {name => 'mpich/shm', of => 'mpich/shm', tags => $shm}, {name => 'spec/ibx', of => 'spec/ibx', tags => $net},
        {name => 'ob1/ibx', of => 'ob1/ibx', tags => $net}, {name => 'ob1/tcp', of => 'ob1/tcp', tags => $net},
        {name => 'mpich/tcp', of => 'mpich/tcp', tags => $net},
    ],
    beside => {'spec/vader' => 'ob1/vader', 'spec/ibx' => 'ob1/tcp', 'ob1/ibx' => 'ob1/tcp'}, panel => ['net'],
    x => 'size', values => [{key => 'mb_s', unit => 'MB/s', better => 'more'}], draw => {x => 'bytes', logx => 1},
    rounds => 7, seconds => 50,
}
