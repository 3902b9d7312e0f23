# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
{
    id => 'onesided', chapter => 'Frequently used buffers', title => 'One-sided operations', paper => '000 fig. 5.7, 5.8',
    shown => 'MPI_Put or MPI_Get, each with its MPI_Win_fence: one buffer for all, and buffers that are used 1 to 40 times.',
    expected => [
        'The thesis: MPI_Put up to 20 % faster at 8 KiB, MPI_Get from 3 KiB on, without the copy (section 5.5.1); less over the spectrum.',
        'Here ibx writes small data without a copy of its own in both; full reuse and spectrum should not differ. Most of the time is the fence.',
    ],
    program => 'onesided', runs => [{arguments => [qw(--reuse full)]}, {arguments => [qw(--reuse spectrum)]}],
    quick => [qw(--sizes 4K --repetitions 2 --buffers 10)], default => [qw(--sizes 128,1K,4K,8K --repetitions 6 --buffers 20)], full => [qw(--sizes 128,256,512,1K,2K,3K,4K,6K,8K)],
    sides => ['ob1/ibx', 'spec/ibx', 'mpich/tcp'], baseline => 'mpich/tcp', panel => [qw(op reuse)], x => 'size',
    names => {'reuse=full' => 'one buffer', 'reuse=spectrum' => 'spectrum', 'op=put' => 'put', 'op=get' => 'get', 'op=fence' => 'fence alone'},
    values => [{key => 'us', unit => 'us', better => 'less'}],
    departures => 'Open MPI has no one-sided operations over tcp alone in this release, so MPICH over TCP is the baseline.', draw => {x => 'bytes', logx => 1}, rounds => 5, seconds => 30,
}
