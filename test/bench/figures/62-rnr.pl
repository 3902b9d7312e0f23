# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
{
    id => 'rnr', chapter => 'Memory', title => 'How long a sender waits that found no receive buffer', paper => '003 fig. 3',
    shown => 'The bursts of the receive window, with at most 16 buffers, over the RNR timer of the queue pair (the code of the InfiniBand specification).',
    expected => 'The paper: with very small windows a short timer costs memory, a long one nothing in most benchmarks (section 4.3).',
    needs => ['the RDMA device'], program => 'burst', processes => 3, arguments => [qw(--messages 128)],
    quick => [qw(--repetitions 2)], default => [qw(--repetitions 8)], full => [qw(--repetitions 40)],
    sides => [
        map { {name => "timer $_", of => 'ob1/ibx', tags => {timer => $_}, mca => ['btl_ibx_transport verbs', 'btl_ibx_window_max 16', "btl_ibx_rnr_timer $_"]} } 1, 6, 12, 18,
    ],
    baseline => 'timer 12', x => 'timer', values => [{key => 'us', unit => 'us', better => 'less'}], draw => {x => 'timer code'}, rounds => 5, seconds => 10,
}
