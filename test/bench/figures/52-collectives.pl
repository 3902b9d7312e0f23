# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
{
    id => 'collectives', chapter => 'Frequently used buffers', title => 'Broadcast and scatter of small messages', paper => '000 fig. 5.9',
    shown => 'Mean time of the operation over the processes, a barrier after each.',
    expected => [
        'The thesis: both improve without the sender\'s copy, broadcast by more than a ping-pong on four processes; scatter falls off above 4 KiB, where its steps exceed the eager limit (section 5.5.1).',
        'Here: ibx beside tcp, with two processes, and four on two processors.',
    ],
    program => 'collective', runs => [map { my $np = $_; map { {processes => $np, arguments => ['--op', $_]} } qw(bcast scatter) } 2, 4],
    quick => [qw(--sizes 4K --repetitions 3)], default => [qw(--sizes 128,1K,4K,8K --repetitions 20)], full => [qw(--repetitions 60)],
    sides => ['spec/ibx', 'ob1/ibx', 'ob1/tcp'], baseline => 'ob1/tcp', panel => [qw(op np)], names => {np => 'processes:'}, x => 'size',
    values => [{key => 'us', unit => 'us', better => 'less'}], draw => {x => 'bytes', logx => 1}, rounds => 5, seconds => 40,
}
