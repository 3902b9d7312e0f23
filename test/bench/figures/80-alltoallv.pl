# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
use Report::Stats;
my %is = (W => {share => 0.346, old => 16.363, new => 7.578}, A => {share => 0.362, old => 123.921, new => 52.415});
{
    id => 'alltoallv', chapter => 'Applications', title => 'MPI_Alltoallv of the bucket sort NAS IS', paper => '004 tables 4 and 5',
    shown => 'Mean time of one MPI_Alltoallv with the message sizes of IS on four processes (class W 256 KiB, class A 2 MiB to each), buckets uneven by 5 %; four processes share the processors.',
    expected => [
        'The paper: 7.6 ms instead of 16.4 ms for class W, 52.4 instead of 123.9 ms for class A with DMA, from which it deduces a speed-up of IS by 1.22 and 1.26.',
        'Here: spec as fast as ob1 in shared memory (nothing is computed meanwhile), ibx beside tcp open.',
    ],
    program => 'collective', processes => 4, arguments => [qw(--op alltoallv)],
    quick => [qw(--classes S --repetitions 2)], default => [qw(--classes W,A --repetitions 5)], full => [qw(--classes S,W,A --repetitions 20)],
    sides => ['spec/vader', 'ob1/vader', 'spec/ibx', 'ob1/tcp'], beside => {'spec/vader' => 'ob1/vader', 'spec/ibx' => 'ob1/tcp'}, x => 'class',
    reduce => sub { my ($r) = @_; $r->{ms} = $r->{us} / 1000 if defined $r->{us}; return $r },
    values => [{key => 'ms', unit => 'ms', better => 'less'}],
    found => sub {
        return map {
            my $p = $_;
            my $is = $is{$p->{x}};
            $is && $p->{ratio} ? sprintf('Class %s, %s: by the paper\'s way (%.1f %% of IS in this operation) IS would be %.2f times as fast as with %s.', $p->{x}, $p->{series}, 100 * $is->{share}, Report::Stats::speedup($is->{share}, 1, $p->{ratio}{median}), $p->{base}) : ()
        } @_;
    },
    draw => {x => 'class', logy => 1}, rounds => 3, seconds => 40,
}
