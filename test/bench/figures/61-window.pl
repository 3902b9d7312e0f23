# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
{
    id => 'window', chapter => 'Memory', title => 'The adaptive receive window', paper => '003 fig. 2',
    shown => 'Two processes send bursts of 1 KiB messages to a third that computes for 1 ms first. Time of a burst after that, and bytes of receive buffers that a process holds at the end, over the number of messages.',
    expected => [
        'The paper: W_max from 64 on is as fast as a fixed window of 512; memory is a half to a third; smaller W_max degrades the benchmarks with bursts (section 4.2).',
        'Here: the same; a window that is too small makes senders repeat.',
    ],
    program => 'burst', processes => 3, runs => [map { {arguments => ['--messages', $_]} } 16, 128, 512],
    quick => [qw(--repetitions 3)], default => [qw(--repetitions 10)], full => [qw(--repetitions 40)],
    sides => [
        {name => 'adaptive, 8 to 4096', of => 'ob1/ibx'}, {name => 'adaptive, 8 to 64', of => 'ob1/ibx', mca => ['btl_ibx_window_max 64']},
        {name => 'adaptive, 8 to 16', of => 'ob1/ibx', mca => ['btl_ibx_window_max 16']}, {name => 'fixed, 512', of => 'ob1/ibx', mca => ['btl_ibx_window fixed:512']},
        'ob1/tcp',
    ],
    baseline => 'fixed, 512', x => 'messages',
    reduce => sub { my ($r) = @_; $r->{window_kib} = $r->{window_bytes} / 1024 / 3 if ($r->{window_bytes} // '') =~ /^\d/ && $r->{window_bytes} > 0; return $r },
    values => [
        {key => 'us', panel => 'Time of a burst', unit => 'us', better => 'less'}, {key => 'window_kib', panel => 'Receive buffers', unit => 'KiB per process', better => 'less'},
        {key => 'segments_resent', panel => 'Repeated segments', unit => 'segments', minor => 1},
    ],
    draw => {x => 'messages in a burst', logx => 1, logy => 1}, rounds => 5, seconds => 45,
}
