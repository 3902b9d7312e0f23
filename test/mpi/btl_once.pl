#!/usr/bin/env perl
# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# btl/ibx by its interface: everything is reported exactly once, whatever fails (btl_once.c). MPI itself goes over
# another transport.
use strict;
use warnings;
use FindBin;
use Getopt::Long;
use lib $FindBin::Bin;
use OpenMPI;

my ($pml, $full, $programs) = ('spec', 0, $ENV{SPEC_TEST_PROGRAMS} // '.');
GetOptions('pml=s' => \$pml, 'full' => \$full, 'programs=s' => \$programs) or die;
my ($passed, $failed) = (0, 0);
for my $fail (qw(none refused dead deleted reused stranger)) {
    for my $thread ($fail eq 'dead' ? 'off' : $full ? qw(off auto on) : qw(off auto)) {
        my $mpirun = mpi_mpirun(2, "--mca mpi_yield_when_idle 1 --mca pml ob1 --mca btl self,vader,ibx"
            . " --mca btl_ibx_iwarp_async $thread --mca btl_ibx_iwarp_peer_timeout 2000 --mca btl_ibx_iwarp_silent_timeout 2000"
            # What is lost is sent again: it must be what it was.
            . ($fail eq 'reused' ? join ' ', '', mpi_lossy($programs, 'drop=0.02') : ''));
        my $out = `timeout -k 5 60 $mpirun $programs/btl_once --fail $fail 2>&1 </dev/null`;
        my $good = 0 == $? && $out =~ /^btl_once $fail: .* each reported once$/m;
        print $good ? 'ok     ' : 'FAILED ', " btl_once $fail, agent $thread\n", $good ? '' : $out;
        $good ? ++$passed : ++$failed;
    }
}
# Over verbs, with an adapter that is not there.
my $skipped = 0;
my ($fake) = grep { -e } map { "$_/.libs/fakeverbs.so" } $programs;
if (!$fake) {
    print "skipped  btl_once unsent: no libibverbs when this was built\n";
    ++$skipped;
} else {
    # What the adapter is without, and btl_ibx_connect.
    for (['', 'auto'], ['', 'cm'], ['ADDRESSES', 'auto'], ['ADDRESSES', 'datagrams'], ['ADDRESSES RDMA_CM', 'auto']) {
        my ($without, $connect) = @$_;
        my $env = join ' ', map { "FAKE_NO_$_=1" } split ' ', $without;
        my $name = "btl_once unsent, over verbs, connect $connect" . ($without ? ", without $without" : '');
        my $mpirun = mpi_mpirun(2, '--mca mpi_yield_when_idle 1 --mca pml ob1 --mca btl self,vader,ibx --mca btl_ibx_transport verbs'
            . " --mca btl_ibx_connect $connect");
        my $out = `timeout -k 5 60 $mpirun env $env LD_PRELOAD=$fake $programs/btl_once --fail unsent 2>&1 </dev/null`;
        if ($out =~ /btl\/ibx is not there/) {
            print "skipped  $name: no interface but the loopback one\n";
            ++$skipped;
        } else {
            my $good = 0 == $? && $out =~ /^btl_once unsent: .* each reported once$/m;
            print $good ? 'ok     ' : 'FAILED ', " $name\n", $good ? '' : $out;
            $good ? ++$passed : ++$failed;
        }
    }
}
print "$passed passed, $failed failed, $skipped skipped\n";
exit($failed > 0);
