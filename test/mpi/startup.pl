#!/usr/bin/env perl
# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# How a job over btl/ibx begins: within the ports that a firewall leaves, beside processes that have some of them; and what
# is said when it cannot.
use strict;
use warnings;
use FindBin;
use Getopt::Long;
use IO::Socket::INET;
use lib $FindBin::Bin;
use OpenMPI;

my ($pml, $full, $programs) = ('spec', 0, $ENV{SPEC_TEST_PROGRAMS} // '.');
GetOptions('pml=s' => \$pml, 'full' => \$full, 'programs=s' => \$programs) or die;
my ($passed, $failed, $skipped) = (0, 0, 0);

sub result($$@) {
    my ($good, $name, $out) = @_;
    print $good ? 'ok     ' : 'FAILED ', " startup: $name\n", $good ? '' : $out;
    $good ? ++$passed : ++$failed;
}

sub skip { print "skipped  startup: $_[0]: $_[1]\n"; ++$skipped }

sub run {
    my ($ranks, $words) = @_;
    my $mpirun = mpi_mpirun($ranks, "--mca mpi_yield_when_idle 1 --mca pml $pml --mca btl self,ibx "
        . "--mca btl_ibx_transport iwarp_ud $words");
    my $out = `timeout -k 5 60 $mpirun $programs/ordering 2>&1 </dev/null`;
    return ($?, $out);
}

# The ports on which modules were opened.
sub ports_of { return map { $_ + 0 } $_[0] =~ /btl\/ibx: module \d+ on \S+, \S+:(\d+),/g }

# So many ports in a row which nobody has at the moment, on all of our addresses, below those that the kernel gives. The first
# by chance, since two runs at once would choose the same.
sub free_row {
    my ($n) = @_;
    for (my $first = 20000 + int rand 6000; $first < 60000; $first += $n) {
        my @held = map { IO::Socket::INET->new(Proto => 'udp', LocalAddr => '0.0.0.0', LocalPort => $first + $_) } 0 .. $n - 1;
        return $first if $n == grep { defined } @held;
    }
    die "no $n free ports in a row\n";
}

# Loading the topology of the host takes every process that starts here tens of milliseconds and some MiB.
my ($component) = grep { -e } map { "$_/mca_btl_ibx.so" } split /:/, $ENV{OMPI_MCA_mca_base_component_path} // '';
if (!defined $component) {
    skip('no topology is loaded', 'the component is not found by its path');
} else {
    my $symbols = `nm -D --undefined-only $component 2>&1`;
    result(0 == $? && $symbols !~ /hwloc/, 'no topology is loaded', $symbols);
}

my $lo = '--mca btl_ibx_if_include lo --mca btl_base_verbose 20';
my $first = free_row(4);
my $range = "--mca btl_ibx_iwarp_port_min $first --mca btl_ibx_iwarp_port_range";
my ($status, $out) = run(2, "$lo $range 2");
result(0 == $status && "@{[ sort { $a <=> $b } ports_of($out) ]}" eq "$first " . ($first + 1), 'two processes, two ports', $out);

# Another program has the first.
my $other = IO::Socket::INET->new(Proto => 'udp', LocalAddr => '127.0.0.1', LocalPort => $first) or die "$!\n";
($status, $out) = run(2, "$lo $range 3");
result(0 == $status && "@{[ sort { $a <=> $b } ports_of($out) ]}" eq join(' ', $first + 1, $first + 2), 'a port that is taken is passed over', $out);
($status, $out) = run(2, "$lo $range 2");
result(0 != $status && ('spec' ne $pml || $out =~ /MPI cannot begin/ && $out !~ /Unknown error/), 'too few ports: the job ends', $out);
# Both processes find that; it is told once, and reaches the user although the job ends right after.
for my $n (1, 2) {
    $other->close;
    $other = IO::Socket::INET->new(Proto => 'udp', LocalAddr => '127.0.0.1', LocalPort => $first) or die "$!\n";
    ($status, $out) = run($n, "$lo $range 1");
    my $told = () = $out =~ /^All UDP ports that the component "ibx" \(btl\) may use are taken.*?Ports:\s+$first to $first$/msg;
    my $ends = () = $out =~ /^MPI cannot begin/mg;
    result((0 == $status) == (1 == $n) && 1 == $told && (1 == $n || 'spec' ne $pml || 1 == $ends),
        "all ports are taken: that is said, once by $n", $out);
}
$other->close;

if (open(my $six, '<', '/proc/net/if_inet6')) {
    if (grep { /^0{31}1 / } <$six>) {
        ($status, $out) = run(2, "--mca btl_base_verbose 20 --mca btl_ibx_if_include ::1/128 $range 2");
        result(0 == $status && 2 == grep({ /module 0 on lo, \[::1\]:($first|@{[ $first + 1 ]}),/ } split /\n/, $out), 'IPv6', $out);
    } else {
        skip('IPv6', 'the loopback interface has no address of it');
    }
} else {
    skip('IPv6', 'this kernel has none');
}

# Each interface has the ports for itself.
($status, $out) = run(2, "--mca btl_base_verbose 20 --mca btl_ibx_if_include 0.0.0.0/0 $range 2");
if (2 >= (my @all = ports_of($out))) {
    skip('several interfaces', 'there is only one');
} else {
    result(0 == $status && 0 == grep({ $_ < $first || $_ > $first + 1 } @all), 'several interfaces', $out);
}

($status, $out) = run(1, '--mca btl_ibx_iwarp_port_min 65000 --mca btl_ibx_iwarp_port_range 537');
result(0 != $status && $out =~ /Parameter: btl_ibx_iwarp_port_range\n.*up to 536, since/s, 'a range beyond the last port is refused', $out);

# No interface in that network: the reason is the last word, without an 'Unknown error' of Open MPI.
if ('spec' eq $pml) {
    ($status, $out) = run(2, '--mca btl_ibx_if_include 203.0.113.0/24');
    result(0 != $status && $out =~ /MPI cannot begin: some processes.*Transports in use here: self\n/s
        && $out !~ /Unknown error|MPI_INIT has failed|An error occurred in MPI_Init/, 'no interface', $out);
}

# Without an RDMA device it goes on over UDP, and says so to who asks.
if (-d '/sys/class/infiniband' && glob('/sys/class/infiniband/*')) {
    skip('fall back to UDP', 'this host has RDMA devices');
} else {
    for my $verbose (0, 1) {
        my $mpirun = mpi_mpirun(2, "--mca pml $pml --mca btl self,ibx --mca btl_ibx_if_include lo --mca btl_base_verbose $verbose");
        $out = `timeout -k 5 60 $mpirun $programs/ordering 2>&1 </dev/null`;
        result(0 == $? && $verbose == ($out =~ /btl\/ibx: no RDMA adapter is used: / ? 1 : 0), "fall back to UDP, verbosity $verbose", $out);
    }
}

print "$passed passed, $failed failed, $skipped skipped\n";
exit($failed > 0);
