#!/usr/bin/env perl
# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# The laboratory report without MPI: its arithmetic on made-up timings with a known answer, the figures' own reductions, the
# page and its checks.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin, "$FindBin::RealBin/../mpi";
use File::Temp qw(tempdir);
use Report::Data;
use Report::Measure;
use Report::Page;
use Report::Pages;
use Report::Plot;
use Report::Stats;
use Test::More;

sub near { my ($got, $wanted, $name, $by) = @_; ok(defined $got && abs($got - $wanted) < ($by // 1e-9), "$name: " . ($got // 'nothing')) }

# ---- points, ratios, verdicts ----

my $figure = {
    id => 'x', chapter => 'c', title => 't', paper => '000 fig. 1', expected => 'e', x => 'size', baseline => 'b', sides => ['a', 'b'], seconds => 1,
    values => [{key => 'us', unit => 'us', better => 'less'}],
};
# Side a takes twice as long as b in each round, while the machine becomes slower from round to round.
sub drifting { my ($factor, @more) = @_; return map { my $r = $_; map { {bench => 'lat', round => $r, who => $_, size => 8, us => ($_ eq 'a' ? $factor : 1) * 10**$r, @more} } qw(a b) } 1 .. 5 }
my ($of_a, $of_b) = Report::Stats::summary($figure, [drifting(2)]);
is("$of_a->{series} $of_b->{series}", 'a b', 'a series for each side');
near($of_a->{ratio}{median}, 2, 'what changes slowly cancels in the ratio');
near($of_a->{ratio}{q3} - $of_a->{ratio}{q1}, 0, 'its spread is nothing');
near($of_a->{median}, 2000, 'the median of the values themselves');
is($of_a->{verdict}, 'worse', 'twice the time is worse');
ok(!$of_b->{ratio}, 'the baseline has no ratio');
is((Report::Stats::summary({%$figure, values => [{key => 'us', unit => '', better => 'more'}]}, [drifting(2)]))[0]{verdict}, 'better', 'twice as much is better');
is((Report::Stats::summary($figure, [grep { $_->{round} < 3 } drifting(2)]))[0]{verdict}, 'few', 'two rounds tell nothing');
is(Report::Stats::verdict('less', 5, 1.01, 1.005, 1.02), 'same', 'one percent is no difference');
is(Report::Stats::verdict('less', 5, 1.3, 0.9, 1.5), 'same', 'quartiles on both sides of 1');
is(Report::Stats::verdict('less', 5, 0.7, 0.6, 0.8), 'better', 'less time');
is(Report::Stats::verdict('', 5, 0.7, 0.6, 0.8), '', 'no verdict where nothing is better');

# A round with processors that were not equally near is set aside, unless too few are left.
my @mixed = drifting(1);
$_->{round} == 5 and @$_{qw(mixed us)} = (1, $_->{who} eq 'a' ? 1e9 : 1) for @mixed;
my ($with_mixed) = Report::Stats::summary($figure, \@mixed);
is($with_mixed->{ratio}{n}, 4, 'a mixed round is set aside');
near($with_mixed->{ratio}{median}, 1, 'and does not count');
my ($noisy) = Report::Stats::summary($figure, [drifting(2, noisy => 1)]);
is_deeply($noisy->{remarks}, ['noisy'], 'only noisy rounds: they count, and it is said');

# Panels, lines, values beside values, values of one side.
my $several = {
    %$figure, baseline => undef, panel => ['order'], lines => ['size'], x => 'n', names => {'order=1' => 'first'},
    values => [{key => 'p', name => 'with', beside => 'without', better => 'less'}, {key => 'q', name => 'without'}, {key => 'q', who => 'a', name => 'ideal'}],
};
my @points = Report::Stats::summary($several, [map { my $r = $_; map { {bench => 'k', round => $r, who => $_, order => 1, size => 1024, n => 4, p => 3, q => 6} } qw(a b) } 1 .. 3]);
is_deeply([map { "$_->{panel}: $_->{series}" } @points],
    ['first: a, with, 1 KiB', 'first: a, without, 1 KiB', 'first: ideal, 1 KiB', 'first: b, with, 1 KiB', 'first: b, without, 1 KiB'], 'names of series and panels');
near($points[0]{ratio}{median}, 0.5, 'a value beside another value of the same run');
is((Report::Stats::points($figure, [{bench => 'lat', round => 1, who => 'a', size => 1, us => 'absent'}])), 0, 'absent is no point');

is_deeply([Report::Stats::middles('us', '%.1f us', map { {key => 'us', panel => 'there', series => $_->[0], median => $_->[1]} } ['a', 1], ['b', 9], ['a', 3], ['a', 2])],
    ['There: a 2.0 us, b 9.0 us.'], 'the middle of each series of a panel');

# ---- two runs ----

my @first = (10.0, 10.1, 9.9, 10.2, 9.8);
is(Report::Stats::differs(\@first, [@first])->{verdict}, 'same', 'the same values');
is(Report::Stats::differs(\@first, [map { $_ * 1.3 } @first])->{verdict}, 'differs', '30 % more');
is(Report::Stats::differs(\@first, [map { $_ * 1.01 } @first])->{verdict}, 'same', '1 % more is within the noise');
is(Report::Stats::differs(\@first, [10, 30, 9, 11, 50])->{verdict}, 'same', 'a wide spread hides it');
is(Report::Stats::differs(\@first, [20, 20])->{verdict}, 'few', 'two rounds');
my $wide = Report::Stats::differs([5, 10, 15, 20, 25], [6, 11, 16, 21, 26]);
ok($wide->{low} < 1 && $wide->{high} > 1, "the interval holds 1: $wide->{low} to $wide->{high}");
is_deeply(Report::Stats::differs(\@first, [reverse @first]), Report::Stats::differs(\@first, [reverse @first]), 'the same data, the same answer');
my ($broad, $shifted) = ([100 .. 199], [125 .. 224]);
my $both = Report::Stats::differs($broad, $shifted);
ok($both->{low} > 1 && $both->{verdict} eq 'same', 'quartiles that overlap are no difference, however sure the medians are');
# How often does noise alone pass for a difference?
my $random = Report::Stats::generator(7);
my $wrong = grep { Report::Stats::differs([map { 100 + $random->(40) } 1 .. 7], [map { 100 + $random->(40) } 1 .. 7])->{verdict} eq 'differs' } 1 .. 200;
cmp_ok($wrong, '<=', 6, "noise alone differs in $wrong of 200 cases");
my ($row) = Report::Stats::compare([$of_a], [(Report::Stats::summary($figure, [drifting(3)]))[0]]);
is("$row->{verdict} $row->{change}", 'differs worse', 'two runs are compared by the ratio to the baseline');
near($row->{ratio}, 1.5, 'which rose by half');
my $slower = [map { {%$_, us => 7 * $_->{us}} } drifting(2)];
is((Report::Stats::compare([$of_a], [(Report::Stats::summary($figure, $slower))[0]]))[0]{verdict}, 'same', 'a slower machine is no difference');

# ---- models ----

my $fit = Report::Stats::fit_line(map { [$_, 100 + 2.5 * $_] } 3, 7, 15);
near($fit->{a}, 100, 'what a process needs anyway', 1e-6);
near($fit->{b}, 2.5, 'for each other process', 1e-6);
near($fit->{r2}, 1, 'on the line', 1e-9);
cmp_ok(Report::Stats::fit_line([1, 10], [2, 30], [3, 20])->{r2}, '<', 0.5, 'off the line');
ok(!defined Report::Stats::fit_line([3, 1], [3, 2]), 'no line through one x');
near(Report::Stats::dcfa_kib(1e6) / 1024 / 1e6, 0.5117, '002: about 10^6 MiB for 10^6 processes (its log scale)', 1e-3);
near(Report::Stats::speedup(0.346, 16.363, 7.578), 1.22, '004, table 5: class W', 0.01);
near(Report::Stats::speedup(0.362, 123.921, 52.415), 1.26, '004, table 5: class A', 0.01);
near(Report::Stats::speedup(0.346, 16.363, 9.617), 1.16, '004, table 5: class W, user', 0.01);

# ---- every figure: its file, its reduction on made-up records ----

my @figures = Report::Data::figures("$FindBin::RealBin/figures");
my %reduce = map { $_->{id} => $_->{reduce} } @figures;
cmp_ok(scalar @figures, '>=', 25, scalar(@figures) . ' figures');
my %ids;
for my $f (@figures) {
    ok(!$ids{$f->{id}}++, "figure $f->{id} is there once");
    my @sides = map { (Report::Sides::normal($_))->{name} } @{$f->{sides}};
    my %known = map { $_ => 1 } @sides;
    is_deeply([grep { $_ ne '' && !$known{$_} } $f->{baseline} // '', %{$f->{beside} // {}}], [], "$f->{id}: baselines are sides");
    for my $mode (qw(quick default full)) {
        my @runs = Report::Measure::runs($f, $mode);
        ok(@runs && !grep({ !defined $_->{program} || $_->{processes} < 1 } @runs), "$f->{id}: runs of mode $mode");
        ok(!grep({ !-e "$FindBin::RealBin/$_->{program}.c" && !-e "$FindBin::RealBin/$_->{program}" } @runs), "$f->{id}: their programs are there");
    }
    ok($f->{paper} =~ /^00[0-4] (fig|table)|^no figure of a paper$/, "$f->{id}: names its figure of a paper");
}
my $reduced = $reduce{overlap}->({raw => 0.98, total_us => 52, compute_us => 50});
near($reduced->{hidden}, 98, 'overlap: percent');
near($reduced->{exposed_us}, 2, 'overlap: what comes on top');
near($reduce{hosts}->({raw => 0.5, total_us => 75, compute_us => 50})->{exposed_us}, 25, 'hosts: what comes on top');
near($reduce{memory}->({ranks => 4, pss_kib => 100, socket_kib => 60, slab_kib => 40})->{kib}, 50, 'memory: of a process');
near($reduce{window}->({window_bytes => 3 * 8192})->{window_kib}, 8, 'window: of a process');
ok(!defined $reduce{window}->({window_bytes => 'absent'})->{window_kib}, 'window: absent over tcp');
near($reduce{alltoallv}->({us => 2500})->{ms}, 2.5, 'alltoallv: milliseconds');
near($reduce{crossing}->({crossed => '0.973'})->{share}, 97.3, 'crossing: percent');
ok(!defined $reduce{crossing}->({crossed => 'absent'})->{share}, 'crossing: absent under ob1');
is_deeply([@{$reduce{policies}->({bench => 'exchange', model => 2, size => 262144, iteration_us => 7})}{qw(what us)}], ['exchange model 2, 256 KiB', 7], 'policies: an exchange');
is($reduce{policies}->({bench => 'parity', row => 'pingpong', size => 65536, us => 7})->{what}, 'parity pingpong, 64 KiB', 'policies: a row');
near($reduce{kernels}->({rtr_usage => '0.5'})->{usage}, 50, 'kernels: percent');
is($reduce{spectrum}->({uses => -1})->{uses}, 'all', 'spectrum: all counts together');
near($reduce{spin}->({saturated => 1, efficiency => 0.9})->{saturated_efficiency}, 0.9, 'spin: saturated');
ok(!defined $reduce{spin}->({saturated => 0, efficiency => 0.9})->{saturated_efficiency}, 'spin: not saturated');
is($reduce{registration}->({buffers => 16, threads => 1})->{size}, 16, 'registration: hits over the number of buffers');
my ($memory) = grep { $_->{id} eq 'memory' } @figures;
my @grow = Report::Stats::summary($memory, [
    map { my $r = $_; map { my $p = $_; {bench => 'memory', round => $r, who => 'ob1/ibx', ranks => $p, pss_kib => $p * (200 + 4 * ($p - 1)), socket_kib => 0, slab_kib => 0} } 4, 8, 16 } 1 .. 3]);
my ($said) = $memory->{found}->(@grow);
like($said, qr/200\.0 \+ 4\.00 \(p - 1\) KiB.*p = 16.*62500 times.*3\.81 GiB.*extrapolation, not a measurement/, 'memory: the model, and that it is one');
my ($scale) = grep { $_->{id} eq 'scale' } @figures;
my @parts = Report::Stats::summary($scale, [map { my $r = $_; (
    map({ {bench => 'memory', round => $r, who => 'ob1/tcp', ranks => $_, pss_kib => $_ * (100 + 8 * ($_ - 1)), socket_kib => 0, slab_kib => 0, first_us => 1000 + 50 * ($_ - 1), again_us => 1000} } 4, 8, 16),
    map({ {bench => 'incast', round => $r, who => 'engine', switch => 'drops', senders => $_, ms => 12, ideal_ms => 10, segments => 400, resent => 10, peer_bytes => 3500} } 64, 1000),
) } 1 .. 3]);
my @costs = $scale->{found}->(@parts);
like($costs[0], qr{^Computed, ob1/tcp: 100\.0 \+ 8\.00 \(p - 1\) KiB, at p = 10000: 78 MiB.*not a measurement}, 'scale: memory');
like($costs[1], qr/50 us more for each peer, at p = 10000: 499\.9 ms|500\.0 ms|0\.50 s/, 'scale: time');
like($costs[2], qr/^Computed, engine, drops: 3500 bytes for each of 9999 peers: 33\.4 MiB.* 1000 senders .* 1\.20 times the ideal time, 2\.5 % sent again/, 'scale: the engine');

# ---- what rounds do ----

my @asked;
my $sides = bless {runner => {core_ns => []}}, 'Sides::OfTest';
sub Sides::OfTest::missing { return $_[1] eq 'nothing' ? 'it is not there' : undef }
sub Sides::OfTest::why_not { return $_[1]{name} eq 'gone' ? 'it was not built' : undef }
sub Sides::OfTest::run { my ($self, $side, $run) = @_; push @asked, join ' ', $side->{name}, @{$run->{arguments} // []}; die "broken\nat length\n" if $side->{name} eq 'bad'; die "this run found corrupted data\n" if $side->{name} eq 'corrupt'; return {bench => 'lat', size => 8, us => 1} }
my %how = (mode => 'default', scale => 1, sides => $sides, tell => sub { });
my $result = Report::Measure::figure({%$figure, program => 'p', rounds => 4, sides => ['a', 'b', 'gone'], seconds => 60}, %how);
is("@asked", 'a b b a a b b a', 'the order of the sides turns round');
is_deeply($result->{left_out}, [['gone', 'it was not built']], 'a side that cannot run is left out with its reason');
is("$result->{state} $result->{rounds} " . @{$result->{records}}, 'measured 4 8', 'all records of all rounds');
$result = Report::Measure::figure({%$figure, needs => ['nothing']}, %how);
is("$result->{state}: $result->{reason}", 'absent: it is not there', 'a figure that cannot be had says why');
@asked = ();
$result = Report::Measure::figure({%$figure, program => 'p', rounds => 3, sides => ['a', 'bad'], seconds => 60}, %how);
is(scalar(grep { $_ eq 'bad' } @asked), 2, 'a run that failed is repeated once, its side then given up');
is($result->{repeated}[0][0], 'bad', 'what was repeated is told');
is($result->{failed}[0][1], "broken\nat length\n", 'and its error is kept');
@asked = ();
Report::Measure::figure({%$figure, program => 'p', rounds => 3, sides => ['corrupt', 'a'], seconds => 60}, %how);
is(scalar(grep { $_ eq 'corrupt' } @asked), 1, 'corrupted data are not tried again');
@asked = ();
Report::Measure::figure({%$figure, program => 'p', rounds => 2, sides => ['a'], seconds => 60, prepare => sub { 'all' }, runs => [{prepare => sub { 'one' }}, {}]}, %how);
is(join(', ', @asked), 'a all one, a all, a all one, a all', 'what is measured first gives arguments, once');
is(Report::Measure::figure({%$figure, program => 'p', rounds => 9, sides => ['a'], seconds => 60}, %how, mode => 'quick')->{rounds}, 1, 'a quick run has one round');

# ---- data ----

my $dir = tempdir(CLEANUP => 1);
my $data = {mode => 'quick', started => 'now', seconds => 61, notes => ['busy & <noisy>'], environment => [['Open MPI', '4.1.4']],
    figures => [{id => 'x', state => 'measured', rounds => 5, seconds => 2, left_out => [['c', 'why']], failed => [], repeated => [['a', "it ended:\n  more"]], records => [drifting(2)]}]};
Report::Data::write_json("$dir/data.json", $data);
my $again = Report::Data::read_json($dir);
is($again->{environment}[0][1], '4.1.4', 'a version stays a text');
is_deeply([map { $_->{us} } @{$again->{figures}[0]{records}}], [map { $_->{us} } drifting(2)], 'what was written is read');
my @csv = split /\n/, Report::Data::csv($data);
is(scalar @csv, 1 + 10 * 3, 'CSV: a line for each value');
is($csv[0], 'figure,round,who,record,mixed,key,value', 'CSV: its head');
is(Report::Data::field('a,"b"'), '"a,""b"""', 'CSV: quotes');
eval { Report::Data::read_json("$FindBin::RealBin/report-test.pl") };
like($@, qr/no data of a report/, 'another file is refused');

# ---- the page ----

my @measured = ([$figure, $data->{figures}[0], Report::Stats::summary($figure, $data->{figures}[0]{records})],
    [{%$figure, id => 'y', title => 'A < B & "C"'}, {id => 'y', state => 'absent', reason => 'no verbs', left_out => [], failed => [], records => []}]);
my $page = Report::Page::page($data, @measured);
is(Report::Page::malformed($page), undef, 'the page is well-formed');

unlike($page, qr/Corresponds to 00\d/, 'what a paper is about comes before its code');
is(Report::Page::paper('000 fig. 6.8, table 6.1; 002 fig. 3.14'), 'thesis on message progress and overlap, fig. 6.8, table 6.1 (000); thesis on DCFA, fig. 3.14 (002)', 'several papers');
is(Report::Page::paper('no figure of a paper'), 'no figure of a paper', 'none');

# How long would have been enough: two rounds of 40 s in a set of which the figure has a tenth.
{
    my $short = {%{$data->{figures}[0]}, rounds => 2, longest => 40};
    my %of = (%$data, mode => 'default', total => 10 * $figure->{seconds});
    my @few = Report::Stats::summary($figure, [grep { $_->{round} < 3 } drifting(2)]);
    my $said = Report::Page::page(\%of, [$figure, $short, @few]);
    like($said, qr/too few rounds to tell: 2 of 3; enough would be: --only x --minutes 21</, 'at a glance: how long is enough');
    like($said, qr/<dd>Too few to tell: 2 of 3; enough would be: --only x --minutes 21\.</, 'and beside the figure');
    is(Report::Page::enough(\%of, $figure, {rounds => 3}), '', 'three are enough');
    like(Report::Page::enough({mode => 'quick', total => 900}, $figure, {rounds => 1, longest => 0.1}), qr/--minutes 15$/, 'after a quick run the usual one');
}

# ---- pages of text ----

{
    my $text = Report::Pages::page({%$data, started => '2026-01-02 03:04', environment => [['cpu', 'a|b'], ['memory', '1 GiB']]}, $figure, {rounds => 5}, $of_a, $of_b);
    like($text, qr/^# t\n/, 'its title');
    like($text, qr/^- Date: 2026-01-02 03:04$/m, 'its date');
    like($text, qr/^- Machine: a\|b; memory 1 GiB$/m, 'its machine');
    like($text, qr/^\| a \| 8 B? ?\|.*\| 2\.00 \(2\.00 to 2\.00\) \| b \|$/m, 'a value with its ratio');
    my $to = tempdir(CLEANUP => 1);
    Report::Data::write_text("$to/x.md", $text);
    like(Report::Pages::index_of($to), qr/^\| \[t\]\(x\.md\) \| 2026-01-02 03:04 \| a\\\|b \|$/m, 'the list has the page');
}
is_deeply([Report::Page::external($page)], [], 'and needs nothing from elsewhere');
like($page, qr/Not measured: no verbs/, 'a missing figure has its reason');
like($page, qr/a beside b \(us\): 1 of 1 cases worse \(most: 2\.00 times at 8 B\)/, 'what is worse is said');
like($page, qr/<dt>Repeated<\/dt><dd>a: it ended</, 'what was repeated is told');
like($page, qr/A &lt; B &amp; &quot;C&quot;/, 'text is text');
for (['<p>a</p', 'a < without >'], ['<p><b>x</p>', 'ends <b>'], ['<p>a & b</p>', 'no entity'], ['<p id="a"/><p id="a"/>', 'twice'], ['<p><br></p>', 'ends <br>'], ['<p a=b/>', 'not a tag']) {
    like(Report::Page::malformed($_->[0]) // 'fine', qr/\Q$_->[1]\E/, "not well-formed: $_->[0]");
}
is(scalar Report::Page::external($_), 1, "from elsewhere: $_") for '<img src="http://x/y.png"/>', '<script>1</script>', '<a href="file.html">', 'p { background: url(x.png) }', '@import "x"';
is(scalar Report::Page::external('<a href="#x">y</a> url(#z)'), 0, 'within the page is not elsewhere');

# ---- plots ----

my ($plot) = Report::Plot::of_figure({%$figure, draw => {logx => 1}}, @{$measured[0]}[2, 3]);
my $script = Report::Plot::script($plot, 400, 300);
like($script, qr/\$S0 << EOD\n8 2000 /, 'a plot has the medians');
like($script, qr/set xtics \("8 " 8\)|set xtics \("8" 8\)/, 'sizes are marked');
is_deeply(Report::Plot::places(1, 0, 4, 8), {0 => 2, 4 => 4, 8 => 8}, 'no bytes have a place on a logarithmic axis');
is(Report::Plot::quoted("a\"b\nc`d\\"), '"a b c d "', 'a name cannot leave its quotes');
is(Report::Plot::embedded('<?xml?><svg id="a"><use xlink:href="#b"/><g clip-path="url(#c)"/></svg>', 'p', 'x'),
    '<svg role="img" aria-label="x" id="p-a"><use xlink:href="#p-b"/><g clip-path="url(#p-c)"/></svg>', 'names of a plot are its own');
SKIP: {
    skip 'gnuplot is not installed', 6 if !Report::Plot::available();
    my $svg = Report::Plot::svg($plot, 'p', 'a plot');
    like($svg, qr/^<svg.*<\/svg>\s*$/s, 'gnuplot draws');
    is(Report::Page::malformed($svg), undef, 'well-formed');
    # What is drawn wider than a narrow page has its text made smaller there.
    for my $wide (0, 1) {
        my ($width) = Report::Plot::svg($plot, 'p', 'a plot', $wide) =~ /viewBox=["']0 0 (\d+)/;
        cmp_ok($width, '<=', 500, "a plot is at most 500 pixels wide: $width");
        my ($font) = Report::Plot::svg($plot, 'p', 'a plot', $wide) =~ /font-size=["']([\d.]+)/;
        cmp_ok($font, '>=', 12, "and its text not small: $font");
    }
}
done_testing;
