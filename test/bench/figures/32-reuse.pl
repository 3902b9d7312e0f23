# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
{
    id => 'reuse', chapter => 'Registration and reuse of buffers', title => 'Ping-pong with fresh and with reused buffers', paper => '000 fig. 3.12',
    shown => 'Half a round trip when every message has a new buffer, every second one, and always the same.',
    expected => [
        'The thesis: no reuse costs up to 6.7 times full reuse over InfiniBand (16 KiB), 2.8 times over iWARP (32 KiB), with a jump at the eager limit; below 512 bytes less than 20 % (section 3.5.2).',
        'Here: the processor\'s caches and, over ibx, a new STag; no pinning. So less.',
    ],
    program => 'reuse', quick => [qw(--sizes 16K --repetitions 3)], default => [qw(--sizes 4K,16K,64K,256K --repetitions 7)], full => [qw(--sizes 1K,4K,16K,32K,64K,256K,1M)],
    sides => ['ob1/ibx', 'ob1/tcp', 'spec/vader'], one_side => 1, panel => ['who'], x => 'size',
    values => [
        {key => 'us_0', name => 'no reuse', unit => 'us', better => 'less', beside => 'full reuse'},
        {key => 'us_50', name => 'half', unit => 'us', better => 'less', beside => 'full reuse'}, {key => 'us_100', name => 'full reuse', unit => 'us'},
    ],
    draw => {x => 'bytes', logx => 1, logy => 1}, rounds => 5, seconds => 30,
}
