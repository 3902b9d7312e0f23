# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
use BenchRun;
{
    id => 'exchange', chapter => 'Overlap and progress', title => 'Exchange models', paper => '000 fig. 4.15, 4.16',
    shown => 'Time of an iteration: model 1 receives, packs, sends, produces, waits, consumes; model 2 packs, sends, consumes, receives, produces, waits. 128 KiB, over the ratio of communication to computation.',
    expected => [
        'The thesis: up to 32 % shorter in model 1 (at 80 %), up to 20 % in model 2 (at 50 %); adaptation changes nothing in model 1 (section 4.4.1).',
        'Here: less, since in shared memory a processor copies, and what the receiver gains the sender pays.',
    ],
    program => 'exchange', arguments => [qw(--sizes 128K)],
    prepare => sub {
        my ($sides) = @_;
        my @records = $sides->run(Report::Sides::normal('ob1/vader'),
            {program => 'exchange', processes => 2, arguments => [qw(--sizes 128K --percent 0 --model 1 --repetitions 10)]});
        return ('--comm-us', sprintf '%.0f', BenchRun::median(map { $_->{comm_us} } @records) || 1);
    },
    quick => [qw(--percent 80 --repetitions 5)], default => [qw(--percent 20,50,80,100,200 --repetitions 20)], full => [qw(--percent 10,20,50,80,100,200,500)],
    sides => [
        {name => 'spec, always', of => 'spec/vader', mca => ['pml_spec_speculation on']}, {name => 'spec, adaptive', of => 'spec/vader', mca => ['pml_spec_speculation auto']},
        'ob1/vader',
    ],
    baseline => 'ob1/vader', panel => ['model'], names => {'model=1' => 'model 1', 'model=2' => 'model 2'}, x => 'comm_percent',
    values => [{key => 'iteration_us', unit => 'us', better => 'less'}], draw => {x => 'communication : computation (%)', logx => 1, logy => 1}, rounds => 5, seconds => 35,
}
