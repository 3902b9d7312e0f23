#!/usr/bin/env perl
# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# mpool/freq beside a transport that registers memory: btl_pinned.c, a BTL for tests that carries
# nothing, found beside the test programs.
use strict;
use warnings;
use Cwd 'abs_path';
use File::Temp 'tempdir';
use Getopt::Long;

my ($pml, $full, $programs) = ('spec', 0, $ENV{SPEC_TEST_PROGRAMS} // '.');
GetOptions('pml=s' => \$pml, 'full' => \$full, 'programs=s' => \$programs) or die;
my ($passed, $failed, $skipped) = (0, 0, 0);
$programs = abs_path($programs);
my $components = "$programs/.libs";
my $path = $ENV{OMPI_MCA_mca_base_component_path} // 'SYSTEM_DEFAULT';
my ($preload) = grep { -f } map { "$_/mca_mpool_freq.so" } split /:/, $path;

sub job {
    my ($parameters, $program) = @_;
    my $out = `timeout -k 5 60 mpirun -np 2 --oversubscribe --mca mca_base_component_path $path:$components --mca mpi_yield_when_idle 1 --mca pml $pml --mca btl self,vader,pinned $parameters $programs/$program 2>&1 </dev/null`;
    return ($? >> 8, $out);
}

sub result($$@) {
    my ($good, $name, $text) = @_;
    print $good ? "ok      pinned: $name\n" : "FAILED  pinned: $name\n$text\n";
    $good ? ++$passed : ++$failed;
}

unless ($preload) {
    print "skipped pinned: mpool/freq is not in the component path\n0 passed, 0 failed, 1 skipped\n";
    exit 0;
}

my ($code, $out) = job('--mca mpool_freq_fixed_uses 7', 'pinned --uses 7');
my $ends = () = $out =~ /pinned: \d+ pins, \d+ unpins, 0 bytes left/g;
result($code == 0 && $ends == 2, 'registered once, before it is sent; the table measures and forgets', $out);

($code, $out) = job('--mca btl_pinned_limit 1', 'pinned --limit 1');
result($code == 0 && $out =~ /pinned: 0 pins/ && $out =~ /registered\s+with\s+every\s+transport\s+\(must_be_shared\)/,
    'what cannot be registered can be used; must_be_shared is told that it failed', $out);

($code, $out) = job('--mca btl_pinned_limit 3M', 'allocmem --limit 1');
$ends = () = $out =~ /pinned: \d+ pins, \d+ unpins, 0 bytes left/g;
result($code == 0 && $ends == 2 && $out =~ /pinned: [1-9]/, 'a limit in between: smaller segments, then none', $out);

($code, $out) = job("-x LD_PRELOAD=$preload", 'allocmem --wrapped 1');
result($code == 0 && $out !~ /must_be_shared/, 'must_be_shared as an info key', $out);
($code, $out) = job("-x LD_PRELOAD=$preload --mca btl_pinned_limit 1", 'allocmem --wrapped 1 --limit 1');
result($code == 0 && $out !~ /must_be_shared/, 'must_be_shared returns an error where it cannot be', $out);

# What decides is printed, and measured once on a host.
my $dir = tempdir(CLEANUP => 1);
($code, $out) = job("--mca mpool_freq_summary 2 --mca mpool_freq_measure_time 300 --mca mpool_freq_cost_dir $dir", 'pinned');
my @files = glob "$dir/*";
my $tables = () = $out =~ /small buffers, test pinned: costs/g;
my $rows = () = $out =~ /^ +(?:128|65536) +[\d.]+ +[\d.]+ +(?:\d+|none) +(?:\d+|never)$/mg;
result($code == 0 && @files == 1 && $tables == 2 && $rows == 4 && $out =~ /V, to search for a buffer: [\d.]+ ns/
        && $out =~ /messages? (?:from \d+ bytes on )?may go in place/ && $out =~ /copies_avoided +\d/, 'the summary has every number', $out);
($code, $out) = job("--mca mpool_freq_summary 1 --mca mpool_freq_measure_time 300 --mca mpool_freq_cost_dir $dir", 'pinned');
$tables = () = $out =~ /small buffers, test pinned: costs found in the file/g;
result($code == 0 && $tables == 1, 'costs are found again by the next job', $out);
if (@files) {
    my %unfit = ('cut off' => sub { substr($_[0], 0, length($_[0]) - 5) }, 'with a cost below zero' => sub { $_[0] =~ s/^(\d)/-$1/mr },
        'of another transport' => sub { $_[0] =~ s/test pinned/test pinner/r });
    my $good = do { local (@ARGV, $/) = $files[0]; <> };
    for my $what (sort keys %unfit) {
        open my $f, '>', $files[0] or die; print $f $unfit{$what}->($good); close $f;
        ($code, $out) = job("--mca mpool_freq_summary 1 --mca mpool_freq_measure_time 300 --mca mpool_freq_cost_dir $dir", 'pinned');
        result($code == 0 && $out =~ /costs measured by this process|costs found/ , "a file of costs $what is not believed", $out);
        my $now = do { local (@ARGV, $/) = $files[0]; <> };
        result($now =~ /end\n$/ && $now !~ /^-/m && $now =~ /test pinned$/m, "and written anew ($what)", $now);
    }
}
($code, $out) = job('--mca mpool_freq_summary 1 --mca mpool_freq_fixed_uses 3', 'pinned --uses 3');
result($code == 0 && $out =~ /^ +4096 .* 3 +3$/m && $out =~ /copies_avoided +[1-9]/, 'a fixed count', $out);

# The same without the component: nothing is known of it.
($code, $out) = job('--mca mpool ^freq', 'allocmem');
result($code == 0 && $out =~ /SKIP: mpool\/freq is not there/, 'excluded, it is not there', $out);

print "$passed passed, $failed failed, $skipped skipped\n";
exit($failed > 0);
