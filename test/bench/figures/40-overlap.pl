# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
use Report::Stats;
{
    id => 'overlap', chapter => 'Overlap and progress', title => 'Overlap of a transfer with computation', paper => '000 fig. 3.14, 4.13',
    shown => 'Share of the transfer that is hidden behind a computation between the nonblocking call and the wait (equation 3.4), for either side, whoever comes first; and what the message costs on top of the computation.',
    expected => [
        'The thesis: receive overlap rises from below 10 % to more than 80 % (receiver first: more than 92 %); send overlap falls by 2 to 14 points when the receiver comes first (section 4.4.1).',
        'Here, receiver first: near 100 % at the receiver; at the sender near 0, because its processor copies the data in shared memory, where an adapter would.',
    ],
    program => 'overlap', quick => [qw(--sizes 256K --iterations 5 --milliseconds 100)], default => [qw(--sizes 128K,256K,512K,1M --iterations 20 --milliseconds 300)],
    full => [qw(--iterations 50)],
    sides => ['spec/vader', 'ob1/vader'], baseline => 'ob1/vader', panel => [qw(side order)], x => 'size',
    names => {
        'side=receive' => 'the receiver computes', 'side=send' => 'the sender computes', 'order=receiver-first' => 'the receive comes first',
        'order=sender-first' => 'the send comes first',
    },
    reduce => sub { my ($r) = @_; @$r{qw(hidden exposed_us)} = (100 * $r->{raw}, $r->{total_us} - $r->{compute_us}) if defined $r->{raw}; return $r },
    values => [{key => 'hidden', unit => '% hidden'}, {key => 'exposed_us', unit => 'us on top', better => 'less', minor => 1}],
    departures => 'The computation is fixed at twice the transfer, not searched for; the order of arrival is forced by an empty message (test/bench/README.md).',
    found => sub { return Report::Stats::middles('hidden', '%.0f %% hidden', @_) },
    draw => {x => 'bytes', logx => 1, range => [-20, 110]}, rounds => 5, seconds => 50,
}
