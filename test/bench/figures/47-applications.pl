# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
{
    id => 'applications', chapter => 'Overlap and progress', title => 'Applications between two hosts', paper => 'no figure of a paper',
    shown => 'Time to solution of whole programs on two hosts of the laboratory (network namespaces, one processor each): LAMMPS, HPCC, the kernels CG and LU, and MPI-IO with a shared file.',
    expected => ['Here: spec over ibx is the fastest, or within the noise of the fastest.'],
    needs => ['hosts in network namespaces'], hosts => [qw(--ipv4 --split-cpus)],
    runs => [
        {program => 'application', arguments => ['lammps'], tags => {what => 'LAMMPS'}, modes => [qw(default full)]},
        {program => 'application', arguments => ['hpcc'], tags => {what => 'HPCC'}, modes => [qw(default full)]},
        (map { {program => 'kernels', arguments => ['--kernel', $_, '--repetitions', 30], tags => {what => uc}} } qw(cg lu)),
        {program => 'fileio', arguments => [qw(--sizes 64K --file /run/spec-lab/spec-fileio)], tags => {what => 'MPI-IO'}},
    ],
    sides => [
        'spec/ibx', 'ob1/ibx', 'spec/tcp', 'ob1/tcp',
        {name => 'ucx/tcp', of => 'ucx/tcp', mca => ['pml_ucx_tls any', 'pml_ucx_devices any'], env => {UCX_TLS => 'tcp,self'}},
    ],
    baseline => 'ob1/tcp', x => 'what',
    reduce => sub { my ($r) = @_; $r->{ms} = defined $r->{s} ? 1000 * $r->{s} : $r->{iteration_us} / 1000 if defined($r->{s} // $r->{iteration_us}); return $r },
    values => [{key => 'ms', unit => 'ms', better => 'less'}],
    draw => {x => 'application (an iteration of CG and LU)', logy => 1}, rounds => 3, seconds => 120,
}
