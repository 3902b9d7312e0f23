# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# Measures one figure: rounds in which each side runs once, forwards and backwards in turn, until there are enough of them or
# the figure's time is over.
package Report::Measure;

use strict;
use warnings;
use BenchPairs;
use Report::Sides;
use Time::HiRes qw(time);

# The runs of a figure in a mode (quick, default or full): [{program, processes, arguments, only, tags, prepare}, ...].
sub runs {
    my ($figure, $mode) = @_;
    my @runs = @{$figure->{runs} // [{}]};
    return map {
        my $run = $_;
        my $words = $run->{$mode} // $figure->{$mode} // [];
        +{
            program => $run->{program} // $figure->{program}, processes => $run->{processes} // $figure->{processes} // 2,
            arguments => [@{$run->{arguments} // $figure->{arguments} // []}, @$words], only => $run->{only}, tags => $run->{tags} // {},
            prepare => $run->{prepare},
        }
    } grep { !$_->{modes} || grep { $_ eq $mode } @{$_->{modes}} } @runs;
}

# figure measured: {state, reason, left_out => [[side, reason]], failed => [[side, reason, foreign]], repeated => [[side,
# reason]], rounds, seconds, records}. A run that failed is repeated once, unless it found corrupted data; a side of which a
# run failed twice is given up. options: mode, scale (of the time allowed), sides (Report::Sides), tell => sub (round, rounds, side).
sub figure {
    my ($figure, %o) = @_;
    my %result = (id => $figure->{id}, state => 'measured', left_out => [], failed => [], repeated => [], rounds => 0, longest => 0, records => []);
    my $start = time;
    for my $need (@{$figure->{needs} // []}) {
        my $why = $o{sides}->missing($need);
        return {%result, state => 'absent', reason => $why, seconds => time - $start} if defined $why;
    }
    my @sides;
    for my $side (map { Report::Sides::normal($_) } @{$figure->{sides}}) {
        my $why = $o{sides}->why_not($side);
        if (defined $why) { push @{$result{left_out}}, [$side->{name}, $why] } else { push @sides, $side }
    }
    return {%result, state => 'absent', reason => $result{left_out}[0][1], seconds => time - $start} if !@sides;
    my $most = $o{mode} eq 'quick' ? 1 : $o{mode} eq 'full' ? 2 * ($figure->{rounds} // 7) : $figure->{rounds} // 7;
    my $allowed = $figure->{seconds} * $o{scale} * ($o{mode} eq 'full' ? 6 : 1);
    my $longest = 0;
    my @runs = runs($figure, $o{mode});
    # What is measured first, of the figure and then of each run, gives further arguments.
    eval {
        my @prepared = $figure->{prepare} ? $figure->{prepare}->($o{sides}, $o{mode}) : ();
        push @{$_->{arguments}}, @prepared, $_->{prepare} ? $_->{prepare}->($o{sides}, $o{mode}) : () for @runs;
    };
    return {%result, state => 'failed', reason => "$@", failed => [['before the first round', "$@", 0]], seconds => time - $start} if $@;
    for my $round (1 .. $most) {
        # A spread needs three rounds; those that follow must fit the time.
        last if $round > 3 && time - $start + $longest > $allowed;
        last if $round > 1 && time - $start + $longest > 2 * $allowed;
        my $begun = time;
        my (@made, @ns);
        for my $side ($round % 2 ? @sides : reverse @sides) {
            next if grep { $_->[0] eq $side->{name} } @{$result{failed}};
            $o{tell}->($round, $most, $side->{name});
            for my $run (@runs) {
                next if $run->{only} && !grep { $_ eq $side->{name} } @{$run->{only}};
                my $once = sub { return eval { [$o{sides}->run($side, $run, $figure->{hosts})] } };
                my $records = $once->();
                if (!$records && $@ !~ /corrupted/) {
                    push @{$result{repeated}}, [$side->{name}, "$@"];
                    $records = $once->();
                }
                if (!$records) {
                    push @{$result{failed}}, [$side->{name}, "$@", Report::Sides::is_foreign($side) ? 1 : 0];
                    last;
                }
                push @ns, @{$o{sides}{runner}{core_ns} // []};
                push @made, map { {%{$run->{tags}}, %{$side->{tags} // {}}, %$_, who => $side->{name}, round => $round} } @$records;
            }
        }
        my $mixed = BenchPairs::same_state(@ns) ? 0 : 1;
        push @{$result{records}}, map { {%$_, mixed => $mixed} } @made;
        ++$result{rounds};
        $longest = time - $begun if time - $begun > $longest;
        $result{longest} = $longest;
    }
    if (!@{$result{records}}) {
        @result{qw(state reason)} = ('failed', "no side could be measured: $result{failed}[0][1]");
    }
    $result{seconds} = time - $start;
    return \%result;
}

1;
