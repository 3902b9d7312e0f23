# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
{
    id => 'crossing', chapter => 'Overlap and progress', title => 'What speculation costs where it cannot help', paper => '000 fig. 4.19 (a)',
    shown => 'Latency of a message whose send and receive are called at the same moment, so that RTS and RTR cross and the RTR is dropped.',
    expected => ['The thesis: less than 3 % above the old protocol without adaptation, less than 1 % with it and for eager messages (section 4.4.3).', 'Here: the same bounds.'],
    program => 'crossing', quick => [qw(--sizes 128K --iterations 30)], default => [qw(--sizes 1K,16K,64K,256K,1M --iterations 150)], full => [],
    sides => [
        {name => 'spec, always', of => 'spec/vader', mca => ['pml_spec_speculation on']}, {name => 'spec, adaptive', of => 'spec/vader', mca => ['pml_spec_speculation auto']},
        'ob1/vader',
    ],
    baseline => 'ob1/vader', x => 'size', reduce => sub { my ($r) = @_; $r->{share} = 100 * $r->{crossed} if ($r->{crossed} // '') =~ /^\d/; return $r },
    values => [{key => 'us', unit => 'us', better => 'less'}, {key => 'share', unit => '% of the messages really crossed', minor => 1}],
    draw => {x => 'bytes', logx => 1, logy => 1}, rounds => 7, seconds => 40,
}
