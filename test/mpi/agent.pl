#!/usr/bin/env perl
# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# MPI_Abort while the progress agents of all processes are at work: the job ends at once, with the code that was given, and no
# process dies of a signal of its own. And 'auto': of two processors one rank leaves one to its agent, two ranks leave none.
use strict;
use warnings;
use FindBin;
use Getopt::Long;
use lib $FindBin::Bin;
use OpenMPI;

my ($pml, $full, $programs) = ('spec', 0, $ENV{SPEC_TEST_PROGRAMS} // '.');
GetOptions('pml=s' => \$pml, 'full' => \$full, 'programs=s' => \$programs) or die;
my ($passed, $failed, $skipped) = (0, 0, 0);
for my $btl ('self,vader', 'self,tcp', 'self,ibx') {
    my $mpirun = mpi_mpirun(2, "--mca pml $pml --mca btl $btl --mca pml_spec_progress on");
    for my $round (1 .. ($full ? 30 : 4)) {
        my $out = `timeout -k 5 30 $mpirun $programs/agent --abort 1 2>&1 </dev/null`;
        my $code = $? >> 8;
        my $good = 3 == $code && $out !~ /Signal:|signal \d+ \(Seg|watchdog/;
        printf "%s agent: MPI_Abort over $btl, round $round\n", $good ? 'ok     ' : 'FAILED ';
        $good ? ++$passed : ++$failed;
        print "ended with $code\n$out" if !$good;
    }
}

# Of the processors that this script may use, two; bound as mpirun would, but without its knowledge of the machine.
my ($allowed) = `taskset -cp $$ 2>/dev/null` =~ /:\s*([\d,-]+)/;
my @processors = map { /(\d+)-(\d+)/ ? $1 .. $2 : $_ } split /,/, $allowed // '';
for my $case ([1, '--begins', 'begins beside one rank'], [2, '--off', 'does not beside two']) {
    my ($ranks, $option, $what) = @$case;
    if (@processors < 2) {
        print "skipped agent: auto $what: this needs taskset and two processors\n";
        ++$skipped;
        next;
    }
    my ($one, $other) = @processors;
    my $mpirun = mpi_mpirun($ranks, "--bind-to none --mca pml $pml --mca btl self,vader --mca pml_spec_progress auto");
    my $rank = "case \$OMPI_COMM_WORLD_RANK in 0) on=$one;; *) on=$other;; esac; exec taskset -c \$on $programs/agent $option 1";
    my $out = `timeout -k 5 60 taskset -c $one,$other $mpirun sh -c '$rank' 2>&1 </dev/null`;
    my $good = 0 == $?;
    printf "%s agent: auto $what on two processors\n", $good ? 'ok     ' : 'FAILED ';
    $good ? ++$passed : ++$failed;
    print $out if !$good;
}
print "$passed passed, $failed failed, $skipped skipped\n";
exit($failed > 0);
