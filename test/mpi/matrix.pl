#!/usr/bin/env perl
# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# The cells of test/mpi/matrix (MPI_THREAD_MULTIPLE, every way to send beside every way to receive) over each transport: a sample,
# with each commit another, or with --full all. A failure is a cell that is not done within ten times what ob1 takes for it, and no
# less than some seconds. ob1 is asked only where that matters. Of what is not done at all what the program prints is shown (how far
# each thread is, stacks, counters); the rest goes on after it.
#
# usage: matrix.pl [--pml spec|ob1] [--programs DIR] [--full] [--only REGEX] [--seed N] [--cells N] [--first POSITION] [--compare]
#   --only REGEX       of the transports
#   --seed N           which sample (else the seed of test/Sample.pm)
#   --cells N          over each transport, instead of what is usual
#   --first POSITION   the first of them, instead of what follows from the seed
#   --compare          the same cells under ob1 too, and where spec takes longest beside it
use strict;
use warnings;
use Cwd 'abs_path';
use FindBin;
use Getopt::Long;
use List::Util qw(max min sum0);
use lib $FindBin::Bin, "$FindBin::Bin/..";
use OpenMPI;
use Sample;

my ($pml, $full, $programs, $only, $seed, $cells, $first, $compare) = ('spec', 0, $ENV{SPEC_TEST_PROGRAMS} // '.', '');
GetOptions('pml=s' => \$pml, 'full' => \$full, 'programs=s' => \$programs, 'only=s' => \$only, 'seed=i' => \$seed, 'cells=i' => \$cells,
    'first=i' => \$first, 'compare' => \$compare) or die;
$programs = abs_path($programs) // die "there is no such directory\n";
$seed //= Sample::seed();
my $total = 2880;  # cells: TOTAL of matrix.c
my $apart = 577;   # so that two transports have not the same sample
my $stride = 1009; # from one seed to the next: prime to the total, so that every eighth seed alone meets all cells too
my $times_ob1 = 10;

# Equal transports share the messages between them; else the better one has all.
sub equal { return map { "--mca btl_${_}_exclusivity 65536 --mca btl_${_}_latency 1 --mca btl_${_}_bandwidth 1000" } @_ }
# name, words, cells of the sample
my @transports = (
    ['vader', '--mca btl self,vader', 60],
    ['vader copying', '--mca btl self,vader --mca btl_vader_single_copy_mechanism none', 24],
    ['tcp', '--mca btl self,tcp', 50],
    ['ibx', '--mca btl self,ibx', 80],
    ['vader and tcp', join(' ', '--mca btl self,vader,tcp', equal('vader', 'tcp')), 40],
    ['tcp and ibx', join(' ', '--mca btl self,tcp,ibx', equal('tcp', 'ibx')), 30],
);
my $sanitizer = $ENV{SPEC_SANITIZER} // '';
# glibc gives an ending thread's stack back through Open MPI's hook, where ThreadSanitizer's runtime has lost the thread: it crashes.
$ENV{OMPI_MCA_memory} = '^patcher' if 'thread' eq $sanitizer;
my $slower = {address => 3, thread => 6}->{$sanitizer} // 1;
my $floor = 10 * $slower;          # seconds: below them nothing is slow
my $limit = 40 * $slower;          # when a cell counts as standing still
my $most_seconds = 120 * $slower;  # of a cell that takes ob1 long, too
my $messages = $slower > 1 ? 256 : 1024;
my $most_failures = $full ? 10 : 2;
my ($passed, $failed) = (0, 0);
my $runs = 0;

# Processes of a run that are left: they carry its mark on their command line.
sub end_processes {
    my ($mark) = @_;
    for my $dir (glob '/proc/[0-9]*') {
        open(my $in, '<', "$dir/cmdline") or next;
        local $/;
        my @word = split /\0/, <$in> // '';
        kill 'KILL', $dir =~ s{.*/}{}r if @word && $word[0] eq "$programs/matrix" && grep { $_ eq $mark } @word;
    }
}

# Runs cells from a position on. Returns { cells => [[position, seconds, name], ...], good, late, out }.
sub job {
    my ($by, $words, $from, $n, $seconds) = @_;
    my $mark = "matrix-$$-" . ++$runs;
    $seconds //= 'ob1' eq $by ? $most_seconds : $limit;
    # Reports of a sanitizer in files are found by test/mpi/run.
    my $mpirun = mpi_mpirun(2, "--mca pml $by $words", $sanitizer ? '--mca mpi_yield_when_idle 1' : ());
    my $program = "$programs/matrix --first $from --cells $n --messages $messages --limit $seconds --mark $mark";
    my $all = 60 + 2 * $seconds + $n * $floor / 2;
    my $out = `timeout -k 10 $all $mpirun $program 2>&1 </dev/null`;
    my $code = $?;
    end_processes($mark);
    my @done = map { /^cell (\d+) ([\d.]+) (.*)/ ? [$1, $2, $3] : () } split /\n/, $out;
    $out =~ s/^cell \d.*\n//mg;
    $out =~ s/^-{20,}\n(Primary job|mpirun detected).*?^-{20,}\n//msg;
    my ($skip) = $out =~ /^SKIP: (.*)/m;
    my $good = 0 == $code && $out =~ /^No errors$/m;
    return { cells => \@done, good => $good, late => scalar($out =~ /not done in time/), skip => $skip, out => $out };
}

sub told { print map { "         | $_\n" } grep { defined } (split /\n/, $_[0])[0 .. 250] }

# Is a cell that took so many seconds, or was not done (undef), as it should be beside ob1? Returns that and what ob1 took.
sub is_fair {
    my ($words, $position, $took) = @_;
    my $ob1 = job('ob1', $words, $position, 1);
    my $theirs = $ob1->{good} ? $ob1->{cells}[0][1] : $most_seconds;
    my $note = $ob1->{good} ? sprintf('ob1 takes %.2f s', $theirs) : 'ob1 does not end it either';
    my $fair = min($theirs * $times_ob1, $most_seconds);
    return ($took <= $fair, $note) if defined $took;
    return (0, $note) if $fair <= $limit;
    # It may have had too little time. What stands still now and then must not pass for slow.
    for (1 .. 2) {
        my $r = job($pml, $words, $position, 1, $fair);
        return (0, $note) if !$r->{good};
        $note .= sprintf(', spec took %.2f s', $r->{cells}[0][1]);
    }
    return (1, $note);
}

sub compare_with_ob1 {
    my ($words, @ours) = @_;
    my %theirs;
    for (my $i = 0; $i < @ours;) {
        my $r = job('ob1', $words, $ours[$i][0], @ours - $i);
        $theirs{$_->[0]} = $_->[1] for @{$r->{cells}};
        ++$i while $i < @ours && exists $theirs{$ours[$i][0]};
        ++$i if !$r->{good};
    }
    my @both = grep { $theirs{$_->[0]} } @ours;
    printf "note     cells of both: spec %.1f s, ob1 %.1f s\n", sum0(map { $_->[1] } @both), sum0(map { $theirs{$_->[0]} } @both);
    my @worst = sort { $b->[1] / $theirs{$b->[0]} <=> $a->[1] / $theirs{$a->[0]} } grep { $_->[1] > 0.02 } @both;
    printf "         %6.2f times: %.3f s, ob1 %.3f s: %d %s\n", $_->[1] / $theirs{$_->[0]}, $_->[1], $theirs{$_->[0]}, @$_[0, 2]
        for @worst[0 .. ($#worst > 9 ? 9 : $#worst)];
}

for my $k (0 .. $#transports) {
    my ($name, $words, $usual) = @{$transports[$k]};
    next if $name !~ /(?:$only)/; # an empty pattern would be the last one that matched
    # What is not instrumented shows nothing to a sanitizer that the others do not.
    next if $sanitizer && $name !~ /^(vader|ibx|tcp and ibx)$/;
    my $n = $cells // ($full ? $total : int(2 * $usual / (1 + $slower)));
    my $start = $first // ($seed * $stride + $k * $apart);
    my ($at, $failures, @done) = ($start, 0);
    while ($at < $start + $n && $failures < $most_failures) {
        my $r = job($pml, $words, $at, $start + $n - $at);
        if ($r->{skip}) {
            print "skipped  matrix: $name: $r->{skip}\n0 passed, 0 failed, 1 skipped\n";
            exit 0;
        }
        push @done, @{$r->{cells}};
        $at = $r->{cells}[-1][0] + 1 if @{$r->{cells}};
        for my $cell ('ob1' eq $pml ? () : grep { $_->[1] > $floor } @{$r->{cells}}) {
            my ($fair, $note) = is_fair($words, @$cell[0, 1]);
            my $what = "matrix: $name: cell @$cell[0, 2] took $cell->[1] s, $note\n";
            print $fair ? "note     $what" : "FAILED   $what";
            ++$failures if !$fair;
        }
        last if $r->{good};
        my ($fair, $note) = $r->{late} && 'ob1' ne $pml ? is_fair($words, $at) : (0, '');
        my ($which) = $r->{out} =~ /not done in time: (.*)/;
        $which //= $at < $start + $n ? "ended in cell $at" : 'wrong';
        printf "%s matrix: %s: %s%s\n", $fair ? 'note    ' : 'FAILED  ', $name, $which, $note ? " ($note)" : '';
        if (!$fair) {
            ++$failures;
            told($r->{out});
            print "         again: test/mpi/matrix.pl --pml $pml --programs $programs --only '^$name\$' --first $at --cells 1\n";
        }
        ++$at;
    }
    my $longest = max(0, map { $_->[1] } @done);
    printf "%s  matrix: %s: %d cells of %d from %d on (seed %d), %d failed, %.1f s, the longest %.2f s\n", $failures ? 'FAILED ' : 'ok     ',
        $name, $n, $total, $start, $seed, $failures, sum0(map { $_->[1] } @done), $longest;
    $failures ? ++$failed : ++$passed;
    compare_with_ob1($words, @done) if $compare;
}
print "$passed passed, $failed failed, 0 skipped\n";
exit($failed > 0);
