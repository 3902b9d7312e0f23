#!/usr/bin/env perl
# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# The network between two hosts of the laboratory fails while a job runs over ibx: all UDP is dropped for seconds, or for
# good; the interface goes down and comes back. What comes back in time must not be noticed in the results; when the network
# is gone for good and nothing else is there, an error names the peer and the job ends. Where tcp is there too it carries
# what UDP does not, also if only one direction fails; so does the other of two networks.
# Only in the laboratory (test/lab/hosts, two hosts or more).
use strict;
use warnings;
use FindBin;
use File::Temp qw(tempdir);
use Getopt::Long;
use IO::Select;
use lib $FindBin::Bin;
use OpenMPI;
use Sys::Hostname;
use Time::HiRes qw(time sleep);

my ($pml, $full, $programs) = ('spec', 0, $ENV{SPEC_TEST_PROGRAMS} // '.');
GetOptions('pml=s' => \$pml, 'full' => \$full, 'programs=s' => \$programs) or die;
my $rail = -e '/sys/class/net/e1' ? 'e1' : ''; # the interface that fails
my ($passed, $failed) = (0, 0);
if (hostname() ne 'n1' || system('nft list ruleset >/dev/null 2>&1')) {
    print "skipped  linkcut: not in a laboratory whose hosts have nft\n0 passed, 0 failed, 1 skipped\n";
    exit 0;
}

sub run_or_die { system(@_) == 0 or die "linkcut: '@_' failed\n" }

# No datagram to this host (input) or from it (output), by one interface or by all, until `mend`.
sub cut {
    my ($interface, @hooks) = @_;
    my %name = (input => 'iifname', output => 'oifname');
    run_or_die(qw(nft add table inet linkcut));
    for my $hook (@hooks) {
        my $by = $interface ? "$name{$hook} $interface" : '';
        run_or_die('nft', "add chain inet linkcut $hook { type filter hook $hook priority 0 ; }");
        run_or_die('nft', "add rule inet linkcut $hook $by meta l4proto udp drop");
    }
}

sub mend { run_or_die(qw(nft delete table inet linkcut)) }

# Processes, as many on each of two hosts.
our $processes = 2;

# Runs stress on them; `during` happens a second after it has begun to send. It is given a function which waits until the
# output shows something, for so long at most (60 s), and ends stress. Exit code, seconds since it happened, output.
sub job {
    my ($seconds, $timeout_ms, $during, $btl, $shell) = @_;
    $btl //= 'self,ibx';
    my $mpirun = mpi_mpirun($processes, "--mca mpi_yield_when_idle 1 --mca pml $pml --mca btl $btl --mca btl_ibx_iwarp_peer_timeout $timeout_ms"
        . " --mca btl_ibx_iwarp_silent_timeout $timeout_ms");
    my $out = '';
    local $ENV{SPEC_TEST_END} = tempdir(CLEANUP => 1) . '/end';
    open(my $from, '-|', "timeout -k 5 120 $mpirun " . ($shell // '') . " $programs/stress --seconds $seconds 2>&1 </dev/null") // die;
    my $shows = sub {
        my ($wanted, $most) = (@_, 60);
        my ($chance, $end) = (IO::Select->new($from), time + $most);
        while ($out !~ $wanted && $chance->can_read($end > time ? $end - time : 0)) {
            last if !sysread($from, $out, 65536, length $out);
        }
    };
    $shows->(qr/^stress --seed/m);
    sleep 1;
    my $then = time;
    $during->(sub {
        $shows->(@_);
        open(my $file, '>', $ENV{SPEC_TEST_END}) or die "linkcut: $ENV{SPEC_TEST_END}: $!\n";
    });
    while (sysread($from, $out, 65536, length $out)) { }
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
sub told { my ($by) = @_; return qr/^  From:\s+\S+:[1-9]\d*\n  To:\s+\S+:[1-9]\d*\n  Carried by:\s+$by$/m }
sub carried { my ($by, @r) = @_; return survived(@r) && $r[2] =~ told($by) }

# For good, but something else is there.
for my $hooks ([qw(input output)], ['input'], ['output']) {
    my @r = job(60, 2000, sub { cut('', @$hooks); $_[0]->(told('tcp')) }, 'self,tcp,ibx');
    mend();
    report(carried('tcp', @r), "no datagrams any more (@$hooks), tcp is there", @r);
}
# Processes that give nothing to tcp, or have not come so far, take what comes by it. They acknowledge nothing by tcp, so that the
# network fails is not sure, and not told. Of two processes the one that may give has nothing under way two times of three; of
# eight some have, nearly always.
{
    local $processes = 8;
    my $second = q(sh -c 'test 0 = $((OMPI_COMM_WORLD_RANK % 2)) || export OMPI_MCA_btl_ibx_iwarp_failover=0; exec "$@"' sh);
    my ($came, @r) = qr/^  alternate_in +[1-9]/m;
    for (1 .. 5) {
        @r = job(60, 60000, sub { cut('', qw(input output)); sleep 5; mend(); $_[0]->(qr/^/) }, 'self,tcp,ibx --mca btl_ibx_summary 1', $second);
        last if !survived(@r) || $r[2] =~ $came;
    }
    report(survived(@r) && $r[2] =~ $came && $r[2] !~ told('tcp'), 'no datagrams for a while, and one host gives none to tcp', @r);
}
if ($rail) {
    for my $hooks ([qw(input output)], ['input']) {
        my @r = job(60, 2000, sub { cut($rail, @$hooks); $_[0]->(told('ibx')) });
        mend();
        report(carried('ibx', @r), "no datagrams by $rail any more (@$hooks)", @r);
    }
    my $sizes = join ' ', map { "--mca btl_ibx_$_ 1024" } qw(max_send_size eager_limit rndv_eager_limit);
    # The other interface takes no message as long as a datagram: tcp carries it, or it waits and that is told.
    my $either = '(?:ibx|tcp)'; # short ones go by the other interface
    my @short = job(60, 2000, sub { cut($rail, qw(input output)); sleep 6; $_[0]->(told($either)) }, "self,tcp,ibx $sizes");
    mend();
    report(carried($either, @short), "no datagrams by $rail, longer than the other interface takes, tcp is there", @short);
    my $too_long = qr/^  Transport:\s+ibx, which takes messages of at most 1024 bytes$/m;
    @short = job(60, 60000, sub { cut($rail, qw(input output)); $_[0]->($too_long, 20); mend() }, "self,ibx $sizes");
    report(survived(@short) && $short[2] =~ $too_long, "no datagrams by $rail for a while, longer than the other interface takes", @short);
    my @r = job(12, 60000, sub { cut($rail, qw(input output)); sleep 4; mend() });
    report(survived(@r), "no datagrams by $rail for 4 s", @r);
    my @down = job(60, 60000, sub { run_or_die(qw(ip link set), $rail, 'down'); $_[0]->(told('ibx')) });
    run_or_die(qw(ip link set), $rail, 'up');
    report(carried('ibx', @down), "$rail goes down", @down);
    print "$passed passed, $failed failed, 0 skipped\n";
    exit($failed > 0);
}

for my $pause ($full ? (1, 5, 20) : 3) {
    my @r = job($pause + 6, 60000, sub { cut('', qw(input output)); sleep $pause; mend() });
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
my @gone = job(60, 2000, sub { cut('', qw(input output)) });
mend();
# Twice the time, and what mpirun needs to end.
report($gone[0] != 0 && $gone[0] != 124 && $gone[1] < 30 && ('spec' ne $pml || ($gone[2] =~ /does not answer|no answer/ && $gone[2] =~ /\bn[12]\b|rank [01]\b/)),
    'no datagrams any more', @gone);
print "$passed passed, $failed failed, 0 skipped\n";
exit($failed > 0);
