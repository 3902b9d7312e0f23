# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# What the tests must know of the Open MPI that runs them. They are written in the words of 4.1; here they become those
# of the release at hand. Nothing else in the tests asks for the release.
#
# 4.1 to 5.0: the transport through shared memory is called sm instead of vader, and copies between processes through
# components of their own (smsc); mpirun is another program (prterun) with another word for more processes than slots. 5.0 to
# 6.0: nothing that tests notice.
package OpenMPI;
use strict;
use warnings;
use Cwd 'abs_path';
use Exporter 'import';
use File::Basename 'dirname';
use File::Temp;
our @EXPORT = qw(mpi_release mpi_has mpi_words mpi_mpirun mpi_whole_lines mpi_lossy mpi_has_accelerators mpi_accelerator mpi_device mpi_use_components mpi_use_sanitizer);

my %release_of;

# '4.1', '5.0', ...; ends the script if mpirun does not tell.
sub mpi_release {
    my ($mpirun) = @_;
    $mpirun //= 'mpirun';
    return $release_of{$mpirun} if $release_of{$mpirun};
    my $said = `timeout 60 $mpirun --version 2>&1 </dev/null` // '';
    $said =~ /\(Open MPI\) (\d+\.\d+)/ or die "$mpirun does not say which Open MPI it belongs to: $said\n";
    my $release = $release_of{$mpirun} = $1;
    # Processes of one host are to try the datagrams; lists ask for the kernel's copies where they are meant.
    $ENV{OMPI_MCA_btl_ibx_single_copy} //= 0;
    if ($release ge '5.0') {
        # PMIx searches the directory of the components too, and reports each file there that is none of its own.
        $ENV{PMIX_MCA_mca_base_component_show_load_errors} //= 'none';
        # All processes are on this host, which may have no other network, but for the hosts of a laboratory.
        $ENV{OMPI_MCA_btl_tcp_if_include} //= 'lo' unless $ENV{SPEC_LAB};
        # prterun has another word for it.
        @ENV{qw(PRTE_ALLOW_RUN_AS_ROOT PRTE_ALLOW_RUN_AS_ROOT_CONFIRM)} = (1, 1) if 0 == $>;
    }
    return $release;
}

# Has this Open MPI the component, e.g. 'btl:ofi'? By the ompi_info beside mpirun, or the one in PATH.
my %components_of;

sub mpi_has {
    my ($mpirun, $component) = @_;
    my $info = $mpirun =~ m{/} && -x dirname($mpirun) . '/ompi_info' ? dirname($mpirun) . '/ompi_info' : 'ompi_info';
    $components_of{$mpirun} //= `timeout 60 $info --parsable 2>/dev/null </dev/null` // '';
    return $components_of{$mpirun} =~ /^mca:\Q$component\E:version:/m;
}

# All that is loaded before a rank, in one word; what was asked for last, a sanitizer's runtime, comes first.
sub preload_together {
    my (@words, @loaded) = ();
    while (@_) {
        my $word = shift;
        if ('-x' eq $word && @_ && $_[0] =~ /^LD_PRELOAD=(.*)/) {
            unshift @loaded, $1;
            shift;
        } else {
            push @words, $word;
        }
    }
    return (@words, @loaded ? ('-x', 'LD_PRELOAD=' . join ':', @loaded) : ());
}

# Words for mpirun, from those of 4.1.
sub mpi_words {
    my ($mpirun, @words) = @_;
    @words = preload_together(@words, split ' ', $ENV{SPEC_RANK_WORDS} // '');
    return @words if mpi_release($mpirun) lt '5.0';
    my ($map, @now) = ('');
    for my $i (reverse 0 .. $#words - 1) { # a second --map-by is refused, and --oversubscribe becomes one
        next if '--map-by' ne $words[$i];
        die "--map-by twice: $map and $words[$i + 1]\n" if length $map;
        (undef, $map) = splice @words, $i, 2;
    }
    push @words, '--map-by' if length $map && !grep { '--oversubscribe' eq $_ } @words;
    while (defined(my $word = shift @words)) {
        if ('--oversubscribe' eq $word) {
            push @now, '--map-by', "$map:oversubscribe";
        } elsif ('--map-by' eq $word) {
            push @now, $word, $map;
        } elsif ('btl_vader_single_copy_mechanism' eq $word) {
            my $how = shift @words;
            push @now, 'smsc', 'none' eq $how ? '^cma,knem,xpmem,accelerator' : $how;
        } elsif ('-np' eq $word && $ENV{SPEC_LAB}) {
            push @now, '--leave-session-attached', $word; # for what test/lab/LabNet.pm sets for 4.1
        } else {
            push @now, $word =~ s/\bvader\b|(?<=btl_)vader(?=_)/sm/gr;
        }
    }
    return @now;
}

# Programs started from here load the components of DIR. In 4.1 that comes beside its own directory of components. 5.0 has
# its own in its libraries, and PMIx, which gets the path too, does not know that word and complains.
sub mpi_use_components {
    my ($mpirun, $dir) = @_;
    $ENV{OMPI_MCA_mca_base_component_path} = mpi_release($mpirun) lt '5.0' ? "$dir:SYSTEM_DEFAULT" : $dir;
}

# Ranks started from here, and by the scripts that are, load components of DIR that a sanitizer ('address' or 'thread') has
# instrumented. Its runtime must be in a process before they are; mpirun itself goes without. What it reports stands in files
# whose names begin with REPORTS: a rank's exit code says nothing where the job is meant to fail.
sub mpi_use_sanitizer {
    my ($sanitizer, $dir, $reports) = @_;
    my @runtime = `ldd $dir/mca_pml_spec.so` =~ m{=> (/\S*/lib(?:a|ub|t)san\.so\S*)}g;
    my $name = 'address' eq $sanitizer ? 'libasan' : 'libtsan';
    die "the components in $dir are not built with -fsanitize=$sanitizer\n" if !grep { m{/$name} } @runtime;
    # A test that dies by SIGSEGV means to; others are seen to fail.
    my $common = "log_path=$reports:handle_segv=0:handle_sigbus=0";
    my $suppressions = dirname(abs_path(__FILE__)) . '/tsan.supp';
    my %options = (
        # Open MPI leaves much lying at the end.
        ASAN_OPTIONS => "$common:detect_leaks=0:detect_stack_use_after_return=1",
        UBSAN_OPTIONS => "$common:print_stacktrace=1",
        # Open MPI's own accesses are not seen, so they must not count when libc makes them for it.
        TSAN_OPTIONS => "$common:ignore_noninstrumented_modules=1:history_size=5:suppressions=$suppressions",
    );
    my @names = grep { 'address' eq $sanitizer xor /TSAN/ } sort keys %options;
    $ENV{SPEC_SANITIZER} = $sanitizer; # for scripts
    $ENV{SPEC_RANK_WORDS} = join ' ', '-x LD_PRELOAD=' . join(':', @runtime), map { "-x $_=$options{$_}" } @names;
}

# Words for mpirun: what arrives at the ranks' UDP sockets is lost, doubled, late or damaged at RATES (lossy.c), drawn from
# SEED. PROGRAMS: where the test programs are.
sub mpi_lossy {
    my ($programs, $rates, $seed) = @_;
    return ('-x', "LD_PRELOAD=$programs/.libs/lossy.so", '-x', "LOSSY=$rates", '-x', 'LOSSY_SEED=' . ($seed // int rand 1e6));
}

# Can this Open MPI have buffers in accelerators? 4.1 can if it was configured --with-cuda.
sub mpi_has_accelerators {
    my ($mpirun) = @_;
    $mpirun //= 'mpirun';
    return mpi_release($mpirun) ge '5.0' || mpi_has($mpirun, 'coll:cuda');
}

# Words for mpirun: Open MPI has an accelerator, that of test/accel; 4.1 has the driver that stands there. PROGRAMS: where the test
# programs are.
sub mpi_accelerator {
    my ($programs) = @_;
    return ('-x', "LD_PRELOAD=$programs/.libs/libcuda.so.1") if mpi_release() lt '5.0';
    my $path = $ENV{OMPI_MCA_mca_base_component_path} // 'SYSTEM_DEFAULT';
    return ('--mca', 'accelerator', 'test', '--mca', 'mca_base_component_path', "$path:$programs/.libs");
}

# The same, and buffers of test programs are in its memory: all of them, or some.
sub mpi_device {
    my ($programs, $which) = @_;
    return (mpi_accelerator($programs), '-x', "LD_PRELOAD=$programs/.libs/device.so", '-x', "DEVICE=$which");
}

# Exit code and output of COMMAND PROGRAM, COMMAND from mpi_mpirun, for a test that reads the lines of more than one process: what
# a process writes to standard error stands in the second part, in whole lines. mpirun may put one's line into another's of which
# it has read a part. It is ended after SECONDS (exit code 124).
sub mpi_whole_lines {
    my ($seconds, $command, $program) = @_;
    my $lines = File::Temp->new;
    my $out = `timeout -k 5 $seconds $command sh -c 'exec "\$0" "\$@" 2>>$lines' $program 2>&1 </dev/null`;
    my $code = $? & 127 ? 128 + ($? & 127) : $? >> 8;
    local $/;
    return ($code, $out . (<$lines> // ''));
}

# The beginning of a command line: mpi_mpirun(PROCESSES, WORDS...), for scripts that run jobs themselves.
sub mpi_mpirun {
    my ($np, @words) = @_;
    return join ' ', mpi_words('mpirun', 'mpirun', '-np', $np, '--oversubscribe', map { split ' ' } @words);
}

1;
