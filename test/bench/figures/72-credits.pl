# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
{
    id => 'credits', chapter => 'Limits', title => 'Credits of a connection', paper => '002 fig. 4.5',
    shown => 'Bursts over ibx on verbs where each connection has its own receive buffers and credits (no shared queue), over the number of buffers.',
    expected => 'The paper: a synchronization threshold (CreditSyncLimit) of 2 of 64 needs the fewest SYNC packets and has the best round trip; larger ones synchronize almost every message (section 4.3.1.3).',
    needs => ['the RDMA device'], program => 'burst', processes => 2, arguments => [qw(--messages 128)],
    quick => [qw(--repetitions 2)], default => [qw(--repetitions 8)], full => [qw(--repetitions 40)],
    sides => [
        map { {name => "$_ buffers", of => 'spec/ibx', tags => {buffers => $_}, mca => ['btl_ibx_transport verbs', 'btl_ibx_verbs_srq off', "btl_ibx_verbs_link_window_max $_"]} } 8, 16, 64, 512,
    ],
    baseline => '64 buffers', x => 'buffers', values => [{key => 'us', unit => 'us', better => 'less'}],
    departures => 'ibx returns credits with every message and by a threshold that follows from the number of buffers; there is no parameter for it alone.', draw => {x => 'receive buffers'}, rounds => 5, seconds => 10,
}
