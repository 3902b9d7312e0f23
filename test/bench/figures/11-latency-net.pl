# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
{
    id => 'latency-net', chapter => 'Latency and bandwidth', title => 'Latency through the network stack',
    paper => '000 fig. 3.3 (a), 6.4',
    shown => 'The same ping-pong through sockets of this host: datagram iWARP over UDP (ibx) beside TCP and other software.',
    expected => [
        'The thesis, fig. 6.4: MPI over datagram iWARP is faster than over connection-based iWARP for most sizes (lighter protocol, no MPA markers); small messages take 7 us over iWARP adapters (section 3.3.2).',
        'Here: ibx below tcp; the aim is 0.75 times.',
    ],
    program => 'pingpong', arguments => [qw(--mode lat)],
    quick => [qw(--sizes 8,4K --repetitions 5 --inner 20)], default => [qw(--sizes 0,64,1K,4K,16K,64K --repetitions 15 --inner 50)],
    full => [qw(--sizes 0,1,8,64,256,1K,2K,4K,8K,16K,32K,64K,128K --repetitions 30)],
    sides => ['spec/ibx', 'ob1/ibx', 'ob1/tcp', 'mpich/tcp', 'ofi/tcp', 'ob1/openib'], baseline => 'ob1/tcp',
    beside => {'mpich/tcp' => '', 'ofi/tcp' => ''},
    x => 'size', values => [{key => 'us', unit => 'us', better => 'less'}], draw => {x => 'bytes', logx => 1, logy => 1},
    rounds => 7, seconds => 45,
}
