# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
{
    id => 'verbs', chapter => 'Latency and bandwidth', title => 'Latency over an RDMA adapter', paper => '000 fig. 3.3 (a), 6.3',
    shown => 'The ping-pong over ibx on verbs (RC) beside Open MPI\'s openib, UCX and TCP.',
    expected => 'The thesis: 1.5 us over InfiniBand, 7 us over iWARP, 13 us over 10 Gbit Ethernet (section 3.3.2).',
    needs => ['the RDMA device'],
    program => 'pingpong', arguments => [qw(--mode lat)],
    quick => [qw(--sizes 8 --repetitions 5 --inner 20)], default => [qw(--sizes 0,64,1K,4K,16K,64K --repetitions 15 --inner 50)],
    full => [qw(--sizes 0,1,8,64,256,1K,4K,16K,64K,256K)],
    sides => [
        {name => 'spec/ibx', of => 'spec/ibx', mca => ['btl_ibx_transport verbs']}, {name => 'ob1/ibx', of => 'ob1/ibx', mca => ['btl_ibx_transport verbs']},
        {name => 'ob1/openib', of => 'ob1/openib', mca => ['btl_openib_allow_ib 1']}, 'ob1/tcp',
    ],
    baseline => 'ob1/openib', x => 'size', values => [{key => 'us', unit => 'us', better => 'less'}],
    draw => {x => 'bytes', logx => 1, logy => 1}, rounds => 7, seconds => 10,
}
