# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
{
    id => 'kernels', chapter => 'Overlap and progress', title => 'Application kernels: time spent waiting', paper => '000 fig. 4.17, 4.18, 4.19 (b)',
    shown => 'The communication of CG, BT, LU and RADIX: time of an iteration in MPI_Wait, MPI_Waitall and MPI_Send; share of the RTRs that a message used; bytes that speculation adds.',
    expected => [
        'The thesis: wait time 30 % less in BT.A, 5 % in LU.A, 4 % in RADIX; 21 % more in CG.B, 4 % with adaptation; less than 0.04 % more bytes (sections 4.4.2 and 4.4.3).',
        'Here: bt at most 0.7 times, lu at most 1.0, cg with adaptation at most 1.04.',
    ],
    program => 'kernels', runs => [map { {arguments => ['--kernel', $_]} } qw(cg bt lu radix)],
    quick => [qw(--repetitions 5)], default => [qw(--repetitions 60)], full => [],
    sides => [
        {name => 'spec, always', of => 'spec/vader', mca => ['pml_spec_speculation on']}, {name => 'spec, adaptive', of => 'spec/vader', mca => ['pml_spec_speculation auto']},
        'ob1/vader',
    ],
    baseline => 'ob1/vader', x => 'name',
    reduce => sub { my ($r) = @_; $r->{usage} = 100 * $r->{rtr_usage} if ($r->{rtr_usage} // '') =~ /^\d/; return $r },
    values => [
        {key => 'blocked_us', panel => 'Waiting', unit => 'us', better => 'less'}, {key => 'usage', panel => 'RTRs used', unit => '% of those that arrived'},
        {key => 'iteration_us', panel => 'Whole iteration', unit => 'us', better => 'less', minor => 1},
        {key => 'extra_percent', panel => 'Bytes of speculation', unit => '% of the data', minor => 1},
    ],
    departures => 'Two processes; neighbours are those of a ring or hypercube (test/bench/README.md).', draw => {x => 'kernel', logy => 1}, rounds => 5, seconds => 60,
}
