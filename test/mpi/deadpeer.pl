#!/usr/bin/env perl
# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# A process of a job dies while the others wait for a large message of it: mpirun must end with an
# error within a minute, by each of three ways to die and over three transports, and by falling silent, which btl/ibx
# notices after btl_ibx_iwarp_silent_timeout, also where it is waited for only then. Where errors are returned, requests with
# a silent process end in errors and the others go on; so they do with one that was killed, which btl/ibx notices after
# btl_ibx_iwarp_peer_timeout by itself, whatever mpirun does.
use strict;
use warnings;
use FindBin;
use Getopt::Long;
use lib $FindBin::Bin;
use OpenMPI;
use Time::HiRes 'time';

my ($pml, $full, $programs) = ('spec', 0, $ENV{SPEC_TEST_PROGRAMS} // '.');
GetOptions('pml=s' => \$pml, 'full' => \$full, 'programs=s' => \$programs) or die;
my ($passed, $failed, $skipped) = (0, 0, 0);
my $timeout = '--mca btl_ibx_iwarp_peer_timeout 2000';
my $soon = "$timeout --mca btl_ibx_iwarp_silent_timeout 2000";
for my $btl ('self,vader', 'self,tcp', "self,ibx $soon") {
    for my $how ('exit', 'kill', 'segv', $btl =~ /ibx/ ? ('stop', 'late') : ()) {
        my $mpirun = mpi_mpirun(3, "--mca mpi_yield_when_idle 1 --mca pml $pml --mca btl $btl");
        my $start = time;
        my $out = `timeout -k 5 60 $mpirun $programs/deadpeer --how $how 2>&1 </dev/null`;
        my ($code, $took) = ($? >> 8, time - $start);
        my $good = $code != 0 && $code != 124 && $out !~ /was received|watchdog/;
        printf "%s deadpeer $btl $how: mpirun ended with %d after %.1f s\n", $good ? 'ok     ' : 'FAILED ', $code, $took;
        $good ? ++$passed : ++$failed;
        print $out if !$good;
    }
}
if ($pml eq 'spec') { # ob1 ends the job
    for my $how ('stop', 'kill') {
        if ($how eq 'kill' && mpi_release() ge '5.0') {
            print "skipped  lostpeer self,ibx kill: this mpirun ends the job when a process is killed\n";
            ++$skipped;
            next;
        }
        my $words = $how eq 'kill' ? "--enable-recovery --mca btl self,ibx $timeout" : "--mca btl self,ibx $soon";
        my $mpirun = mpi_mpirun(3, "--mca mpi_yield_when_idle 1 --mca pml $pml $words");
        my $start = time;
        my $out = `timeout -k 5 90 $mpirun $programs/lostpeer --how $how 2>&1 </dev/null`;
        my ($code, $took) = ($? >> 8, time - $start);
        my $good = $code != 124 && 2 == (() = $out =~ /^rank [01]: as it should be$/mg) && $out =~ /^Rank 2 of this job is lost/m;
        printf "%s lostpeer self,ibx %s: mpirun ended with %d after %.1f s\n", $good ? 'ok     ' : 'FAILED ', $how, $code, $took;
        $good ? ++$passed : ++$failed;
        print $out if !$good;
    }
}
print "$passed passed, $failed failed, $skipped skipped\n";
exit($failed > 0);
