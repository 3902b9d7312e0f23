# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
use Report::Stats;

# Models of memory per process over the number of processes: {series => fit_line's answer}.
my $models = sub {
    my %xy;
    push @{$xy{$_->{series}}}, [$_->{x} - 1, $_->{median}] for grep { $_->{key} eq 'kib' } @_;
    return {map { my $fit = Report::Stats::fit_line(@{$xy{$_}}); $fit ? ($_ => {%$fit, most => (sort { $b <=> $a } map { $_->[0] + 1 } @{$xy{$_}})[0]}) : () } keys %xy};
};
my $large = 1_000_000;
{
    id => 'memory', chapter => 'Memory', title => 'Memory of a process over the number of processes', paper => '000 fig. 6.8, table 6.1; 002 fig. 3.14',
    shown => 'What a process holds after an all-to-all of 4 KiB beyond what it held before its first message: its pages, and the kernel\'s for its sockets. Datagrams (ibx) beside connections (tcp).',
    expected => [
        'The thesis, table 6.1: with 64 processes SMG2000 needs 1,815,192 pages over datagrams and 2,577,276 over connections (30 % less), RADIX 1,727,232 and 2,493,291 (31 % less); CG.B only 5 % less. The advantage grows with the number of processes.',
        '002, fig. 3.14: with connections only, 1044 + 524 p KiB for p processes, 10^6 MiB for 10^6 of them (its formula, drawn below).',
    ],
    program => 'memory', runs => [map({ {processes => $_} } 4, 8, 16), map({ {processes => $_, modes => ['full']} } 32, 64)],
    arguments => [qw(--size 4K)], quick => [qw(--settle-ms 100)], default => [qw(--settle-ms 600)], full => [qw(--settle-ms 2500)],
    sides => ['ob1/ibx', 'ob1/tcp'], baseline => 'ob1/tcp', x => 'ranks',
    reduce => sub { my ($r) = @_; $r->{kib} = ($r->{pss_kib} + $r->{socket_kib} + $r->{slab_kib}) / $r->{ranks} if $r->{ranks}; return $r },
    values => [{key => 'kib', panel => 'Measured', unit => 'KiB per process', better => 'less'}],
    found => sub {
        my $of = $models->(@_);
        return map {
            my $m = $of->{$_};
            sprintf 'Model of %s: %.1f + %.2f (p - 1) KiB per process (least squares, R2 = %.3f, measured up to p = %d). Extrapolated %.0f times beyond that, to p = 10^6: %.2f GiB per process if every process talks to all others. This is an extrapolation, not a measurement.',
                $_, @$m{qw(a b r2 most)}, $large / $m->{most}, ($m->{a} + $m->{b} * ($large - 1)) / 1048576
        } sort keys %$of;
    },
    further => sub {
        my $of = $models->(@_);
        my @p = map { 10**($_ / 2) } 1 .. 12;
        my $line = sub { my ($m) = @_; return [grep { $_->[1] > 0 } map { [$_, ($m->{a} + $m->{b} * ($_ - 1)) / 1024] } @p] };
        return {
            panel => 'Extrapolated to 10^6 processes by the model (not measured)', x => 'processes', y => 'MiB per process', logx => 1, logy => 1, free_x => 1, wide => 1,
            series => [
                map({ {name => "$_, model", points => $line->($of->{$_}), line_only => 1, style => $_ eq 'ob1/ibx' ? 0 : 1, dash => 2} } sort keys %$of),
                {name => '002: DCFA-MPI, formula', points => [map { [$_, Report::Stats::dcfa_kib($_) / 1024] } @p], line_only => 1, style => 4, dash => 3},
                map({ my $s = $_; {name => "$s, measured", style => $s eq 'ob1/ibx' ? 0 : 1, marks_only => 1, points => [map { [$_->{x}, map { $_ / 1024 } @$_{qw(median q1 q3)}] } grep { $_->{series} eq $s } @_]} } sort keys %$of),
            ],
        };
    },
    departures => 'Growth by talking and not the whole job; processes of one host; socket memory counted (the thesis could not).', draw => {x => 'processes'}, rounds => 3, seconds => 30,
}
