# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
{
    id => 'spectrum', chapter => 'Frequently used buffers', title => 'Small buffers that are used again and again', paper => '000 fig. 5.5, 5.6',
    shown => 'What the processor does per send, when a buffer is copied each time and when the table decides: buffers that are used so often each (1000: the ping-pong of fig. 5.5), and the spectrum of 1 to N uses back to back and on pages of their own.',
    expected => [
        'The thesis: latency improves by up to 14 % in the ping-pong, 12.7 % over the spectrum (8 KiB), of which the copy is a part; below 128 bytes nothing (section 5.5.1).',
        'Here only the processor\'s part is measured, so shares are larger; a buffer that is used little more than 25 % of n times loses, which is the rule\'s bet.',
    ],
    program => 'spectrum', quick => [qw(--sizes 4096 --count 50 --pairs 1 --each 0 --sends 100000)], default => [qw(--sizes 1024,8192 --count 200 --pairs 3 --sends 200000)], full => [qw(--pairs 3 --sends 200000)],
    sides => ['alone'], one_side => 1, x => 'uses', panel => [qw(scheme size)],
    reduce => sub { my ($r) = @_; $r->{uses} = 'all' if ($r->{uses} // 0) < 0; return $r },
    names => {'scheme=each' => 'each so often', 'scheme=back-to-back' => 'spectrum, back to back', 'scheme=pages-apart' => 'spectrum, pages apart', 'scheme=never-again' => 'never used again', 'scheme=mixed' => 'one of three used again'},
    values => [
        {of => 'spectrum', key => 'freq_ns', name => 'table', unit => 'ns', better => 'less', beside => 'copied'},
        {of => 'spectrum', key => 'copy_ns', name => 'copied', unit => 'ns'},
    ],
    departures => 'No network: what is posted to an adapter is a descriptor in memory, and registering is mlock.', draw => {x => 'uses', logx => 1, logy => 1},
    rounds => 3, seconds => 40,
}
