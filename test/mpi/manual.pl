#!/usr/bin/env perl
# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# Is the manual true? Every parameter and counter that a text names exists; the man pages are well formed; and the commands of
# README.md and docs/user/guide.md do what they are shown to do. (Messages: test/lint/messages.)
#
# A block of commands (indented by four) has a comment before it: <!-- run --> or <!-- skip: why -->. A block is run by
# bash in a directory that has the program ./my_program; it must end with 0, and each mpirun in it must say 'No errors'.
use strict;
use warnings;
use Cwd 'abs_path';
use File::Copy 'copy';
use File::Temp 'tempdir';
use FindBin;
use Getopt::Long;
use lib $FindBin::Bin;
use OpenMPI;

my ($pml, $full, $programs) = ('spec', 0, $ENV{SPEC_TEST_PROGRAMS} // '.');
GetOptions('pml=s' => \$pml, 'full' => \$full, 'programs=s' => \$programs) or die;
my $top = abs_path("$FindBin::Bin/../..");
$programs = abs_path($programs);
my ($passed, $failed, $skipped) = (0, 0, 0);

sub result($$@) {
    my ($fault, $name) = @_;
    print length $fault ? "FAILED  manual: $name: $fault\n" : "ok      manual: $name\n";
    length $fault ? ++$failed : ++$passed;
}

sub skip { print "skipped  manual: $_[0]: $_[1]\n"; ++$skipped }

sub contents {
    my ($path) = @_;
    open my $in, '<', $path or die "$path: $!\n";
    local $/;
    return <$in> // '';
}

# ---- names ----

sub check_names {
    my $parameters = contents("$top/docs/user/parameters.md");
    my %known = map { $_ => 1 } $parameters =~ /^\| `(\w+)` \|/mg;
    my @paths = glob("$top/*.md $top/docs/*.md $top/docs/*/*.md $top/docs/man/*.7 $top/packaging/*.md $top/config/*/*.md $top/test/*.md $top/test/*/*.md $top/test/*/*/*.md"
        . " $top/o*/mca/*/*/{,*/}*.md");
    for my $path (grep { -f } @paths) {
        next if $path =~ m{(?:/parameters|/CHANGELOG)\.md$};
        my $text = contents($path) =~ s/\\-/-/gr;
        my $name = $path =~ s{^\Q$top\E/}{}r;
        my %faults;
        for ($text =~ /(?<![\w\/.-])((?:pml_spec|btl_ibx|rcache_lazy|mpool_freq)_[a-z]\w*+)(?!\*|\.[ch]\b)/g) {
            $faults{$_} = 1 unless $known{$_} || (my @files = glob("$top/*/mca/*/*/{,*/}$_*"));
        }
        result(join(', ', map { "what is $_?" } sort keys %faults), "names in $name");
    }
}

# ---- man pages ----

sub check_man {
    my ($groff) = grep { -x } map { "$_/groff" } split /:/, $ENV{PATH};
    for my $path (glob("$top/docs/man/*.7")) {
        my ($name) = $path =~ m{([^/]+)$};
        my $text = contents($path);
        my $fault = $text =~ /^\.SH NAME\n\Q@{[$name =~ s{\.7$}{}r]}\E \\- /m ? '' : 'its NAME is not its name';
        for ($text =~ /^\.BR (mca_\w+) \(7\)/mg) { $fault = "there is no $_(7)" unless -f "$top/docs/man/$_.7" }
        if (!length $fault && $groff) {
            $fault = `$groff -man -Tascii -ww -z '$path' 2>&1` =~ s/\n.*//sr;
        }
        result($fault, "man page $name");
    }
    skip('the macros of the man pages', 'there is no groff') unless $groff;
}

# ---- commands ----

# ([line, 'run' or the reason not to, commands]...)
sub blocks {
    my ($path) = @_;
    my (@blocks, $how, $block);
    my $n = 0;
    for (split(/\n/, contents($path)), '') {
        ++$n;
        if (/^<!-- (run) -->$|^<!-- skip: (.*) -->$/) { $how = $1 // $2; next }
        if (/^    (.*)/) {
            $block //= [$n, $how, ''];
            $block->[2] .= "$1\n";
        } elsif ($block) {
            push @blocks, $block if defined $block->[1] || $block->[2] =~ m{^(?:sudo |\$ )?(?:mpirun|make|\./|export|ompi_info|test/)};
            ($block, $how) = ();
        } elsif (/\S/) {
            $how = undef;
        }
    }
    return @blocks;
}

sub run_block {
    my ($dir, $commands) = @_;
    open my $script, '>', "$dir/commands" or die "$dir/commands: $!\n";
    print $script $commands;
    close $script;
    my $out = `cd $dir && timeout -k 5 120 bash -e ./commands 2>&1 </dev/null`;
    my $status = $? >> 8;
    my $jobs = () = $commands =~ /^mpirun/mg;
    my $good = () = $out =~ /^No errors$/mg;
    return '' if 0 == $status && $jobs == $good;
    return (0 == $status ? "$good of $jobs jobs said 'No errors'" : "it ended with $status") . ":\n" . $out =~ s/^/           | /gmr;
}

sub check_commands {
    my $dir = tempdir(CLEANUP => 1);
    copy("$programs/selfsend", "$dir/my_program") or die "$programs/selfsend: $!\n";
    chmod 0755, "$dir/my_program";
    mpi_release();
    local $ENV{HOME} = $dir;
    # Two processes, however few processors there are.
    local @ENV{qw(OMPI_MCA_rmaps_base_oversubscribe OMPI_MCA_mpi_yield_when_idle)} = (1, 1);
    my %mapping = ('5.0' => 'rmaps_default_mapping_policy', '6.0' => 'mapby');
    my $mapping = $mapping{mpi_release()};
    local $ENV{"PRTE_MCA_$mapping"} = ':oversubscribe' if defined $mapping;
    for my $file ('README.md', 'docs/user/guide.md') {
        for (blocks("$top/$file")) {
            my ($line, $how, $commands) = @$_;
            my ($first) = $commands =~ /^(.*)/;
            my $name = "$file:$line: $first";
            if (!defined $how) { result('nothing says whether it is to be run', $name) }
            elsif ('run' ne $how) { skip($name, $how) }
            else { result(run_block($dir, $commands), $name) }
        }
    }
}

$| = 1;
check_names();
check_man();
if ('spec' eq $pml) { check_commands() } else { skip('commands', 'they are about pml/spec') }
print "$passed passed, $failed failed, $skipped skipped\n";
exit($failed > 0);
