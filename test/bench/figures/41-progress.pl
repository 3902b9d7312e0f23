# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
{
    id => 'progress', chapter => 'Overlap and progress', title => 'Progress without calls of MPI', paper => '000 fig. 3.15, 4.14',
    shown => 'Latency of 1 MiB at the receiver when one side is delayed between its nonblocking call and its wait. Flat: the message arrives by itself. Rising with the delay: it waits for the wait.',
    expected => [
        'The thesis: with the new protocol the receive side is flat whoever comes first; on the send side only 4 to 15 % of the latency is left after the delay (section 4.4.1).',
        'Here: flat at the receiver if its receive comes first.',
    ],
    program => 'progress', arguments => [qw(--sizes 1M)], quick => [qw(--delays 0,400 --iterations 5)], default => [qw(--delays 0,100,200,400,800 --iterations 15)],
    full => [qw(--delays 0,50,100,200,400,800,1600)],
    sides => ['spec/vader', 'ob1/vader'], baseline => 'ob1/vader', panel => [qw(side order)], x => 'delay_us',
    names => {
        'side=receive' => 'the receiver is delayed', 'side=send' => 'the sender is delayed', 'order=receiver-first' => 'the receive comes first',
        'order=sender-first' => 'the send comes first',
    },
    values => [{key => 'us', unit => 'us', better => 'less'}], draw => {x => 'delay (us)'}, rounds => 5, seconds => 50,
}
