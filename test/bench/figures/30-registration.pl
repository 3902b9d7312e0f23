# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
{
    id => 'registration', chapter => 'Registration and reuse of buffers', title => 'What registering memory costs', paper => '000 fig. 3.10, 5.1, table 5.3',
    shown => 'Locking pages (mlock, what an adapter\'s driver does besides telling the adapter), copying, and finding a buffer; what the caches lazy and grdma add to a registration that is not cached, and what one that is cached costs.',
    expected => [
        'The thesis: registering costs far more than copying for small buffers and grows with the size, so that 432 (below 1 KiB) to 60 (4 KiB) uses repay it (table 5.3).',
        'Here: the same shape; a hit in lazy does not depend on how much is cached.',
    ],
    runs => [
        {program => 'spectrum', arguments => [qw(--count 20 --pairs 1 --each 0 --sends 1000 --sizes 128,512,1024,4096,8192,16384)]},
        {program => 'rcache', arguments => [qw(--mode cost)]}, {program => 'rcache', arguments => [qw(--mode hit)]},
    ],
    reduce => sub { my ($r) = @_; $r->{size} //= $r->{buffers} if ($r->{threads} // 0) == 1; return $r },
    sides => ['alone'], one_side => 1, x => 'size',
    values => [
        {of => 'costs', panel => 'Register or copy (bytes)', key => 'register_us', name => 'register (mlock)', unit => 'us'},
        {of => 'costs', panel => 'Register or copy (bytes)', key => 'copy_us', name => 'copy', unit => 'us'},
        {of => 'costs', panel => 'Register or copy (bytes)', key => 'lookup_us', name => 'look up', unit => 'us'},
        {of => 'cost', panel => 'Not cached: what the cache adds (bytes)', key => 'lazy_us', name => 'lazy', unit => 'us', better => 'less', beside => 'grdma'},
        {of => 'cost', panel => 'Not cached: what the cache adds (bytes)', key => 'grdma_us', name => 'grdma', unit => 'us'},
        {of => 'hit', panel => 'Cached (buffers in the cache)', key => 'lazy_ns', name => 'lazy', unit => 'ns', better => 'less', beside => 'grdma'},
        {of => 'hit', panel => 'Cached (buffers in the cache)', key => 'grdma_ns', name => 'grdma', unit => 'ns'},
        {of => 'costs', panel => 'Uses that repay registering (0: none do)', key => 'n', name => 'n', unit => 'uses', minor => 1},
    ],
    departures => 'There is no adapter here: the part that the adapter has in it is missing.',
    draw => {x => 'bytes, or buffers', logx => 1, logy => 1}, rounds => 5, seconds => 30,
}
