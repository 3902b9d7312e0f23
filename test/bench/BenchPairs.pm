# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# Two PMLs beside each other, in alternating pairs of runs: measuring, ratios with their spread, bars, tables, files.
#
# Words: experiment = a hash that says what is run and shown (below); variant = a way to run a, e.g. with adaptation;
# case = what one line of output is about, told apart by the experiment's case keys; pair = a and b in fresh runs right
# after each other; state = how near the two processors are to each other (core_ns), which the host of a virtual machine
# changes as it likes.
#
# experiment: name, title, program, arguments (list), pairs; processes (2); case => [keys]; value => key whose ratio a / b is
# taken; digits; variants => [{name, mca => ['KEY VALUE', ...]}]; columns => [{head, key, of => 'a' | 'b' | 'ratio', digits}];
# bars => sub { (record of a, variant) -> list of {at_most | at_least, name, of | key} }; a bar is for the ratio of the
# value, or of the key 'of', or for a's own value of 'key'. again => sub { (cases) -> arguments of a run of these }: a case whose bar lies
# between the quartiles is measured further, whether it holds or is missed.
package BenchPairs;

use strict;
use warnings;
use BenchRun;
use JSON::PP;

# Times of a cache line that differ by more belong to different states; a pair without equal state is repeated.
use constant SAME_STATE => 1.5;
# Pairs that are made at most, as a multiple of those asked for.
use constant PATIENCE => 2;
# Fewer equal pairs than this say nothing.
use constant FEWEST => 3;
# So many times as many pairs again where the bar lies between the quartiles.
use constant AGAIN => 2;

our $usage = <<'TEXT';
How it is measured:
  A pair is one run of each PML in fresh mpirun launches right after each other; which comes first alternates. A ratio is
  always a / b of one pair, so that what changes slowly on the machine cancels; shown are its median over the pairs and
  its quartiles. '?' beside a verdict: the quartiles lie on both sides of the bar. Of parity's rows those are measured further,
  whether they hold or not, up to three times as often, and all pairs of a row count.
  Within a run every value is the median of many short repetitions; those in which a process lost its processor to another
  program are left out ('noisy': hardly any others, so all are in; such pairs count only if there are no others).
  Virtual processors may be near to each other in one run and far apart in the next. Each run measures at its start and
  end how long a cache line takes from the one to the other; a pair in which these times differ by more than half is set
  aside and another is made, up to twice the number asked for ('mixed': fewer than three equal pairs, so all are in).
  Processes are bound one to a core, the same in all runs, if there are enough cores.
TEXT

# new($runner, $file): $file gets everything: JSON lines, or CSV if its name ends so. undef: no file.
sub new {
    my ($class, $runner, $file) = @_;
    return bless {
        runner => $runner, file => $file, lines => [], bars => 0, missed => [],
        environment => [$runner->environment],
    }, $class;
}

sub fixed {
    my ($digits, $value) = @_;
    return 'absent' if !defined $value || $value eq 'absent';
    return $value =~ /nan/i ? 'nan' : sprintf "%.${digits}f", $value;
}

sub is_number { return defined $_[0] && $_[0] =~ /^-?[\d.]+(e[-+]?\d+)?$/i }

sub same_state {
    my @ns = @_;
    return 1 if !@ns;
    my ($least, $most) = (sort { $a <=> $b } @ns)[0, -1];
    return $most <= SAME_STATE * $least;
}

# Runs an experiment; gives the order of its cases and {case}{variant} => [{a, b, same}, ...].
sub measure {
    my ($self, $e, $pairs) = @_;
    my $runner = $self->{runner};
    my (@order, %of);
    my %made = map { $_->{name} => 0 } @{$e->{variants}};
    my %same = %made;
    # Variants take turns, too.
    for (my $pair = 0;; ++$pair) {
        my @open = grep { $same{$_->{name}} < $pairs && $made{$_->{name}} < PATIENCE * $pairs } @{$e->{variants}};
        last if !@open;
        for my $variant (@open) {
            my (%records, @ns, @core);
            for my $which (BenchRun::pair_order($pair)) {
                local $runner->{"mca_$which"} =
                    [@{$runner->{"mca_$which"}}, $which eq 'a' ? @{$variant->{mca} // []} : ()];
                my @all = $runner->run($which, $e->{processes} // 2, $e->{program}, @{$e->{arguments}});
                push @ns, @{$runner->{core_ns}};
                push @core, [$which, @{$runner->{core_ns}}];
                for my $record (@all) {
                    my $case = join ' ', map { $record->{$_} } @{$e->{case}};
                    push @order, $case if !$of{$case};
                    $of{$case} //= {};
                    $records{$case}{$which} = $record;
                    $self->keep($e, kind => 'run', variant => $variant->{name}, pair => $pair,
                        pml => $runner->{"pml_$which"}, side => $which, %$record);
                }
            }
            my $same = same_state(@ns);
            ++$made{$variant->{name}};
            $same{$variant->{name}} += $same;
            $self->keep($e, kind => 'pair', variant => $variant->{name}, pair => $pair, first => $core[0][0],
                same_state => $same ? 1 : 0, core_ns => join(' ', @ns));
            for my $case (keys %records) {
                push @{$of{$case}{$variant->{name}}}, {%{$records{$case}}, same => $same}
                    if $records{$case}{a} && $records{$case}{b};
            }
        }
    }
    return (\@order, \%of);
}

# The pairs that count, and a remark if they are not good ones.
sub choose {
    my ($pairs, $wanted) = @_;
    my $enough = $wanted < FEWEST ? $wanted : FEWEST;
    my @remarks;
    my @used = grep { $_->{same} } @$pairs;
    if (@used < $enough) {
        @used = @$pairs;
        push @remarks, 'mixed' if grep { !$_->{same} } @used;
    }
    my @clean = grep { !$_->{a}{noisy} && !$_->{b}{noisy} } @used;
    push @remarks, 'noisy' if @clean < $enough && @clean < @used;
    @used = @clean if @clean >= $enough;
    return (\@used, @remarks);
}

# (median, first and third quartile) of a / b of a key.
sub ratios {
    my ($key, @pairs) = @_;
    my @all = map { $_->{a}{$key} / $_->{b}{$key} }
        grep { is_number($_->{a}{$key}) && is_number($_->{b}{$key}) && $_->{b}{$key} > 0 } @pairs;
    return map { BenchRun::quantile($_, @all) } 0.5, 0.25, 0.75;
}

# The same of a key of one side.
sub values_of {
    my ($which, $key, @pairs) = @_;
    my @all = map { $_->{$which}{$key} } @pairs;
    return ('absent') x 3 if grep { !defined || $_ eq 'absent' } @all;
    return map { BenchRun::quantile($_, grep { is_number($_) } @all) } 0.5, 0.25, 0.75;
}

# What a bar is for, and the bar: (median, first and third quartile, limit).
sub beside_bar {
    my ($e, $bar, @pairs) = @_;
    return (
        $bar->{key} ? values_of('a', $bar->{key}, @pairs) : ratios($bar->{of} // $e->{value}, @pairs),
        $bar->{at_most} // $bar->{at_least});
}

sub is_unsure {
    my ($middle, $q1, $q3, $limit) = @_;
    return is_number($middle) && $q1 < $limit && $limit < $q3;
}

# More pairs of those cases that are not decided by the first ones.
sub decide {
    my ($self, $e, $pairs, $of) = @_;
    return if !$e->{again};
    for (1 .. AGAIN) {
        my @open = sort grep {
            my $variants = $of->{$_};
            grep {
                my $name = $_;
                my ($used) = choose($variants->{$name}, $pairs);
                grep { is_unsure(beside_bar($e, $_, @$used)) } $e->{bars}->($used->[0]{a}, $name)
            } keys %$variants
        } keys %$of;
        return if !@open;
        my (undef, $more) = $self->measure({%$e, arguments => [$e->{again}->(@open)]}, $pairs);
        for my $case (grep { $more->{$_} } @open) {
            push @{$of->{$case}{$_}}, @{$more->{$case}{$_}} for keys %{$more->{$case}};
        }
    }
}

sub verdict {
    my ($self, $e, $bar, $what, @pairs) = @_;
    my ($middle, $q1, $q3, $limit) = beside_bar($e, $bar, @pairs);
    my $name = ($bar->{name} // '') ne '' ? "$bar->{name} " : '';
    return "$name-" if !is_number($middle);
    ++$self->{bars};
    my $holds = defined $bar->{at_most} ? $middle <= $limit : $middle >= $limit;
    my $unsure = is_unsure($middle, $q1, $q3, $limit) ? '?' : '';
    push @{$self->{missed}}, "$what: $name" . fixed(4, $middle) . " ($limit)" if !$holds;
    return $name . ($holds ? 'holds' : 'missed') . $unsure;
}

# Cases that differ in their last word only belong together.
sub group_of { return $_[0] =~ s/ ?\S+$//r }

sub grouped {
    my (@order) = @_;
    my (%first, $next);
    $first{group_of($_)} //= $next++ for @order;
    # Perl's sort keeps the order within a group.
    return sort { $first{group_of($a)} <=> $first{group_of($b)} } @order;
}

# Measures and prints one experiment over the current transport.
sub show {
    my ($self, $e, $pairs) = @_;
    my $runner = $self->{runner};
    my ($of_a, $of_b) = $runner->labels;
    $pairs //= $e->{pairs};
    my ($order, $of) = $self->measure($e, $pairs);
    $self->decide($e, $pairs, $of);
    my $many = @{$e->{variants}} > 1 || $e->{variants}[0]{name} ne '';
    my (@rows, $section, %remarked);
    for my $case (grouped(@$order)) {
        my @words = split ' ', $case;
        my $group = group_of($case);
        push @rows, '-' if defined $section && $section ne $group;
        $section = $group;
        my @shown = map { $e->{case}[$_] eq 'size' ? BenchRun::size_text($words[$_]) : $words[$_] } 0 .. $#words;
        for my $variant (grep { $of->{$case}{$_->{name}} } @{$e->{variants}}) {
            my ($used, @remarks) = choose($of->{$case}{$variant->{name}}, $pairs);
            my @ratio = ratios($e->{value}, @$used);
            my @medians = map { (values_of($_, $e->{value}, @$used))[0] } qw(b a);
            my @columns = map {
                my $middle = $_->{of} eq 'ratio' ? (ratios($_->{key}, @$used))[0]
                    : (values_of($_->{of}, $_->{key}, @$used))[0];
                fixed($_->{digits} // 2, $middle)
            } @{$e->{columns} // []};
            my @bars = $e->{bars} ? $e->{bars}->($used->[0]{a}, $variant->{name}) : ();
            my $what = join ' ', $e->{name}, $runner->{btl}, $case, $many ? $variant->{name} : ();
            my @verdicts = map { $self->verdict($e, $_, $what, @$used) } @bars;
            $remarked{$_} = 1 for @remarks;
            push @rows, [
                @shown, $many ? $variant->{name} : (), (map { fixed($e->{digits}, $_) } @medians), @columns,
                (map { fixed(3, $_) } @ratio), scalar @$used, join ', ', @verdicts, @remarks,
            ];
            $self->keep($e, kind => 'result', variant => $variant->{name}, pairs => scalar @$used,
                (map { $_ => $used->[0]{a}{$_} } @{$e->{case}}), value => $e->{value}, a => $medians[1], b => $medians[0],
                ratio => $ratio[0], q1 => $ratio[1], q3 => $ratio[2], verdict => join('; ', @verdicts, @remarks));
        }
    }
    print "\n$e->{title}, over $runner->{btl}\n";
    print "$e->{note}\n" if $e->{note};
    BenchRun::print_table(
        [
            @{$e->{case}}, $many ? 'variant' : (), $of_b, $of_a, (map { $_->{head} } @{$e->{columns} // []}),
            'ratio', 'q1', 'q3', 'pairs', 'remark',
        ],
        @rows);
    print "  noisy: other programs had the processors most of the time; the value means little\n" if $remarked{noisy};
    print "  mixed: the processors were not equally near to each other within the pairs; the value means little\n"
        if $remarked{mixed};
}

# Keeps one line for the file.
sub keep {
    my ($self, $e, %values) = @_;
    push @{$self->{lines}}, {experiment => $e->{name}, transport => $self->{runner}{btl}, %values} if defined $self->{file};
}

# Writes what there is; also called when a run failed.
sub write_file {
    my ($self) = @_;
    return if !defined $self->{file};
    my %environment = @{$self->{environment}};
    open my $file, '>', $self->{file} or die "cannot write $self->{file}: $!\n";
    if ($self->{file} =~ /\.csv$/) {
        # One line for each value: experiments have different ones.
        my @head = qw(experiment transport kind variant pair side pml);
        print $file map { "# $_: $environment{$_}\n" } sort keys %environment;
        print $file join(',', qw(line), @head, qw(key value)), "\n";
        my $number = 0;
        for my $line (@{$self->{lines}}) {
            my %rest = %$line;
            my @first = map { $_ // '' } delete @rest{@head};
            my $at = $number++;
            print $file join(',', $at, @first, $_, $rest{$_} =~ s/[,\n]/;/gr), "\n" for sort keys %rest;
        }
    } else {
        my $json = JSON::PP->new->canonical;
        print $file $json->encode({kind => 'environment', %environment}), "\n";
        for my $line (@{$self->{lines}}) {
            my %typed = map { $_ => is_number($line->{$_}) ? $line->{$_} + 0 : $line->{$_} } keys %$line;
            print $file $json->encode(\%typed), "\n";
        }
    }
    close $file or die "cannot write $self->{file}: $!\n";
}

# The header of a report, and its end.
sub print_head {
    my ($self, @processes) = @_;
    my ($of_a, $of_b) = $self->{runner}->labels;
    $self->{runner}->placement($_) for @processes;
    print "$of_a beside $of_b; every ratio is $of_a / $of_b of one pair: median and quartiles\n\n";
    $self->{runner}->print_environment(@{$self->{environment}});
}

sub print_end {
    my ($self) = @_;
    return if !$self->{bars};
    my @missed = @{$self->{missed}};
    print "\n", @missed ? scalar(@missed) . " of $self->{bars} bars missed (value, bar):\n" : "all $self->{bars} bars hold\n";
    print map { "  $_\n" } @missed;
}

# Each experiment over each transport, and the end; the exit code.
sub run_all {
    my ($self, @what) = @_;
    my $status = $self->run_each(@what);
    $self->finish;
    return $status;
}

sub finish {
    my ($self) = @_;
    $self->write_file;
    $self->print_end;
}

sub run_each {
    my ($self, $name, $pairs, @experiments) = @_;
    $| = 1;
    my $status = 0;
    for my $btl (@{$self->{runner}{btls}}) {
        $self->{runner}{btl} = $btl;
        for my $e (@experiments) {
            next if eval { my $made = ref $e eq 'CODE' ? $e->() : $e; $self->show($made, $pairs); 1 };
            print STDERR "$name: $@";
            $status = 1;
        }
    }
    return $status;
}

1;
