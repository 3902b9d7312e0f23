# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
{
    id => 'eager-limit', chapter => 'Limits', title => 'The eager limit', paper => '002 fig. 4.3',
    shown => 'Ping-pong over ibx with the limit between eager and rendezvous messages at 2, 4, 8, 16, 32 and 64 KiB.',
    expected => [
        'The paper: with 1 KiB there is a distinct slowdown from 512 bytes to 8 KiB; 4 or 8 KiB are best (section 4.3.1.1).',
        'Here, over UDP: 64 KiB is the default (8 KiB over adapters, whose buffers are registered), and no other should be much better at any size.',
    ],
    program => 'pingpong', arguments => [qw(--mode lat --inner 50)],
    quick => [qw(--sizes 2K --repetitions 3)], default => [qw(--sizes 512,2K,4K,8K,16K,32K,60K --repetitions 8)], full => [qw(--sizes 256,512,1K,2K,3K,4K,6K,8K,12K,16K,32K,60K)],
    sides => [
        map { my $kib = $_; {name => "$kib KiB", of => 'spec/ibx', mca => [map({ "btl_ibx_$_ " . 1024 * $kib } qw(eager_limit rndv_eager_limit))]} } 2, 4, 8, 16, 32, 64,
    ],
    baseline => '64 KiB', x => 'size', values => [{key => 'us', unit => 'us', better => 'less'}], draw => {x => 'bytes', logx => 1}, rounds => 5, seconds => 30,
}
