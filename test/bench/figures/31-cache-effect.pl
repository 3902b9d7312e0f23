# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
{
    id => 'cache-effect', chapter => 'Registration and reuse of buffers', title => 'With and without a registration cache', paper => '000 fig. 3.11',
    shown => 'Ping-pong of large messages with one buffer, over ibx, with the cache lazy, with grdma, and without any.',
    expected => [
        'The thesis: a considerable effect on latency and bandwidth of every size above the eager limit (section 3.5.1).',
        'Here: little, since over UDP a registration pins no page; it is an adapter that makes it dear.',
    ],
    program => 'pingpong', arguments => [qw(--mode lat --inner 10)],
    quick => [qw(--sizes 64K --repetitions 3)], default => [qw(--sizes 16K,64K,256K,1M --repetitions 8)], full => [qw(--sizes 16K,32K,64K,128K,256K,512K,1M,4M)],
    sides => [
        {name => 'lazy', of => 'ob1/ibx', mca => ['btl_ibx_rcache lazy'], needs => ['rcache:lazy']},
        {name => 'grdma', of => 'ob1/ibx', mca => ['btl_ibx_rcache grdma'], needs => ['rcache:grdma']}, {name => 'none', of => 'ob1/ibx', mca => ['btl_ibx_rcache none']},
    ],
    baseline => 'none', x => 'size', values => [{key => 'us', unit => 'us', better => 'less'}],
    draw => {x => 'bytes', logx => 1, logy => 1}, rounds => 5, seconds => 20,
}
