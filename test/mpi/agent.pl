#!/usr/bin/env perl
# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# MPI_Abort while the progress agents of all processes are at work: the job ends at once, with the code that was given, and no
# process dies of a signal of its own.
use strict;
use warnings;
use FindBin;
use Getopt::Long;
use lib $FindBin::Bin;
use OpenMPI;

my ($pml, $full, $programs) = ('spec', 0, $ENV{SPEC_TEST_PROGRAMS} // '.');
GetOptions('pml=s' => \$pml, 'full' => \$full, 'programs=s' => \$programs) or die;
my ($passed, $failed) = (0, 0);
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
print "$passed passed, $failed failed, 0 skipped\n";
exit($failed > 0);
