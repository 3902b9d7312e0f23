#!/usr/bin/env perl
# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# The live view (tools/spec_live.c), preloaded into a job: a line for each interval, of the ranks that were asked for, with the
# counters that the summary has in the end; nothing of it in a job that has none, and words where a setting is wrong.
use strict;
use warnings;
use Cwd 'abs_path';
use FindBin;
use Getopt::Long;
use lib $FindBin::Bin;
use OpenMPI;

my ($pml, $full, $programs) = ('spec', 0, $ENV{SPEC_TEST_PROGRAMS} // '.');
GetOptions('pml=s' => \$pml, 'full' => \$full, 'programs=s' => \$programs) or die;
$programs = abs_path($programs);
my ($passed, $failed) = (0, 0);
my ($live) = grep { -f } "$programs/../../tools/.libs/spec_live.so", "$programs/spec_live.so";
if (!defined $live) {
    print "skipped live: there is no spec_live.so beside these programs\n0 passed, 0 failed, 1 skipped\n";
    exit 0;
}
$live = abs_path($live);

sub result($$@) {
    my ($good, $name, $text) = @_;
    print $good ? "ok      live: $name\n" : "FAILED  live: $name\n" . $text =~ s/^/           | /gmr;
    $good ? ++$passed : ++$failed;
}

# How a job, of two, ends with these in its environment, and what it prints.
my $processes = 2;
sub job {
    my ($with, $program, %environment) = @_;
    local @ENV{keys %environment} = values %environment;
    my $mpirun = mpi_mpirun($processes, "--mca mpi_yield_when_idle 1 --mca pml $with --mca btl self,vader -x LD_PRELOAD=$live");
    return mpi_whole_lines(60, $mpirun, "$programs/$program");
}

sub lines { my ($out, $rank) = @_; my @lines = $out =~ /^ +$rank((?: +[\d.-]+){9})$/mg; return @lines }

my ($code, $out) = job('spec --mca pml_spec_summary 1', 'stress --seconds 3', SPEC_LIVE_RANKS => 'all', SPEC_LIVE_SECONDS => '0.2');
result($code == 0 && $out =~ /^No errors$/m && lines($out, 0) >= 2 && lines($out, 1) >= 2, 'a line for each interval of each rank', $out);
result($out =~ /^ +rank +advance +announced +late /m && !grep({ length > 100 } $out =~ /^ +(?:rank|\d+) .*$/mg), 'with a head, in 100 columns', $out);
my %column = (sent_rtr => 0, sent_rts => 1, rts_unexpected => 2);
for my $name (sort keys %column) {
    my ($sum, $of_lines) = (0, 0);
    for my $rank (0, 1) {
        my ($total) = $out =~ /^ *$rank total((?: +[\d.-]+){9})$/m;
        $sum += (split ' ', $total // '')[$column{$name}] // 0;
        $of_lines += (split)[$column{$name}] for lines($out, $rank);
    }
    my ($all) = $out =~ /^ +$name +(\d+)/m;
    # MPI_Init is over when the view begins, and nothing large is sent there.
    result(defined $all && $all == $sum && $of_lines <= $sum, "the totals of $name are those of the summary: $sum", $out);
}
($code, $out) = job('spec', 'stress --seconds 1', SPEC_LIVE_SECONDS => '0.2');
result($code == 0 && lines($out, 0) >= 1 && !lines($out, 1) && $out !~ /^ *1 total/m, 'rank 0 alone unless asked for others', $out);
($code, $out) = job('spec', 'stress --seconds 1', SPEC_LIVE_SECONDS => 'often', SPEC_LIVE_RANKS => '0,x');
result($code == 0 && !lines($out, 0) && $out =~ /SPEC_LIVE_RANKS is a list/, 'a wrong list is told', $out);
($code, $out) = job('spec', 'stress --seconds 1', SPEC_LIVE_SECONDS => 'often');
result($code == 0 && $out =~ /SPEC_LIVE_SECONDS is a number from 0\.1 to 3600; 1 is used/, 'so is a wrong number', $out);
# A rank of two digits.
$processes = 11;
($code, $out) = job('spec', 'selfsend', SPEC_LIVE_RANKS => '10');
my ($head, $total) = $out =~ /^( +rank +advance .*)\n( *10 total .*)$/m;
result($code == 0 && defined $total && length $head == length $total, 'the totals of rank 10 stand below the head', $out);
$processes = 2;
{
    delete local $ENV{OMPI_MCA_mca_base_component_path};
    ($code, $out) = job('ob1 --mca mpool ^freq --mca rcache ^lazy', 'selfsend');
    result($code == 0 && $out =~ /^No errors$/m && !lines($out, 0), 'a job without these counters goes on', $out);
}
print "$passed passed, $failed failed, 0 skipped\n";
exit($failed > 0);
