# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# The sides of a comparison: how each runs a program, and why it cannot here.
#
# A side is a name, or {name, of, mca => ['KEY VALUE'], env => {}, arguments => []}: another side with more parameters.
#     PML/BTL      Open MPI with that PML and transport: spec/vader, ob1/tcp, ob1/openib, ...
#     ofi/PROVIDER Open MPI over libfabric (pml cm, mtl ofi): ofi/tcp, ofi/udp
#     mpich/shm, mpich/tcp   MPICH; the program is compiled for it when it is first needed
#     alone        the program without mpirun
# A side or a figure needs what need() knows: each is a name with a test that returns the reason why it is not there.
package Report::Sides;

use strict;
use warnings;
use BenchRun;
use Cwd qw(abs_path);
use File::Basename qw(dirname);
use File::Temp qw(tempdir);
use OpenMPI;

my $here = dirname(dirname(abs_path(__FILE__)));
my $top = abs_path("$here/../..");

# new($runner): $runner is a BenchRun.
sub new {
    my ($class, $runner) = @_;
    my $cpus = () = read_file('/proc/cpuinfo') =~ /^processor\s*:/mg;
    return bless {runner => $runner, cpus => $cpus || 1, mpich => {}}, $class;
}

sub read_file { my ($name) = @_; open my $in, '<', $name or return ''; local $/; return scalar <$in> // '' }

sub in_path { my ($program) = @_; return grep { -x "$_/$program" } split /:/, $ENV{PATH} // '' }

sub normal {
    my ($side) = @_;
    return ref $side ? {of => 'spec/vader', %$side} : {name => $side, of => $side};
}

# ---- what is needed ----

my %test = (
    'the RDMA device' => sub {
        for (glob '/sys/class/infiniband/*/ports/*/state') {
            return if read_file($_) =~ /ACTIVE/;
        }
        return 'no RDMA device with an active port (/sys/class/infiniband); test/lab/verbs has one in a virtual machine';
    },
    MPICH => sub {
        return if in_path('mpicc.mpich') && in_path('mpiexec.mpich');
        return 'MPICH is not installed (Debian: mpich, libmpich-dev)';
    },
    'hosts in network namespaces' => sub {
        my ($status, undef, $errors) = BenchRun::command(30, "$top/test/lab/hosts", '--timeout', 20, '--', 'true');
        return if $status eq '0';
        my ($why) = $errors =~ /SKIP: (.*)/;
        return 'no second host: ' . ($why // 'test/lab/hosts failed here');
    },
);

# The reason why something is missing, or nothing. NAMEs are those above, and 'FRAMEWORK:COMPONENT' of Open MPI.
sub missing {
    my ($self, $what) = @_;
    if (!exists $self->{missing}{$what}) {
        $self->{missing}{$what} = $test{$what} ? $test{$what}->() : $self->no_component($what);
    }
    return $self->{missing}{$what};
}

sub no_component {
    my ($self, $what) = @_;
    if (!$self->{components}) {
        my $said = '';
        # Beside mpirun, unless that is a wrapper of another place.
        for my $info ($self->{runner}{mpirun} =~ s/mpirun(?=[^\/]*$)/ompi_info/r, 'ompi_info') {
            (undef, $said) = BenchRun::command(60, $info, '--parsable', '--all') if $said !~ /^mca:/m;
        }
        $self->{components} = {map { $_ => 1 } $said =~ /^mca:([a-z]+:[a-z0-9_]+):version/mg};
    }
    my ($framework, $component) = split /:/, $what;
    $component = 'sm' if $component eq 'vader' && mpi_release($self->{runner}{mpirun}) ge '5.0';
    return if $self->{components}{"$framework:$component"};
    return "this Open MPI has no component $framework/$component";
}

sub needs_of {
    my ($side) = @_;
    my ($first, $second) = split m{/}, $side->{of};
    return () if $first eq 'alone';
    return 'MPICH' if $first eq 'mpich';
    return ('mtl:ofi') if $first eq 'ofi';
    return ("pml:$first", map({ "btl:$_" } split /,/, $second), $second eq 'openib' ? 'the RDMA device' : ());
}

# Why a side cannot run, or nothing.
sub why_not {
    my ($self, $side) = @_;
    for my $need (needs_of($side), @{$side->{needs} // []}) {
        my $why = $self->missing($need);
        return $why if defined $why;
    }
    return;
}

# Others' software: that it fails here is told on the page, and is no failure of the report.
sub is_foreign { return $_[0]{of} =~ m{^(mpich|ofi|ucx)/} }

# ---- running ----

sub placement {
    my ($self, $processes) = @_;
    return qw(--oversubscribe --bind-to none --mca mpi_yield_when_idle 1) if $processes > $self->{cpus};
    return @{$self->{runner}->placement($processes)};
}

# What is compiled, or a script beside this one.
sub program { my ($self, $name) = @_; return 'application' eq $name ? "$here/$name" : "$self->{runner}{programs}/$name" }

# The program compiled for MPICH.
sub for_mpich {
    my ($self, $name) = @_;
    return $self->{mpich}{$name} //= do {
        $self->{mpich_dir} //= tempdir('report-mpich-XXXXXX', TMPDIR => 1, CLEANUP => 1);
        my $made = "$self->{mpich_dir}/$name";
        my ($status, $output, $errors) =
            BenchRun::command(120, qw(mpicc.mpich -std=gnu11 -O2 -w -o), $made, "$here/$name.c", qw(-lpthread -lm));
        $status eq '0' or die "$name.c cannot be compiled for MPICH:\n$errors";
        $made;
    };
}

# The records of one run of a side. run: {program, processes, arguments}. hosts: words for test/lab/hosts, if it is to run there.
sub run {
    my ($self, $side, $run, $hosts) = @_;
    my ($first, $second) = split m{/}, $side->{of};
    my @arguments = (@{$run->{arguments}}, @{$side->{arguments} // []});
    my $program = $side->{program} // $run->{program};
    my $np = $run->{processes};
    local %ENV = (%ENV, %{$side->{env} // {}});
    my @prefix;
    if ($hosts) {
        @prefix = ("$top/test/lab/hosts", @$hosts, '--timeout', $self->{runner}{timeout}, '--');
    }
    my @place = $hosts ? qw(--bind-to none) : $self->placement($np);
    -x $self->program($program) || $first eq 'mpich'
        or die 'there is no program ' . $self->program($program) . ": build it first, or give --programs DIR\n";
    return $self->{runner}->execute(@prefix, $self->program($program), @arguments) if $first eq 'alone';
    if ($first eq 'mpich') {
        # Its shared memory and its sockets are those of UCX or libfabric, as Debian builds it.
        local %ENV = (%ENV, $second eq 'tcp' ? (UCX_TLS => 'tcp,self', FI_PROVIDER => 'tcp', MPIR_CVAR_NOLOCAL => 1) : ());
        my @bind = $np <= $self->{cpus} ? qw(-bind-to core) : ();
        return $self->{runner}->execute('mpiexec.mpich', '-n', $np, @bind, $self->for_mpich($program), @arguments);
    }
    my @mca = map { my ($key, $value) = split ' ', $_, 2; ('--mca', $key, $value // '') } @{$self->{runner}{mca}}, @{$side->{mca} // []};
    my %provider = (tcp => 'tcp;ofi_rxm', udp => 'udp;ofi_rxd');
    my @way = $first eq 'ofi' ? ('--mca', 'pml', 'cm', '--mca', 'mtl', 'ofi', '--mca', 'mtl_ofi_provider_include', $provider{$second})
        : ('--mca', 'pml', $first, '--mca', 'btl', "self,$second");
    my @words = ('-np', $np, split(' ', $self->{runner}{mpirun_args}), @place, @way, @mca);
    my $mpirun = $self->{runner}{mpirun};
    return $self->{runner}->execute(@prefix, $mpirun, mpi_words($mpirun, @words), $self->program($program), @arguments);
}

1;
