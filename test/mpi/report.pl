#!/usr/bin/env perl
# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# What a job tells when it ends: the summary and its identity, the profile that one run writes and the
# next one uses, and profiles that do not fit. Only pml/spec has these.
use strict;
use warnings;
use Cwd 'abs_path';
use File::Temp 'tempdir';
use FindBin;
use Getopt::Long;
use lib $FindBin::Bin;
use OpenMPI;

my ($pml, $full, $programs) = ('spec', 0, $ENV{SPEC_TEST_PROGRAMS} // '.');
GetOptions('pml=s' => \$pml, 'full' => \$full, 'programs=s' => \$programs) or die;
my ($passed, $failed, $skipped) = (0, 0, 0);
my $dir = tempdir(CLEANUP => 1);
my $profile = "$dir/profile";
$programs = abs_path($programs);

sub job {
    my ($np, $parameters, $program) = @_;
    my $mpirun = mpi_mpirun($np, "--mca mpi_yield_when_idle 1 --mca pml $pml --mca btl self,vader $parameters");
    return mpi_whole_lines(60, $mpirun, "$programs/$program");
}

sub result($$@) {
    my ($good, $name, $text) = @_;
    print $good ? "ok      report: $name\n" : "FAILED  report: $name\n$text\n";
    $good ? ++$passed : ++$failed;
}

sub put { my ($text) = @_; open my $f, '>', $profile or die "$profile: $!"; print $f $text; close $f }
sub get { open my $f, '<', $profile or return ''; local $/; return <$f> }

# The number in the column 'all' of a row of the summary; 0 if the row is not there.
sub row { my ($out, $name) = @_; return $out =~ /^ +$name +(\d+)/m ? $1 : 0 }

if ($pml ne 'spec') {
    print "skipped report: only pml/spec has a summary and a profile\n0 passed, 0 failed, 1 skipped\n";
    exit 0;
}

my ($code, $out) = job(4, '--mca pml_spec_summary 1', 'stress --seconds 3');
my $tables = () = $out =~ /summary of 4 processes/g;
my ($about) = $out =~ /^The counters above.*?\n(.*?)^  RTRs:/ms;
my @undescribed = grep { ($about // '') !~ /^  $_ +\w.{8}/m } $out =~ /^  (\w+) +\d+ +\d+ +\d+ +\d+ +\d+$/mg;
result(!@undescribed, 'each counter of the summary is described', "not described: @undescribed\n$out");
result($out =~ /^What it means:\n  \S/m && $out =~ /^  \d+ of \d+ receives were posted late/m, 'the summary ends with conclusions', $out);
result(!grep({ length > 100 } $out =~ /^(?:pml\/spec:|  ).*$/mg), 'no line of the summary is wider than 100 columns', $out);
result($code == 0 && $tables == 1 && $out =~ /RTRs: \d+ sent = / && $out !~ /DOES NOT ADD UP/, 'the summary of a random exchange adds up', $out);
($code, $out) = job(2, '', 'selfsend');
result($code == 0 && $out !~ /summary/, 'no summary unless asked for', $out);

($code, $out) = job(2, "--mca pml_spec_summary 1 --mca pml_spec_profile $profile", 'adaptation --misses 60');
my $first = get();
result($code == 0 && $first =~ /^stop 1 0 0\.0 1 0 3$/m && $first =~ /^end 1$/m && row($out, 'rtr_sent') >= 4,
    'a profile is written', "$out$first");
($code, $out) = job(2, "--mca pml_spec_summary 1 --mca pml_spec_profile $profile", 'adaptation --misses 60');
result($code == 0 && row($out, 'rtr_sent') == 0 && get() eq $first, 'and used from the first message of the next run', $out);
($code, $out) = job(2, "--mca pml_spec_profile $profile", 'adaptation --adapts 1');
result($code != 0, 'the profile shows: the test that counts RTRs notices', $out);
($code, $out) = job(2, "--mca pml_spec_profile $profile --mca pml_spec_speculation on", 'adaptation --adapts 0');
result($code == 0, 'with speculation on it has no say', $out);

my %unfit = (
    'for another number of ranks' => ["pml/spec profile 1\nranks 3\nend 0\n", 'another size', 2],
    'of another version' => ["pml/spec profile 9\nranks 2\nend 0\n", 'another version', 1],
    'that was cut off' => [substr($first, 0, length($first) - 8), 'cut off', '\d+'],
    'that is something else' => ["\0\1\2 no profile", 'not a profile', 1],
);
for my $what (sort keys %unfit) {
    my ($text, $reason, $line) = @{$unfit{$what}};
    put($text);
    ($code, $out) = job(2, "--mca pml_spec_profile $profile", 'adaptation --misses 60');
    result($code == 0 && $out =~ /Reason: .*$reason/ && $out =~ /Line: +$line\n/ && get() eq $text,
        "a profile $what is refused, left alone, and the run goes on", $out);
}
# What is told in steps: for a person, on a terminal.
($code, $out) = job(2, '--mca pml_spec_verbose 100 --mca rcache_base_verbose 100', 'stress --seconds 2');
my @told = $out =~ /^(?:\[[^]]*\] (?:why|RTR|receive|sends|receives|profile|words|flow|refused|pml\/spec|rcache\/lazy)\b|    ).*$/mg;
my @wide = grep { length > 100 } @told;
result(@told > 50 && !@wide, 'verbose lines have at most 100 columns', scalar(@told) . " lines\n" . join("\n", @wide));
my @bare = grep { /\(-?\d+\)$|\b(?:fate|type|state|error|status|reason) -?\d+\b/ } @told;
result(!@bare && $out =~ /RTR for tag -?\d+ dropped: \w/, 'and no bare number of an enum', join("\n", @bare));
# Where no process may copy from another's memory: up to 64 KiB eager, in parts; from 128 KiB on through rings, which can be offered.
($code, $out) = job(2, '--mca pml_spec_verbose 20 --mca btl_vader_single_copy_mechanism none --mca pml_spec_speculation on', 'stress --seconds 3');
$out =~ s/\n    +/ /g;
my @wrong = grep {
    my ($why, $room, $end) = /because (.*?); room for (\d+) bytes \(eager up to (\d+)\)/ or die $_;
    ($why =~ /eager/ && $room > $end) || ($why =~ /can put/ && ($room <= 65536 || $room >= 131072));
} $out =~ /^.*why: receive from.*$/mg;
result($code == 0 && $out =~ /why: receive from/ && !@wrong, 'a receive tells the reason for which it sends no RTR', join("\n", @wrong));
# (It is written beside its file and renamed.)
mkdir "$dir/other.new" or die "$dir/other.new: $!\n";
($code, $out) = job(2, "--mca pml_spec_profile $dir/other", 'adaptation --misses 60');
result($code == 0 && $out =~ /could not be written/, 'a profile that cannot be written is told', $out);
print "$passed passed, $failed failed, $skipped skipped\n";
exit($failed > 0);
