#!/usr/bin/env perl
# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# The arithmetic of BenchRun.pm and BenchPairs.pm on made-up records with a known answer; no MPI.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use BenchRun;
use BenchPairs;
use File::Temp qw(tempfile);
use JSON::PP;
use Test::More;

sub near { my ($got, $wanted, $name) = @_; ok(abs($got - $wanted) < 1e-9, "$name: $got") }
sub pair { my ($a, $b, %more) = @_; return {a => {us => $a, %{$more{a} // {}}}, b => {us => $b}, same => $more{same} // 1} }

# Statistics.
near(BenchRun::median(3, 1, 2), 2, 'median of three');
near(BenchRun::median(4, 1), 2.5, 'median of two');
near(BenchRun::quantile(0.25, 10, 20, 30, 40, 50), 20, 'first quartile');
is(BenchRun::median(), 'nan', 'median of nothing');
is_deeply([map { join '', BenchRun::pair_order($_) } 0 .. 3], [qw(ab ba ab ba)], 'the order of the runs alternates');

# Lines of the programs.
my @records = BenchRun::parse("lat size=8 us=0.3\nnot a record\nmachine when=start core_ns=38.5\n");
is_deeply(\@records, [{bench => 'lat', size => 8, us => 0.3}, {bench => 'machine', when => 'start', core_ns => 38.5}],
    'records and nothing else');

# A ratio is one of each pair, not of medians.
my @drift = (pair(2, 1), pair(20, 10), pair(300, 100), pair(4000, 2000));
near((BenchPairs::ratios('us', @drift))[0], 2, 'what changes slowly cancels');
near((BenchPairs::ratios('us', @drift))[2], 2.25, 'third quartile of the ratios');
is((BenchPairs::ratios('us', pair(1, 0)))[0], 'nan', 'no ratio to nothing');
is((BenchPairs::ratios('us', pair('absent', 1)))[0], 'nan', 'no ratio of what is absent');
is((BenchPairs::values_of('a', 'us', pair('absent', 1)))[0], 'absent', 'absent is not 0');

# What a first try ends with.
{
    my $paid = BenchRun::overlap_verdict('spec', 'ob1', {a => 0.99, b => 0.02}, {a => 0.1, b => 0.95});
    like($paid, qr/^Your own program on this machine: a receive .*spec hides 99 %, ob1 2 %/s, 'a receive gains');
    like($paid =~ s/\n/ /gr, qr/Where both ends compute there is nothing to gain/, 'and the sender pays');
    unlike(BenchRun::overlap_verdict('spec', 'ob1', {a => 0.99, b => 0.02}, {a => 0.9, b => 0.95}), qr/nothing to gain/, 'nobody pays where an adapter moves the data');
    like(BenchRun::overlap_verdict('spec', 'ob1', {a => 0.05, b => 0.02}, {a => 0.9, b => 0.9}), qr/: nothing to gain/, 'nothing is hidden');
    is(BenchRun::overlap_verdict('spec', 'ob1', undef, undef), '', 'what was not measured is not told');
    is_deeply([grep { length > 100 } split /\n/, $paid], [], 'lines of 100 columns');
}

# States of the machine.
ok(BenchPairs::same_state(38, 40, 41, 39), 'near and near');
ok(!BenchPairs::same_state(38, 40, 155, 39), 'far away for a moment');
ok(BenchPairs::same_state(), 'unknown counts as equal');
my @mixed = ((map { pair(1, 1) } 1 .. 3), pair(5, 1, same => 0));
my ($used, @remarks) = BenchPairs::choose(\@mixed, 4);
is(scalar @$used, 3, 'a pair of unequal state is set aside');
is_deeply(\@remarks, [], 'without a remark');
($used, @remarks) = BenchPairs::choose([pair(1, 1), pair(5, 1, same => 0), pair(5, 1, same => 0)], 3);
is(scalar @$used, 3, 'unless too few are left');
is_deeply(\@remarks, ['mixed'], 'which is said');
is_deeply([(BenchPairs::choose([pair(1, 1)], 3))[1 .. 1]], [undef], 'few, but of equal state: nothing to say');
my @noisy = ((map { pair(1, 1) } 1 .. 3), pair(9, 1, a => {noisy => 1}));
is(scalar @{(BenchPairs::choose(\@noisy, 4))[0]}, 3, 'a noisy pair is set aside');
($used, @remarks) = BenchPairs::choose([map { pair(9, 1, a => {noisy => 1}) } 1 .. 4], 4);
is_deeply([scalar @$used, @remarks], [4, 'noisy'], 'all noisy: all are in, and it is said');

# Tables.
is_deeply([BenchPairs::grouped('r x 1', 's x 1', 'r x 2', 's x 2')], ['r x 1', 'r x 2', 's x 1', 's x 2'],
    'cases of a group stand together');

# Bars.
my $report = bless {bars => 0, missed => []}, 'BenchPairs';
my $e = {value => 'us'};
is($report->verdict($e, {at_most => 1.03}, 'x', map { pair($_, 1) } 1.00, 1.01, 1.02), 'holds', 'below the bar');
is($report->verdict($e, {at_most => 1.03}, 'x', map { pair($_, 1) } 1.05, 1.06, 1.07), 'missed', 'above the bar');
is($report->verdict($e, {at_most => 1.03}, 'x', map { pair($_, 1) } 1.00, 1.04, 1.07), 'missed?', 'around the bar');
is($report->verdict($e, {at_least => 0.98}, 'x', map { pair($_, 1) } 0.97, 0.99, 1.00), 'holds', 'a bar from below');
is($report->verdict($e, {name => 'n', key => 'q', at_most => 2}, 'x', pair(9, 1, a => {q => 1.5})), 'n holds', "a's own value");
is($report->verdict($e, {name => 'n', key => 'q', at_most => 2}, 'x', pair(9, 1, a => {q => 'absent'})), 'n -',
    'no verdict on what is absent');
is($report->{bars}, 5, 'bars are counted');
is(scalar @{$report->{missed}}, 2, 'and those missed');

# Files.
for my $form ('.csv', '.jsonl') {
    my ($handle, $name) = tempfile(SUFFIX => $form, UNLINK => 1);
    my $kept = bless {
        file => $name, environment => [cpu => 'some'], runner => {btl => 'vader'},
        lines => [{experiment => 'lat', transport => 'vader', kind => 'run', us => '0.30', text => 'a,b'}],
    }, 'BenchPairs';
    $kept->write_file;
    my @lines = <$handle>;
    chomp @lines;
    if ($form eq '.csv') {
        is($lines[-1], '0,lat,vader,run,,,,,us,0.30', 'CSV: a line for each value');
        is($lines[-2], '0,lat,vader,run,,,,,text,a;b', 'CSV: no comma in a value');
    } else {
        is_deeply([map { decode_json($_)->{kind} } @lines], [qw(environment run)], 'JSON: a line for each record');
        near(decode_json($lines[1])->{us}, 0.3, 'JSON: numbers are numbers');
    }
}
done_testing;
