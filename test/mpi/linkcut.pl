#!/usr/bin/env perl
# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# The network between two hosts of the laboratory fails while a job runs over ibx: all UDP is dropped for seconds, or for
# good; the interface goes down and comes back. What comes back in time must not be noticed in the results; when the network
# is gone for good, an error names the peer and the job ends. Only in the laboratory (test/lab/hosts, two hosts or more).
use strict;
use warnings;
use FindBin;
use Getopt::Long;
use lib $FindBin::Bin;
use OpenMPI;
use Sys::Hostname;
use Time::HiRes qw(time sleep);

my ($pml, $full, $programs) = ('spec', 0, $ENV{SPEC_TEST_PROGRAMS} // '.');
GetOptions('pml=s' => \$pml, 'full' => \$full, 'programs=s' => \$programs) or die;
my ($passed, $failed) = (0, 0);
if (hostname() ne 'n1' || system('nft list ruleset >/dev/null 2>&1')) {
    print "skipped  linkcut: not in a laboratory whose hosts have nft\n0 passed, 0 failed, 1 skipped\n";
    exit 0;
}

sub run_or_die { system(@_) == 0 or die "linkcut: '@_' failed\n" }

# No datagram from or to this host, until `mend`.
sub cut {
    run_or_die(qw(nft add table inet linkcut));
    for my $hook (qw(input output)) {
        run_or_die('nft', "add chain inet linkcut $hook { type filter hook $hook priority 0 ; }");
        run_or_die('nft', "add rule inet linkcut $hook meta l4proto udp drop");
    }
}

sub mend { run_or_die(qw(nft delete table inet linkcut)) }

# Runs stress on two hosts; `during` happens three seconds after mpirun began. Exit code, seconds since it happened, output.
sub job {
    my ($seconds, $timeout_ms, $during) = @_;
    my $mpirun = mpi_mpirun(2, "--mca mpi_yield_when_idle 1 --mca pml $pml --mca btl self,ibx --mca btl_ibx_iwarp_peer_timeout $timeout_ms"
        . " --mca btl_ibx_iwarp_silent_timeout $timeout_ms");
    my $out = '';
    open(my $from, '-|', "timeout -k 5 120 $mpirun $programs/stress --seconds $seconds 2>&1 </dev/null") // die;
    sleep 3;
    my $then = time;
    $during->();
    while (my $line = <$from>) { $out .= $line }
    close $from;
    return ($? & 127 ? 128 + ($? & 127) : $? >> 8, time - $then, $out);
}

sub report($$@) {
    my ($good, $what, $code, $took, $out) = @_;
    printf "%s linkcut: %s: mpirun ended with %d, %.1f s later\n", $good ? 'ok     ' : 'FAILED ', $what, $code, $took;
    print map { "        | $_\n" } grep { defined } (split /\n/, $out)[0 .. 40] if !$good;
    $good ? ++$passed : ++$failed;
}

sub survived { return 0 == $_[0] && $_[2] =~ /^No errors$/m }

for my $pause ($full ? (1, 5, 20) : 3) {
    my @r = job($pause + 6, 60000, sub { cut(); sleep $pause; mend() });
    report(survived(@r), "no datagrams for $pause s", @r);
}
my @flaps = job(10, 60000, sub {
    for (1 .. 3) {
        run_or_die(qw(ip link set e0 down));
        sleep 0.7;
        run_or_die(qw(ip link set e0 up));
        sleep 1.5;
    }
});
report(survived(@flaps), 'the interface goes down three times', @flaps);
my @gone = job(60, 2000, \&cut);
mend();
# Twice the time, and what mpirun needs to end.
report($gone[0] != 0 && $gone[0] != 124 && $gone[1] < 30 && $gone[2] =~ /does not answer|no answer/ && $gone[2] =~ /\bn[12]\b|rank [01]\b/,
    'no datagrams any more', @gone);
print "$passed passed, $failed failed, 0 skipped\n";
exit($failed > 0);
