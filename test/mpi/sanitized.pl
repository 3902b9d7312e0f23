#!/usr/bin/env perl
# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# MPI programs with a component that was built with AddressSanitizer and UndefinedBehaviorSanitizer
# (./check builds it; SPEC_SANITIZED_COMPONENTS names its directory). Reports end a rank, so a test
# passes only without any. Leaks are not looked for: Open MPI leaves much lying at the end.
use strict;
use warnings;
use FindBin;
use Getopt::Long;
use lib $FindBin::Bin;
use OpenMPI;

my ($pml, $full, $programs) = ('spec', 0, $ENV{SPEC_TEST_PROGRAMS} // '.');
GetOptions('pml=s' => \$pml, 'full' => \$full, 'programs=s' => \$programs) or die;
my ($passed, $failed, $skipped) = (0, 0, 0);

sub give_up {
    print "skipped sanitized: $_[0]\n0 passed, 0 failed, 1 skipped\n";
    exit 0;
}

my $components = $ENV{SPEC_SANITIZED_COMPONENTS};
give_up('no component with sanitizers was built (./check does that)') if !defined $components || !-d $components;
give_up('only pml/spec is built with them') if $pml ne 'spec';
# The runtime must be in the process before the component is.
my @runtime = map { my $path = `gcc -print-file-name=$_`; chomp $path; $path } 'libasan.so', 'libubsan.so';
for (@runtime) { give_up("gcc has no $_") if $_ !~ m{/} }
my $preload = join ':', @runtime;

my $seconds = $full ? 60 : 12;
my $both = '--mca btl self,vader,tcp --mca btl_vader_exclusivity 65536 --mca btl_tcp_exclusivity 65536 '
    . '--mca btl_vader_latency 1 --mca btl_tcp_latency 1 --mca btl_vader_bandwidth 1000 --mca btl_tcp_bandwidth 1000';
my @tests = (
    ['vader', 2, '--mca btl self,vader', "stress --seconds $seconds"],
    ['both', 2, $both, "stress --seconds $seconds"],
    ['vader, threads', 2, '--mca btl self,vader', "stress --seconds $seconds --threads 3"],
    ['tcp', 2, '--mca btl self,tcp', "stress --seconds $seconds"],
    ['both', 2, $both, 'datatypes'],
    ['vader', 2, '--mca btl self,vader', 'cancel'],
    ['vader', 2, '--mca btl self,vader', 'truncate'],
    ['vader', 4, '--mca btl self,vader', 'communicators'],
);
mpi_use_components('mpirun', $components);
for my $t (@tests) {
    my ($name, $np, $parameters, $program) = @$t;
    my $mpirun = mpi_mpirun($np, "--mca mpi_yield_when_idle 1 --mca pml spec $parameters");
    my $out = `timeout -k 5 240 $mpirun -x LD_PRELOAD=$preload -x ASAN_OPTIONS=detect_leaks=0:abort_on_error=0 -x UBSAN_OPTIONS=print_stacktrace=1 $programs/$program 2>&1 </dev/null`;
    my $good = $? == 0 && $out =~ /No errors/ && $out !~ /Sanitizer|runtime error/;
    print $good ? "ok      sanitized $program np$np $name\n" : "FAILED  sanitized $program np$np $name\n$out\n";
    $good ? ++$passed : ++$failed;
}
print "$passed passed, $failed failed, $skipped skipped\n";
exit($failed > 0);
