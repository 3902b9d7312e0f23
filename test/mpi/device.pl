#!/usr/bin/env perl
# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# Buffers in the memory of an accelerator, and the accelerator's faults (which Open MPI 4.1 ends the job for): device.c, over each transport; with --verbs over an RDMA
# adapter, as the verbs laboratory has them (test/lab/verbs), instead.
use strict;
use warnings;
use Cwd 'abs_path';
use File::Basename 'dirname';
use Getopt::Long;
use lib dirname(abs_path($0));
use OpenMPI;

my ($pml, $full, $verbs, $programs) = ('spec', 0, 0, $ENV{SPEC_TEST_PROGRAMS} // '.');
GetOptions('pml=s' => \$pml, 'full' => \$full, 'verbs' => \$verbs, 'programs=s' => \$programs) or die;
my ($passed, $failed, $skipped) = (0, 0, 0);
$programs = abs_path($programs);

if (!mpi_has_accelerators() || 'spec' ne $pml) {
    print "skipped device: ", 'spec' eq $pml ? "Open MPI @{[mpi_release()]} was built without buffers in accelerators" : "this is for pml spec", "\n";
    print "0 passed, 0 failed, 1 skipped\n";
    exit 0;
}

# Runs device.c, or another program; the code, and the standard output and error together.
sub job {
    my ($words, $arguments, $program) = (@_, 'device');
    my $command = mpi_mpirun(2, '--mca pml spec', $words, mpi_accelerator($programs));
    my ($own, $ours) = $verbs ? (170, 200) : (60, 90);    # the emulated machine is slow
    my $out = `TEST_SECONDS=$own timeout -k 5 $ours $command $programs/$program $arguments 2>&1 </dev/null`;
    return ($? >> 8, $out);
}

sub result {
    my ($good, $name, $text) = @_;
    print $good ? "ok       device: $name\n" : "FAILED   device: $name\n$text\n";
    $good ? ++$passed : ++$failed;
}

my @ways = (
    ['vader', '--mca btl self,vader', 0], ['tcp', '--mca btl self,tcp', 1], ['ibx', '--mca btl self,ibx', 1],
    ['ibx, in fragments', '--mca btl self,ibx --mca pml_spec_staging_max 0', 0],
    ['ibx, without streams', '--mca btl self,ibx --mca accelerator_test_streams 0', 1, '--streams 0'],
    map({ [ "$_, an engine", "--mca btl self,$_ --mca accelerator_test_mb_s 300", 1, '--rate 300' ] } 'tcp', 'ibx'),
);
# 4.1 copies without streams, and its driver (cuda_driver.c) takes no time for it.
my $is_late = mpi_release() ge '5.0';
@ways = map { [@$_[0 .. 2], '--streams 0'] } grep { $_->[1] !~ /accelerator_test/ } @ways if !$is_late;
my $adapter = '--mca btl self,ibx --mca btl_ibx_transport verbs';
@ways = (
    ['verbs', $adapter, 1], ['verbs, in fragments', "$adapter --mca pml_spec_staging_max 0", 0],
    ['verbs, on one host', "$adapter --host h1:2", 1], ['verbs, by datagrams', "$adapter --mca btl_ibx_rc_after 4294967295", 1],
    ['verbs, dma-bufs asked for', "$adapter --mca btl_ibx_verbs_dmabuf auto", 1],    # rxe refuses them
) if $verbs;
for my $way (@ways) {
    my ($name, $words, $staged, $more) = (@$way, '');
    my ($code, $out) = job($words, "--staged $staged $more");
    result(0 == $code && "No errors\n" eq $out, "$name: each byte by the device's copies, " . ($staged ? 'some staged' : 'none staged'), $out);
    if (!$is_late) {
        ($code, $out) = job($words, '--fault');
        result(0 != $code && $out !~ /^No errors$/m && $out =~ /CUDA: Error in cuMemcpy/, "$name: the device's fault ends the job, and is told", $out);
        next;
    }
    ($code, $out) = job($words, '--faults');
    my $told = () = $out =~ /^A copy from or to the memory of an accelerator \(GPU\) has failed/mg;
    result(0 == $code && $out =~ /^No errors$/m && $told >= 1, "$name: the device's faults are errors at both ends, and told", $out);
}
for my $sends ($verbs || !$is_late ? () : (0, 1)) {
    my ($code, $out) = job('--mca btl self,ibx', "--sends $sends", 'given_up_late');
    result(scalar($out =~ /as it should be$/m), 'a peer is given up while a ' . ($sends ? 'send' : 'receive') . "'s buffer is copied", $out);
}
for my $way ($verbs || !$is_late ? () : ('tcp', 'ibx')) {
    my ($code, $out) = job("--mca btl self,$way", '', 'device_late');
    result(0 == $code && "No errors\n" eq $out, "$way: copies by a thread without a context, and behind events that are refused", $out);
}
print "$passed passed, $failed failed, $skipped skipped\n";
exit($failed > 0);
