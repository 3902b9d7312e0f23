#!/usr/bin/env perl
# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# A wrong value of any parameter of the components ends the job in MPI_Init, with a message that names the parameter, the value
# and what is allowed; a name that no parameter has is told, with the nearest. The parameters are those that ompi_info shows,
# so that a new one is tried as well: a word, a number below and above its range, and one with rubbish behind it.
# A sample of that, or with --full all. In a laboratory of hosts only that it is told once there.
use strict;
use warnings;
use File::Temp 'tempdir';
use FindBin;
use Getopt::Long;
use POSIX 'mkfifo';
use lib $FindBin::Bin, "$FindBin::Bin/..";
use OpenMPI;
use Sample;

my ($pml, $full, $programs) = ('spec', 0, $ENV{SPEC_TEST_PROGRAMS} // '.');
GetOptions('pml=s' => \$pml, 'full' => \$full, 'programs=s' => \$programs) or die;
my ($passed, $failed, $skipped) = (0, 0, 0);
my $dir = tempdir(CLEANUP => 1);
mkfifo("$dir/fifo", 0600) or die "$dir/fifo: $!\n";
open my $file, '>', "$dir/file" or die "$dir/file: $!\n";

# What a text cannot be, of those that can be nearly anything.
my %wrong = (
    pml_spec_profile => [$dir, "$dir/fifo", '/dev/null', "$dir/none/profile"],
    mpool_freq_cost_dir => ["$dir/none", "$dir/file"],
    btl_ibx_if_include => ['lo,eth_none', '192.0.2.0/33', 'rxe_none:1'],
    btl_ibx_if_exclude => ['eth_none', '192.0.2.x/24'],
    btl_ibx_window => ['fixed', 'fixed:1', 'fixed:65537', 'fixed:8x', 'wide', ''],
    btl_ibx_transport => ['iwarp_ud,tcp', 'iwarp', ''],
    btl_ibx_rcache => ['no_such_word', ''],
    btl_ibx_fault_register => ['2', '-0.1', '0.5x', 'half'],
);

sub result($$@) {
    my ($fault, $name, $out) = @_;
    print length $fault ? "FAILED  wrongwords: $name: $fault\n" . $out =~ s/^/           | /gmr : "ok      wrongwords: $name\n";
    length $fault ? ++$failed : ++$passed;
}

# How a job, of one process, ends that has these in its environment besides; with more words of mpirun's.
my $words = '';
my ($processes, $btl) = (1, 'self,ibx');
sub job {
    my (%environment) = @_;
    local @ENV{keys %environment} = values %environment;
    my $mpirun = mpi_mpirun($processes, "--mca pml spec --mca btl $btl $words");
    my $out = `timeout -k 5 60 $mpirun $programs/selfsend 2>&1 </dev/null`;
    return ($?, $out);
}

sub number {
    my ($text) = @_;
    my %times = (K => 1 << 10, M => 1 << 20, G => 1 << 30);
    return $text =~ /^(-?\d+)([KMG]?)$/ ? $1 * ($times{$2} // 1) : undef;
}

# Values that a parameter cannot have: ([kind, value], ...).
sub wrong_values {
    my ($name, $p) = @_;
    return map { ['word', $_] } @{ $wrong{$name} // ['no_such_word'] } if 'string' eq $p->{type};
    return (['word', 'no_such_word'], ['below', -1], ['above', 99], ['rubbish', '1x']) if $p->{choice};
    # Their help names no range: it is Open MPI's.
    return (['word', 'no_such_word'], ['below', -1], ['above', 2**31], ['rubbish', '1x']) if $p->{is_standard} && 'unsigned_int' eq $p->{type};
    return (['word', 'no_such_word'], ['below', -1], ['above', '36893488147419103232'], ['rubbish', '1x']) if $p->{is_standard};
    my @range = map { number($_) } ($p->{help} // '') =~ /\brange (-?\d+[KMG]?)(?: \([^)]*\))? to (\d+[KMG]?)\b/;
    return () unless 2 == @range;
    # Perl's numbers are not exact up there.
    my $above = $range[1] >= 2**62 ? '9223372036854775808' : $range[1] + 1;
    return (['word', 'no_such_word'], ['below', $range[0] - 1], ['above', $above], ['rubbish', "$range[1]x"], ['rubbish', "$range[0] Q"]);
}

# { name => { type, help, choice } } of a component.
sub registered {
    my ($framework, $component) = @_;
    my %all;
    for (`timeout 60 ompi_info --param $framework $component --level 9 --parsable 2>/dev/null </dev/null`) {
        s/"(.*)"$/$1/;
        $all{$1}{$2} = $3 if /^mca:$framework:$component:param:(\w+):(help|type):(.*)$/;
        $all{$1}{choice} = 1 if /^mca:$framework:$component:param:(\w+):enumerator:/;
    }
    return \%all;
}

# On several hosts, which are those of a laboratory, a wrong value is told once, too.
if ($ENV{SPEC_LAB}) {
    for my $name (qw(pml_spec_stripe_min btl_ibx_iwarp_auth rcache_lazy_max_bytes mpool_freq_pool_size)) {
        local $ENV{"OMPI_MCA_$name"} = '1x';
        my $mpirun = mpi_mpirun(4, "-x OMPI_MCA_$name --mca pml spec");
        my $out = `timeout -k 5 60 $mpirun $programs/selfsend 2>&1 </dev/null`;
        my $messages = () = $out =~ /^  Parameter: $name$/mg;
        result(1 == $messages ? '' : "the message came $messages times", "$name=1x on several hosts", $out);
    }
    print "$passed passed, $failed failed, $skipped skipped\n";
    exit($failed > 0);
}

my %theirs = map { s/_self_/_ibx_/r => 1 } keys %{ registered('btl', 'self') };
my @cases;
for (['pml', 'spec'], ['btl', 'ibx'], ['rcache', 'lazy'], ['mpool', 'freq']) {
    my $all = registered(@$_);
    for my $name (sort keys %$all) {
        $all->{$name}{is_standard} = $theirs{$name};
        my @wrong = wrong_values($name, $all->{$name});
        result('its help names no range', $name, '') if !@wrong;
        push @cases, map { [$name, @$_] } @wrong;
    }
}
push @cases, map { ["btl_ibx_$_", 'above', 2**21] } qw(eager_limit max_send_size);
push @cases, ['btl_ibx_eager_limit', 'below', 0], ['btl_ibx_max_send_size', 'below', 1023], ['btl_ibx_rdma_pipeline_frag_size', 'below', 0];
my @chosen = $full ? 0 .. $#cases : Sample::choose(Sample::seed(), 6, map { { stratum => $_->[1] } } @cases);
print Sample::told('wrongwords', scalar @chosen, scalar @cases, Sample::seed()) unless $full;
for (map { $cases[$_] } @chosen) {
    my ($name, $kind, $value) = @$_;
    my ($status, $out) = job("OMPI_MCA_$name" => $value);
    my $fault = 0 == $status ? 'the job does not end'
        : $out !~ /^  Parameter: (\w+)$/m ? 'no message'
        : 1 < (() = $out =~ /^  Parameter: /mg) ? 'the message comes twice'
        : $out !~ /^  Value:     \Q$value\E$/m ? 'the message does not say the value'
        : $out !~ /^  Allowed:   ./m ? 'the message does not say what is allowed'
        : '';
    result($fault, "$name=$value ($kind)", $out);
}

# In a file, and by a name that it had before.
open $file, '>', "$dir/parameters" or die "$dir/parameters: $!\n";
print $file "# a comment\npml_spec_stripe_min = 16x  \nmpool_freq_sumary=1\n";
close $file or die "$dir/parameters: $!\n";
my ($status, $out) = job(OMPI_MCA_mca_base_param_files => "$dir/none,$dir/parameters");
result(0 != $status && $out =~ /^  Parameter: pml_spec_stripe_min\n  Value:     16x\n/m ? '' : 'no message', 'a wrong value in a file', $out);
# Quotes are a part of a value there, which Open MPI reads as 0, but for words of mpirun's command line.
for my $line ('pml_spec_stripe_min = "16K"', '--mca pml_spec_stripe_min "16x" --mca btl_ibx_summary 1') {
    open my $other, '>', "$dir/other" or die "$dir/other: $!\n";
    print $other "$line\n";
    close $other or die "$dir/other: $!\n";
    my $value = $line =~ /mca/ ? '16x' : '"16K"';
    ($status, $out) = job(OMPI_MCA_mca_base_param_files => "$dir/other");
    result(0 != $status && $out =~ /^  Parameter: pml_spec_stripe_min\n  Value:     $value\n/m ? '' : 'no message', "the line '$line' in a file", $out);
}
$words = "--tune $dir/other";
($status, $out) = job();
$words = '';
result(0 != $status && $out =~ /^  Parameter: pml_spec_stripe_min\n  Value:     16x\n/m ? '' : 'no message', 'a wrong value in a file of --tune', $out);
($status, $out) = job(OMPI_MCA_mca_base_param_files => "$dir/parameters", OMPI_MCA_pml_spec_stripe_min => '1M');
result(0 != $status || $out !~ /No errors/ ? 'the job ends' : $out !~ /mpool_freq_sumary\n/ ? 'the misspelt name is not told' : '',
    'the environment counts before a file', $out);
($status, $out) = job(OMPI_MCA_pml_spec_hold_max => '1Q');
result(0 != $status && $out =~ /^  Parameter: pml_spec_persistent_max$/m ? '' : 'no message', 'a wrong value by the old name', $out);
($status, $out) = job(OMPI_MCA_pml_spec_hold_max => '1M', OMPI_MCA_btl_ibx_rest => '0');
result(0 == $status && $out =~ /No errors/ ? '' : 'the job ends', 'a value by the old name', $out);

($status, $out) = job(OMPI_MCA_btl_ibx_get_limit => '18446744073709551615');
result(0 == $status && $out =~ /No errors/ ? '' : 'the job ends', 'the largest size, as ompi_info shows it', $out);

# What asks for ibx is checked in jobs that do not.
for (['btl_ibx_always', '2'], ['btl_ibx_always', 'yse'], ['btl_ibx_alwys', '1']) {
    my ($name, $value) = @$_;
    local @ENV{"OMPI_MCA_$name"} = ($value);
    my $out = mpi_mpirun(1, '--mca pml ob1');
    $out = `timeout -k 5 60 $out $programs/selfsend 2>&1 </dev/null`;
    result($out =~ /^  Parameter: \Q$name\E$/m || ($out =~ /\Q$name\E/ && $out =~ /btl_ibx_always/) ? '' : 'no message', "$name=$value under ob1", $out);
}

# Names that are none.
my %misspelt = (pml_spec_sumary => 'pml_spec_summary', btl_ibx_if_inclde => 'btl_ibx_if_include',
    rcache_lazy_maxbytes => 'rcache_lazy_max_bytes', mpool_freq_defualt => 'mpool_freq_default', btl_ibx_eager_limt => 'btl_ibx_eager_limit');
for my $name (sort keys %misspelt) {
    ($status, $out) = job("OMPI_MCA_$name" => 1);
    my $fault = 0 != $status || $out !~ /No errors/ ? 'the job ends'
        : $out !~ /^  Name:    $name$/m ? 'not told'
        : $out !~ /^  Nearest: $misspelt{$name}$/m ? "the nearest is not $misspelt{$name}"
        : '';
    result($fault, "$name is no parameter", $out);
}

# What ends MPI_Init is told once, by all processes together.
($processes, $btl) = (2, 'self');
($status, $out) = job();
my $told = () = $out =~ /MPI cannot begin/g;
result(0 == $status ? 'the job does not end' : 1 != $told ? "told $told times" : '', 'no transport reaches the other process', $out);
# Without a launcher: the directory that one job leaves is also the next one's.
if (glob '/sys/class/infiniband/*') {
    print "skipped  wrongwords: a job without a launcher after another one: there is an adapter\n";
    ++$skipped;
} else {
    local @ENV{qw(TMPDIR OMPI_MCA_ess_singleton_isolated OMPI_MCA_pml OMPI_MCA_btl OMPI_MCA_btl_ibx_transport)} =
        ($dir, 1, 'spec', 'self,ibx', 'verbs');
    for my $time (1, 2) {
        my $out = `timeout -k 5 60 $programs/selfsend 2>&1 </dev/null`;
        result($out =~ /asks the component "ibx" \(btl\) for an RDMA adapter/ ? '' : 'no message', "a job without a launcher, the message of time $time", $out);
    }
}
print "$passed passed, $failed failed, $skipped skipped\n";
exit($failed > 0);
