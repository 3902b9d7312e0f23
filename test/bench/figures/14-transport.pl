# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
{
    id => 'transport', chapter => 'Latency and bandwidth', title => 'The transport by itself', paper => '000 fig. 3.1, 3.2, 6.3',
    shown => 'Datagram iWARP without MPI, beside bare UDP and TCP sockets, over the loopback interface.',
    expected => [
        'The thesis, fig. 6.3: at the verbs level the datagram service is faster than the connected one up to 32 KiB, slower at 64 KiB (where it must be cut).',
        'Here: latency at most 1.25 times that of a bare UDP ping-pong, and below TCP; bandwidth at least TCP\'s from 1 MiB on.',
    ],
    program => 'iw_perf', runs => [{arguments => [qw(-r 3 latency)]}, {arguments => [qw(-r 3 bandwidth)]}],
    quick => [qw(-r 1 -t 5)], default => [qw(-r 1 -t 40)], full => [qw(-r 3 -t 200)],
    sides => ['alone'], one_side => 1, x => 'size',
    values => [
        {of => 'iw_latency', panel => 'Latency', key => 'iwarp_us', name => 'iwarp', unit => 'us', better => 'less', beside => 'tcp'},
        {of => 'iw_latency', panel => 'Latency', key => 'udp_us', name => 'udp', unit => 'us'},
        {of => 'iw_latency', panel => 'Latency', key => 'tcp_us', name => 'tcp', unit => 'us'},
        {of => 'iw_bandwidth', panel => 'Bandwidth', key => 'iwarp_mb_s', name => 'iwarp', unit => 'MB/s', better => 'more', beside => 'tcp'},
        {of => 'iw_bandwidth', panel => 'Bandwidth', key => 'tcp_mb_s', name => 'tcp', unit => 'MB/s'},
    ],
    draw => {x => 'bytes', logx => 1}, rounds => 5, seconds => 30,
}
