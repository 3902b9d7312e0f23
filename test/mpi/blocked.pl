#!/usr/bin/env perl
# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# UDP is dropped between two hosts of the laboratory, in one direction or in both, before a job begins that could use ibx and
# tcp: tcp carries it, and that is told once. Without tcp the job waits, and it is told what for, once by each host. Where all passes ibx carries it, however crowded the processors are. Only in the
# laboratory (test/lab/hosts, two hosts or more, two slots each).
use strict;
use warnings;
use FindBin;
use Getopt::Long;
use lib $FindBin::Bin;
use OpenMPI;
use Sys::Hostname;
use Time::HiRes 'time';

my ($pml, $full, $programs) = ('spec', 0, $ENV{SPEC_TEST_PROGRAMS} // '.');
GetOptions('pml=s' => \$pml, 'full' => \$full, 'programs=s' => \$programs) or die;
my ($passed, $failed) = (0, 0);
if (hostname() ne 'n1' || system('nft list ruleset >/dev/null 2>&1')) {
    print "skipped  blocked: not in a laboratory whose hosts have nft\n0 passed, 0 failed, 1 skipped\n";
    exit 0;
}

sub run_or_die { system(@_) == 0 or die "blocked: '@_' failed\n" }

# Nothing of UDP passes these hooks of this host, until `mend`.
sub cut {
    run_or_die(qw(nft add table inet blocked));
    for my $hook (@_) {
        run_or_die('nft', "add chain inet blocked $hook { type filter hook $hook priority 0 ; }");
        run_or_die('nft', "add rule inet blocked $hook meta l4proto udp drop");
    }
}

sub mend { run_or_die(qw(nft delete table inet blocked)) }

# Exit code, seconds, output of a job of four processes, or so many, on two hosts. The time is a bound against waiting for what
# never comes.
sub job {
    my ($words, $processes) = @_;
    my $mpirun = mpi_mpirun($processes // 4, "--mca mpi_yield_when_idle 1 --mca pml $pml $words");
    my $then = time;
    my ($code, $out) = mpi_whole_lines(60, $mpirun, "$programs/stress --seconds 1");
    return ($code, time - $then, $out);
}

sub report {
    my ($fault, $what, $took, $out) = @_;
    printf "%s blocked: %s: %.1f s%s\n", $fault ? 'FAILED ' : 'ok     ', $what, $took, $fault ? ": $fault" : '';
    my @lines = grep { !/ bml: / } split /\n/, $out; # a line of each process for each other and transport
    print map { "        | $_\n" } grep { defined } @lines[0 .. 100] if $fault;
    $fault ? ++$failed : ++$passed;
}

sub fault_of {
    my ($code, $out, $texts) = @_;
    my $told = () = $out =~ /^Datagrams of the component "ibx"/mg;
    return 124 == $code ? 'it does not end'
        : 0 != $code ? "mpirun ended with $code"
        : $out !~ /^No errors$/m ? 'wrong results'
        : $out =~ /^(?=.{101})(.*btl\/ibx: .*)$/m ? "a line of more than 100 columns: $1"
        : $told != $texts ? "the message came $told times, not $texts"
        : !$texts ? ''
        : $out !~ /^  Hosts:  n1 and n2\n  From:   \S+:\d+\n  To:     \S+:\d+\n  Tried:  \d+ datagrams \(UDP\) in \d+ ms\n  Result: ./m ? 'it does not say what was tried'
        : $out !~ /^  Tried:  \d+ datagrams \(UDP\) in 1?\d{1,3} ms$/m ? 'it has waited for 2 s or more'
        : $out !~ /--mca btl \^ibx/ ? 'it does not say what to do'
        : '';
}

# There is no other transport.
sub fault_of_waiting {
    my ($code, $out) = @_;
    my %told;
    ++$told{$1} while $out =~ /^A process on another host has never answered.*?^  Hosts:  from (\S+) to \S+$/msg;
    my $texts = () = $out =~ /has never answered/g;
    return 124 == $code ? 'it does not end'
        : 0 == $code ? 'it succeeded'
        : !%told || grep({ 1 != $_ } values %told) || $texts != keys %told ? "the message came $texts times from " . keys(%told) . ' hosts'
        : $out !~ /^  Waited: \d+ s\n  Result: (?:nothing came from|datagrams from there arrive)/m ? 'it does not say what was tried'
        : $out !~ /--mca btl \^ibx/ ? 'it does not say what to do'
        : '';
}

my $ibx = '--mca btl self,tcp,vader,ibx';
my ($code, $took, $out) = job('--mca btl self,tcp,vader');
report(fault_of($code, $out, 0), 'tcp alone', $took, $out);
($code, $took, $out) = job("$ibx --mca btl_base_verbose 20 --mca btl_ibx_summary 1");
report(fault_of($code, $out, 0) || ($out !~ /segments_in/ ? 'ibx carried nothing' : ''), 'ibx, nothing is dropped', $took, $out);
($code, $took, $out) = job("$ibx --mca btl_base_verbose 1", 16);
report(fault_of($code, $out, 0) || ($out =~ /left to other transports/ ? 'a process was given up that only had no processor' : ''),
    'ibx, eight processes on a processor', $took, $out);
for ([input => 'what comes to n1'], [output => 'what leaves n1'], ['input output' => 'both directions']) {
    cut(split ' ', $_->[0]);
    my @job = job("$ibx --mca btl_base_verbose 10");
    my @plain = job('');
    my @alone = job('--mca btl self,vader,ibx --mca btl_ibx_iwarp_peer_timeout 3000 --mca btl_ibx_iwarp_silent_timeout 5000');
    mend();
    report(fault_of(@job[0, 2], 1), "UDP is dropped: $_->[1]", @job[1, 2]);
    # By itself ibx is for jobs under spec alone.
    report(fault_of(@plain[0, 2], 'spec' eq $pml ? 1 : 0), "the same, no list of transports", @plain[1, 2]);
    report(fault_of_waiting(@alone[0, 2]), 'the same, nothing but ibx', @alone[1, 2]);
}
print "$passed passed, $failed failed, 0 skipped\n";
exit($failed > 0);
