# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# What the drivers share: the options of all of them, running one benchmark program under mpirun, statistics, tables.
#
# Words: run = one mpirun of one program under one PML; record = one line 'NAME key=value ...' that it printed, as a hash
# with the name under 'bench'; a = the PML under test, b = the one it is compared with.
# Not here: what is measured (the C programs), pairs and bars (BenchPairs.pm), what the numbers mean (compare, papers,
# overlap-table).
package BenchRun;

use strict;
use warnings;
use Cwd qw(abs_path);
use File::Basename qw(dirname);
use File::Temp qw(tempfile);
use Getopt::Long qw(GetOptionsFromArray);
use POSIX qw(uname);
use Time::HiRes qw(time);

my $here;
BEGIN { $here = dirname(abs_path(__FILE__)) }
use lib "$here/../mpi";
use OpenMPI;

our $common_usage = <<'TEXT';
  --programs DIR       where the compiled programs are (default: beside this script, or _build/test/bench)
  --component-dir DIR  where pml/spec is installed (default: $SPEC_COMPONENT_DIR, or _install/components)
  --pml-a NAME         the PML under test (spec)
  --pml-b NAME         the PML it is compared with (ob1)
  --btl NAME           transport: vader (default), tcp, ... ('self' is added); NAME may be a list such as vader,tcp: both at
                       once. compare and papers take the option several times: one after the other
  --mca 'KEY VALUE'    a parameter for every run; may be given several times
  --mca-a, --mca-b     the same for the runs of one PML
  --mpirun PROGRAM     mpirun to use
  --mpirun-args WORDS  further words for mpirun, e.g. '--host a,b'
  --placement WORDS    how mpirun places the processes (default: as the environment says, if it has a policy for binding;
                       else one to a core, bound, if there are enough of them; else '--oversubscribe --bind-to none')
  --timeout SECONDS    for one run (300)
  --verbose            show every command
TEXT

# new(\@ARGV, \%options_of_the_driver): a runner, or the message what is wrong with the command line.
sub new {
    my ($class, $argv, $more) = @_;
    my $self = bless {
        pml_a => 'spec', pml_b => 'ob1', btls => [], mca => [], mca_a => [], mca_b => [], mpirun_args => '',
        mpirun => 'mpirun', timeout => 300, component_dir => $ENV{SPEC_COMPONENT_DIR},
    }, $class;
    Getopt::Long::Configure(qw(no_auto_abbrev no_ignore_case));
    my $said = '';
    local $SIG{__WARN__} = sub { $said .= $_[0] };
    my $fine = GetOptionsFromArray(
        $argv,
        'programs=s' => \$self->{programs}, 'component-dir=s' => \$self->{component_dir},
        'pml-a=s' => \$self->{pml_a}, 'pml-b=s' => \$self->{pml_b}, 'btl=s' => $self->{btls},
        'mca=s' => $self->{mca}, 'mca-a=s' => $self->{mca_a}, 'mca-b=s' => $self->{mca_b},
        'mpirun=s' => \$self->{mpirun}, 'mpirun-args=s' => \$self->{mpirun_args},
        'placement=s' => \$self->{placed}, 'timeout=i' => \$self->{timeout}, 'verbose' => \$self->{verbose},
        %$more);
    return $said if !$fine;
    return "'$argv->[0]' is not known\n" if @$argv;
    $self->{btl} = $self->{btls}[0] // 'vader';
    $self->{programs} //= -x "$here/overlap" ? $here : "$here/../../_build/test/bench";
    my $private = "$here/../../_install/components";
    if (!defined $self->{component_dir} && !defined $ENV{OMPI_MCA_mca_base_component_path} && -d $private) {
        $self->{component_dir} = abs_path($private);
    }
    mpi_use_components($self->{mpirun}, $self->{component_dir}) if defined $self->{component_dir};
    # What the tests of this machine may do is decided by who starts them.
    $ENV{OMPI_ALLOW_RUN_AS_ROOT} = $ENV{OMPI_ALLOW_RUN_AS_ROOT_CONFIRM} = 1 if $> == 0;
    return $self;
}

# How the two PMLs are called in tables.
sub labels {
    my ($self) = @_;
    my ($a, $b) = @$self{qw(pml_a pml_b)};
    return $a ne $b ? ($a, $b) : ("$a (A)", "$b (B)");
}

# What a program may expect of pml A in place of B where overlap was measured: the last words of a first try. receive, send: the
# shares that were hidden, {a, b}, of a receive that was posted first and of the send to it; undefined if not measured.
sub overlap_verdict {
    my ($name_a, $name_b, $receive, $send) = @_;
    return '' if !$receive || !$send;
    my $percent = sub { my ($v) = @_; return sprintf '%.0f %%', 100 * ($v < 0 ? 0 : $v > 1 ? 1 : $v) };
    my ($of_receive, $of_send) = map { my $s = $_; "$name_a hides " . $percent->($s->{a}) . ", $name_b " . $percent->($s->{b}) } $receive, $send;
    my $words = 'Your own program on this machine: ';
    if ($receive->{a} - $receive->{b} < 0.1) {
        $words .= "nothing to gain from overlap: of a receive that is posted first $of_receive.";
    } elsif ($send->{b} - $send->{a} < 0.1) {
        $words .= "receives that are posted before their message is sent cost less, whatever the other process does: $of_receive of them.";
    } else {
        $words .= "a receive that is posted before its message is sent costs less if its sender has nothing to compute then ($of_receive). "
            . "Where both ends compute there is nothing to gain: a processor moves the data here, and what the receiver gains the sender pays (of the send $of_send). "
            . 'An adapter that moves data by itself changes that.';
    }
    my ($text, $column) = ('', 0);
    for (split / /, $words) {
        if ($column + length > 98) { $text .= "\n"; $column = 0 }
        $text .= ($column ? ' ' : '') . $_;
        $column += 1 + length;
    }
    return "$text\n";
}

# The handler of INT and TERM only notes that somebody ends this run (Ctrl-C, kill). What follows is done between two
# commands: a process that is being started inherits a signal that no handler has taken yet, and would do it as well.
our $interrupted = 0;
our $on_interrupt = sub { exit 130 };
sub interrupt { $interrupted = 1 }
sub follow_interrupt { if ($interrupted) { $interrupted = 0; $on_interrupt->() } }

# Runs a command with a time limit: (status, standard output, standard error). status is 'timeout' or as in $?.
sub command {
    my ($seconds, @command) = @_;
    my ($log, $log_name) = tempfile('bench-XXXXXX', TMPDIR => 1, UNLINK => 1);
    my ($output, $late, $child) = ('', 0);
    # mpirun ends its processes when it is told to end; what has not ended 3 s later is killed.
    my $told;
    my $end = sub { if ($child) { kill $told++ ? 'KILL' : 'TERM', -$child; alarm 3 } };
    local $SIG{INT} = local $SIG{TERM} = sub { interrupt(); $end->() };
    local $SIG{ALRM} = sub { $late ||= !$interrupted; $end->() };
    alarm $seconds;
    $child = open(my $pipe, '-|') // die "cannot fork: $!\n";
    setpgrp($child, $child);
    if ($child == 0) {
        open(STDIN, '<', '/dev/null');
        open(STDERR, '>&', $log);
        exec {$command[0]} @command or do {
            print STDERR "cannot run $command[0]: $!\n";
            POSIX::_exit(127);
        };
    }
    $end->() if $interrupted && !$told;
    while (defined(my $line = <$pipe>)) {
        $output .= $line;
    }
    close $pipe;
    my $status = $?;
    alarm 0;
    follow_interrupt();
    seek($log, 0, 0);
    my $errors = join '', <$log>;
    close $log;
    unlink $log_name;
    return ($late ? 'timeout' : $status, $output, $errors);
}

# How processes are placed: one to a core if there are enough of them. In the laboratory, whose hosts all have the same cores, the
# environment says it.
sub placement {
    my ($self, $processes) = @_;
    return [split ' ', $self->{placed}] if defined $self->{placed};
    return [] if defined($ENV{OMPI_MCA_hwloc_base_binding_policy} // $ENV{PRTE_MCA_hwloc_default_binding_policy});
    return $self->{placement}{$processes} //= do {
        my @bound = (qw(--bind-to core), $self->{mpirun_args} =~ /--map-by/ ? () : qw(--map-by core)); # since 5.0 one at most
        my ($status) = command(60, $self->{mpirun}, '-np', $processes, split(' ', $self->{mpirun_args}), @bound,
            'true');
        $self->{unbound} = 1 if $status ne '0';
        $status eq '0' ? \@bound : [qw(--oversubscribe --bind-to none)];
    };
}

# One run under PML 'a' or 'b': its records. Dies with a text for the user when the run failed. core_ns keeps how near the
# processors were to each other at its start and end (bench_machine.h), as far as it is known. A transport 'any' is Open MPI's
# choice; {env_a}, {env_b}: variables of the environment for the runs of one PML; {wrapper}: words before the program's.
sub run {
    my ($self, $which, $processes, $program, @arguments) = @_;
    my $path = "$self->{programs}/$program";
    -x $path or die "there is no program $path: build it first, or give --programs DIR\n";
    my $btl = $self->{btl} =~ /self/ ? $self->{btl} : "self,$self->{btl}";
    my %more = %{$self->{"env_$which"} // {}};
    local @ENV{keys %more} = values %more;
    my @mca = map { my ($key, $value) = split ' ', $_, 2; ('--mca', $key, $value // '') }
        @{$self->{mca}}, @{$self->{"mca_$which"}};
    my @words = ('-np', $processes, split(' ', $self->{mpirun_args}), @{$self->placement($processes)},
        '--mca', 'pml', $self->{"pml_$which"}, 'any' eq $self->{btl} ? () : ('--mca', 'btl', $btl), @mca);
    return $self->execute($self->{mpirun}, mpi_words($self->{mpirun}, @words), @{$self->{wrapper} // []}, $path, @arguments);
}

# Runs a command that prints records: these, each with wall_ms, the time of the command. Dies and keeps core_ns as run does.
sub execute {
    my ($self, @command) = @_;
    print STDERR "@command\n" if $self->{verbose};
    my $start = time;
    my ($status, $output, $errors) = command($self->{timeout}, @command);
    my $wall_ms = 1e3 * (time - $start);
    my @all = parse($output);
    my @records = map { {%$_, wall_ms => $wall_ms} } grep { $_->{bench} ne 'machine' } @all;
    $self->{core_ns} = [grep { $_ > 0 } map { $_->{core_ns} } grep { $_->{bench} eq 'machine' } @all];
    my $wrong = $status eq 'timeout' ? "was not done after $self->{timeout} seconds"
        : $status & 127 ? 'was ended by signal ' . ($status & 127)
        : $status ? 'ended with status ' . ($status >> 8)
        : grep({ ($_->{errors} // 0) != 0 } @records) ? 'found corrupted data'
        : !@records ? 'printed no result' : undef;
    return @records if !defined $wrong;
    my @tail = split /\n/, $errors;
    splice @tail, 0, -30 if @tail > 30;
    die "this run $wrong:\n    @command\n", map { "    | $_\n" } @tail;
}

sub parse {
    my @records;
    for (split /\n/, $_[0]) {
        next if !/^(\w+)((?: +[\w-]+=\S*)+) *$/;
        push @records, {bench => $1, map { split /=/, $_, 2 } split ' ', $2};
    }
    return @records;
}

# The order of the runs: a b, b a, a b, ... so that a machine that becomes slower or faster favours neither.
sub pair_order { return $_[0] % 2 ? qw(b a) : qw(a b) }

sub quantile {
    my ($q, @values) = @_;
    @values = sort { $a <=> $b } @values;
    return 'nan' if !@values;
    my $place = $q * $#values;
    my $below = int $place;
    return $values[-1] if $below >= $#values;
    return $values[$below] + ($place - $below) * ($values[$below + 1] - $values[$below]);
}

sub median { return quantile(0.5, @_) }

# (key, value) pairs that say where the numbers come from.
sub environment {
    my ($self) = @_;
    my @uname = uname();
    my $cpu = 'unknown';
    my $cpus = 0;
    if (open my $info, '<', '/proc/cpuinfo') {
        while (<$info>) {
            $cpu = $1 if /^model name\s*:\s*(.*\S)/;
            ++$cpus if /^processor\s*:/;
        }
    }
    my ($status, $version) = command(60, $self->{mpirun}, '--version');
    $version = $status eq '0' && $version =~ /\(Open MPI\) *(\S+)/ ? $1 : 'unknown';
    my $load = 'unknown';
    if (open my $info, '<', '/proc/loadavg') {
        ($load) = split ' ', <$info>;
    }
    return (
        kernel => "$uname[0] $uname[2] $uname[4]", cpu => "$cpu, $cpus processors", 'Open MPI' => $version,
        'load at the start' => $load, transport => join(' and ', mpi_words($self->{mpirun}, @{$self->{btls}} ? @{$self->{btls}} : $self->{btl})),
    );
}

sub print_environment {
    my ($self, @environment) = @_;
    while (my ($key, $value) = splice @environment, 0, 2) {
        printf "  %-18s %s\n", "$key:", $value;
    }
    print "  note: not enough free cores; the processes were not bound, expect noise\n" if $self->{unbound};
}

# print_table(\@head, \@rows): the first column to the left, numbers to the right; a row that is no list is a rule.
sub print_table {
    my ($head, @rows) = @_;
    my @width = map { length } @$head;
    for my $row (grep { ref } @rows) {
        for (0 .. $#$row) {
            $width[$_] = length $row->[$_] if length $row->[$_] > $width[$_];
        }
    }
    my @right = map {
        my $column = $_;
        !grep { ref && $_->[$column] !~ /^[-\d.]*( *% *\??| [KM]?i?B)?$/ && $_->[$column] !~ /^(nan|absent)$/ } @rows
    } 0 .. $#$head;
    my $line = sub {
        my $text = join '  ', map { sprintf $right[$_] ? '%*s' : '%-*s', $width[$_], $_[0][$_] } 0 .. $#$head;
        $text =~ s/ +$//;
        print "  $text\n";
    };
    my $rule = '  ' . join('  ', map { '-' x $_ } @width) . "\n";
    $line->($head);
    print $rule;
    ref $_ ? $line->($_) : print $rule for @rows;
}

sub size_text {
    my ($size) = @_;
    return $size >= 1 << 20 && $size % (1 << 20) == 0 ? ($size >> 20) . ' MiB'
        : $size >= 1 << 10 && $size % (1 << 10) == 0 ? ($size >> 10) . ' KiB'
        : "$size B";
}

1;
