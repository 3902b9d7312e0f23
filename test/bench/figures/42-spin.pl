# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
use Report::Stats;
{
    id => 'spin', chapter => 'Overlap and progress', title => 'Message and computation together', paper => '004 fig. 8, table 3',
    shown => 'Time of a message of 256 KiB and a computation together, over the length of the computation: in registers (fixed) and on vectors in memory (daxpy). Perfect hiding is the computation alone.',
    expected => [
        'The paper, table 3: efficiency 1 - (l_overlap - l_busy) / l_msg, saturated, is 0.58 to 0.94 with DMA and -0.02 to 0.04 with the processor copying; higher for fixed than for daxpy at 64 KiB.',
        'Here: receiver first, so near 1 at the receiver under spec and near 0 under ob1; at the sender the other way round, as its processor copies.',
    ],
    program => 'spin', runs => [map { {arguments => ['--kind', $_, '--sizes', '256K']} } qw(fixed daxpy)],
    quick => [qw(--busy 0,80 --iterations 5)], default => [qw(--busy 0,20,40,80,160 --iterations 15)], full => [qw(--busy 0,10,20,40,80,160,320 --iterations 60)],
    sides => ['spec/vader', 'ob1/vader'], baseline => 'ob1/vader', panel => [qw(side kind)], x => 'busy_us',
    names => {'side=receive' => 'the receiver computes', 'side=send' => 'the sender computes'},
    reduce => sub { my ($r) = @_; $r->{saturated_efficiency} = $r->{efficiency} if $r->{saturated}; return $r },
    values => [
        {key => 'l_overlap', unit => 'us', better => 'less'}, {key => 'l_busy', who => 'ob1/vader', name => 'perfect hiding', unit => 'us'},
        {key => 'saturated_efficiency', unit => 'efficiency, saturated', minor => 1},
    ],
    found => sub { return map { "Efficiency, saturated. $_" } Report::Stats::middles('saturated_efficiency', '%.2f', @_) },
    departures => 'The receive is always called first; the paper leaves the order to chance and has the sender\'s side only. Two processes of one host and not two hosts.',
    draw => {x => 'computation (us)'}, rounds => 5, seconds => 30,
}
