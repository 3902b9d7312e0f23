# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# The arithmetic of the laboratory report: from the records of a figure to its points, their spread, what is better than
# what, whether two runs of the report differ, and the memory model. Pure: no file, no clock, no program.
#
# Words: record = what one line of a program said, with 'round', 'who' (the side) and 'mixed'; value = one of the figure's values
# (test/bench/REPORT.md); point = all that was measured of one series at one x in one panel; base = the series that a series is
# compared with; ratio = value / base's value in the same round.
package Report::Stats;

use strict;
use warnings;
use BenchRun;
use BenchPairs;

# A difference smaller than this is not called one, however small the spread.
use constant LEAST => 0.02;
# Fewer rounds than this say nothing about the spread.
use constant FEWEST => 3;
# compare: bootstrap samples, and the share of them that the interval holds.
use constant {SAMPLES => 1000, INTERVAL => 0.99};

our $verdict_rule = sprintf 'A value is called better or worse than its baseline if both quartiles of the ratio, taken round by '
    . 'round, lie on the same side of 1 and the median differs from 1 by at least %.0f %%; at least %d rounds are needed.',
    100 * LEAST, FEWEST;
our $compare_rule = sprintf 'Two runs differ in a value if (1) their interquartile ranges do not overlap, (2) the %.0f %% '
    . 'bootstrap interval of the ratio of their medians leaves out 1, (3) that ratio is at least %.0f %% away from 1, and (4) each '
    . 'has at least %d rounds. Compared is the ratio to the baseline where there is one, because what slows down the whole '
    . 'machine cancels in it; else the value itself.', 100 * INTERVAL, 100 * LEAST, FEWEST;

sub is_number { return BenchPairs::is_number($_[0]) }

# ---- from records to points ----

sub labelled {
    my ($figure, $record, $keys) = @_;
    my $name = $figure->{names} // {};
    return join ', ', map {
        my $text = "$record->{$_}";
        $name->{"$_=$text"} // ($_ eq 'size' && is_number($text) ? BenchRun::size_text($text) : $name->{$_} ? "$name->{$_} $text" : $text)
    } grep { defined $record->{$_} && $record->{$_} ne '' } @{$keys // []};
}

# Points of a figure, in the order in which they were first seen: {panel, series, x, side, key, unit, better, base, all}; all:
# [{round, value, noisy, mixed}, ...].
sub points {
    my ($figure, $records) = @_;
    my (@order, %of);
    my %beside = %{$figure->{beside} // {}};
    for my $record (map { $figure->{reduce} ? $figure->{reduce}->({%$_}) : $_ } @$records) {
        for my $value (@{$figure->{values}}) {
            my $v = $record->{$value->{key}};
            next if !is_number($v) || ($value->{of} && $record->{bench} ne $value->{of});
            next if $value->{who} && $record->{who} ne $value->{who};
            my $lines = labelled($figure, $record, $figure->{lines});
            my $tail = join ', ', grep { $_ ne '' } $value->{name} // '', $lines;
            my $name = sub { my ($side, $tail) = @_; join ', ', grep { $_ ne '' } $figure->{one_side} || $value->{who} ? '' : $side, $tail };
            my $base;
            if (!$value->{better}) {
                # Nothing to be better or worse than.
            } elsif ($value->{beside}) {
                $base = $name->($record->{who}, join ', ', grep { $_ ne '' } $value->{beside}, $lines);
            } elsif (my $other = $beside{$record->{who}} // $figure->{baseline}) {
                $base = $name->($other, $tail) if $other ne $record->{who};
            }
            my %point = (
                panel => join(', ', grep { $_ ne '' } $value->{panel} // '', labelled($figure, $record, $figure->{panel})),
                series => $name->($record->{who}, $tail), x => $record->{$figure->{x}} // '', side => $record->{who},
                key => $value->{key}, unit => $value->{unit} // '', better => $value->{better} // '', base => $base,
                digits => $value->{digits} // 2, main => $value->{minor} ? 0 : 1,
            );
            my $id = "$point{panel}|$point{series}|$point{x}|$point{key}";
            if (!$of{$id}) {
                $of{$id} = {%point, id => $id, all => []};
                push @order, $of{$id};
            }
            push @{$of{$id}{all}}, {round => $record->{round}, value => $v + 0, noisy => ($record->{noisy} // 0) + 0, mixed => $record->{mixed} // 0};
        }
    }
    return @order;
}

# The measurements that count, by the rule of BenchPairs, and remarks.
sub chosen {
    my (@pairs) = @_;
    my ($used, @remarks) = BenchPairs::choose(\@pairs, scalar @pairs);
    return ($used, grep { defined } @remarks);
}

sub pairs_of {
    my ($mine, $base) = @_;
    my %base = map { $_->{round} => $_ } @$base;
    return map { {a => $_, b => $base{$_->{round}}, same => !($_->{mixed} || $base{$_->{round}}{mixed})} } grep { $base{$_->{round}} } @$mine;
}

# better, worse or same of a ratio's median and quartiles; few: not enough to tell.
sub verdict {
    my ($better, $n, $median, $q1, $q3) = @_;
    return '' if $better eq '';
    return 'few' if $n < FEWEST;
    return 'same' if abs($median - 1) < LEAST || ($q1 <= 1 && $q3 >= 1);
    return ($median < 1) == ($better eq 'less') ? 'better' : 'worse';
}

# points with n, median, q1, q3, noisy, mixed and, where there is a base, ratio => {n, median, q1, q3, all} and verdict.
sub summary {
    my ($figure, $records) = @_;
    my @points = points($figure, $records);
    my %at = map { ("$_->{panel}|$_->{series}|$_->{x}" => $_) } @points;
    for my $p (@points) {
        my ($used, @remarks) = chosen(map { {a => $_, b => $_, same => !$_->{mixed}} } @{$p->{all}});
        my @values = map { $_->{a}{value} } @$used;
        @$p{qw(n median q1 q3)} = (scalar @values, map { BenchRun::quantile($_, @values) } 0.5, 0.25, 0.75);
        $p->{remarks} = \@remarks;
        my $base = defined $p->{base} ? $at{"$p->{panel}|$p->{base}|$p->{x}"} : undef;
        next if !$base;
        my ($pairs) = chosen(pairs_of($p->{all}, $base->{all}));
        my @ratios = map { $_->{a}{value} / $_->{b}{value} } grep { $_->{b}{value} > 0 } @$pairs;
        next if !@ratios;
        my %ratio = (n => scalar @ratios, all => \@ratios);
        @ratio{qw(median q1 q3)} = map { BenchRun::quantile($_, @ratios) } 0.5, 0.25, 0.75;
        $p->{ratio} = \%ratio;
        $p->{verdict} = verdict($p->{better}, @ratio{qw(n median q1 q3)});
    }
    return @points;
}

# For a figure's 'found': a sentence for each panel, the median over all x of a value of each series.
sub middles {
    my ($key, $format, @points) = @_;
    my (@panels, %in);
    for my $p (grep { $_->{key} eq $key } @points) {
        push @panels, $p->{panel} if !$in{$p->{panel}};
        my ($known) = grep { $_->{series} eq $p->{series} } @{$in{$p->{panel}}};
        push @{$in{$p->{panel}}}, $known = {series => $p->{series}, all => []} if !$known;
        push @{$known->{all}}, $p->{median};
    }
    return map {
        my $panel = $_;
        ($panel ne '' ? ucfirst("$panel: ") : '') . join(', ', map { "$_->{series} " . sprintf $format, BenchRun::median(@{$_->{all}}) } @{$in{$panel}}) . '.'
    } @panels;
}

# ---- two runs ----

# A random number generator of its own, so that the same data give the same answer.
sub generator {
    my $state = $_[0] || 1;
    return sub {
        $state = ($state * 1103515245 + 12345) % 2147483648;
        return int($state / 65536) % $_[0];
    };
}

# (lower, upper) end of the bootstrap interval of median(b) / median(a).
sub bootstrap {
    my ($a, $b, $seed) = @_;
    my $random = generator($seed // 1);
    my @ratios;
    for (1 .. SAMPLES) {
        my ($x, $y) = map { my $v = $_; BenchRun::median(map { $v->[$random->(scalar @$v)] } @$v) } $a, $b;
        push @ratios, $y / $x if $x > 0;
    }
    my $tail = (1 - INTERVAL) / 2;
    return map { BenchRun::quantile($_, @ratios) } $tail, 1 - $tail;
}

# What is to be said of two lists of values: {n => [a, b], a, b, ratio, low, high, verdict: few, same or differs}.
sub differs {
    my ($a, $b) = @_;
    my %said = (n => [scalar @$a, scalar @$b], a => BenchRun::median(@$a), b => BenchRun::median(@$b), verdict => 'few');
    return \%said if @$a < FEWEST || @$b < FEWEST || $said{a} <= 0;
    $said{ratio} = $said{b} / $said{a};
    @said{qw(low high)} = bootstrap($a, $b);
    my ($a1, $a3) = map { BenchRun::quantile($_, @$a) } 0.25, 0.75;
    my ($b1, $b3) = map { BenchRun::quantile($_, @$b) } 0.25, 0.75;
    my $apart = $a3 < $b1 || $b3 < $a1;
    my $outside = $said{low} > 1 || $said{high} < 1;
    $said{verdict} = $apart && $outside && abs($said{ratio} - 1) >= LEAST ? 'differs' : 'same';
    return \%said;
}

# Compares two summaries: rows {id, panel, series, x, what, unit, better, differs' answer, change: better, worse or ''}.
sub compare {
    my ($a, $b) = @_;
    my %of = map { $_->{id} => $_ } @$b;
    my @rows;
    for my $p (grep { $of{$_->{id}} } @$a) {
        my $q = $of{$p->{id}};
        my $by_ratio = $p->{ratio} && $q->{ratio};
        my ($x, $y) = $by_ratio ? map { $_->{ratio}{all} } $p, $q : map { [map { $_->{value} } @{$_->{all}}] } $p, $q;
        my $said = differs($x, $y);
        my $change = $said->{verdict} ne 'differs' || $p->{better} eq '' ? ''
            : ($said->{ratio} < 1) == ($p->{better} eq 'less') ? 'better' : 'worse';
        push @rows, {
            (map { $_ => $p->{$_} } qw(id panel series x unit better key)), what => $by_ratio ? "ratio to $p->{base}" : $p->{unit},
            %$said, change => $change,
        };
    }
    return @rows;
}

# ---- the memory model ----

# Least squares of y = a + b x over [[x, y], ...]: {a, b, r2}; nothing from fewer than two different x.
sub fit_line {
    my (@xy) = @_;
    my $n = @xy;
    my ($sx, $sy, $sxx, $sxy, $syy) = (0) x 5;
    for (@xy) {
        my ($x, $y) = @$_;
        $sx += $x; $sy += $y; $sxx += $x * $x; $sxy += $x * $y; $syy += $y * $y;
    }
    my $spread = $n * $sxx - $sx * $sx;
    return if $n < 2 || $spread <= 1e-9 * $n * $sxx;
    my $b = ($n * $sxy - $sx * $sy) / $spread;
    my $a = ($sy - $b * $sx) / $n;
    my $total = $syy - $sy * $sy / $n;
    my $left = 0;
    $left += ($_->[1] - $a - $b * $_->[0])**2 for @xy;
    return {a => $a, b => $b, r2 => $total > 0 ? 1 - $left / $total : 1};
}

# Per process: 002, section 3.4.3.2, with its numbers: CQ 4, send buffer 16 and user buffer 1024 KiB, and for each of p
# connections 512 of RDMA buffer and 12 of queue pair. KiB.
sub dcfa_kib { return 4 + 16 + 1024 + $_[0] * (512 + 12) }

# 004, tables 4 and 5: speed-up of a program that spends a share of its time in an operation, when that takes new instead of old.
sub speedup { my ($share, $old, $new) = @_; return 1 / (1 - $share * (1 - $new / $old)) }

1;
