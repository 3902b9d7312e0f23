# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
{
    id => 'latency-shm', chapter => 'Latency and bandwidth', title => 'Latency within a host', paper => '000 fig. 3.4',
    shown => 'Half a round trip of a blocking ping-pong between two processes, through shared memory.',
    expected => [
        'The thesis: messages within a host bypass the network; two cores of one chip are up to 30 % faster than two chips (section 3.3.2). It compares networks, not message layers.',
        'Here: speculation must cost nothing where it is of no use: spec at most 1.03 times ob1.',
    ],
    program => 'pingpong', arguments => [qw(--mode lat)],
    quick => [qw(--sizes 8,4K --repetitions 10 --inner 50)], default => [qw(--sizes 0,8,64,256,1K,4K,16K,64K --repetitions 30)],
    full => [qw(--sizes 0,1,8,64,256,1K,2K,4K,8K,16K,32K,64K,128K)],
    sides => ['spec/vader', 'ob1/vader', 'mpich/shm'], baseline => 'ob1/vader', beside => {'mpich/shm' => ''},
    x => 'size', values => [{key => 'us', unit => 'us', better => 'less'}], draw => {x => 'bytes', logx => 1, logy => 1},
    rounds => 9, seconds => 25,
}
