# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
use Report::Stats;

my $ranks = 10_000;
my @mpi = ('spec/ibx', 'ob1/ibx', 'ob1/tcp');
my $text = sub { my ($us) = @_; return $us < 1e4 ? sprintf('%.1f ms', $us / 1e3) : sprintf('%.2f s', $us / 1e6) };

# A line through what one series has at different numbers of processes, over the peers of one.
my $line = sub {
    my ($key, $series, @points) = @_;
    my @those = grep { $_->{key} eq $key && $_->{series} eq $series } @points;
    my $fit = Report::Stats::fit_line(map { [$_->{x} - 1, $_->{median}] } @those) or return;
    return {%$fit, most => (sort { $b <=> $a } map { $_->{x} } @those)[0]};
};
my $largest = sub {
    my ($key, $series, @points) = @_;
    my ($p) = sort { $b->{x} <=> $a->{x} } grep { $_->{key} eq $key && $_->{series} eq $series } @points;
    return $p;
};
{
    id => 'scale', chapter => 'Memory', title => 'What 10,000 processes would cost', paper => 'no figure of a paper',
    shown => 'Parts that are measured here, and what they add up to for 10,000 processes that all talk to each other. Memory and time of a first all-to-all of 4 KiB (processes of this host); and the datagram engine by itself, in virtual time: many processes send 64 KiB each, four times, to one whose port has 10 Gbit/s and a switch\'s queue of 1 ms.',
    expected => 'Memory of datagrams grows by a few KiB for a peer, that of connections by more. Where the switch marks (ECN) less is sent again than where it only drops.',
    program => 'memory',
    runs => [
        map({ {processes => $_, only => \@mpi, arguments => [qw(--size 4K --settle-ms 300)]} } 4, 8, 16),
        map({
            my ($name, @mark) = @$_;
            {program => 'incast', only => ['engine'], tags => {switch => $name}, arguments => ['--senders', '64,1000', @mark]}
        } ['drops'], ['marks', qw(--mark-us 200)]),
    ],
    sides => [@mpi, {name => 'engine', of => 'alone'}], beside => {map { $_ => 'ob1/tcp' } @mpi[0, 1]}, x => 'ranks',
    reduce => sub {
        my ($r) = @_;
        if ($r->{bench} eq 'memory') {
            $r->{kib} = ($r->{pss_kib} + $r->{socket_kib} + $r->{slab_kib}) / $r->{ranks};
            $r->{connect_us} = $r->{first_us} > $r->{again_us} ? $r->{first_us} - $r->{again_us} : 0;
        } elsif ($r->{bench} eq 'incast') {
            $r->{ranks} = 1 + $r->{senders};
            $r->{slowdown} = $r->{ms} / $r->{ideal_ms};
            $r->{again} = 100 * $r->{resent} / $r->{segments};
        }
        return $r;
    },
    values => [
        {of => 'memory', panel => 'Memory of a process', key => 'kib', unit => 'KiB', better => 'less'},
        {of => 'memory', panel => 'First all-to-all, beyond another', key => 'connect_us', unit => 'us', better => 'less'},
        {of => 'incast', panel => 'Memory of the engine for each peer', key => 'peer_bytes', unit => 'bytes'},
        {of => 'incast', panel => 'Many to one: time, beside that of the payload alone', key => 'slowdown', unit => 'times'},
        {of => 'incast', panel => 'Many to one: segments sent again', key => 'again', unit => '%'},
    ],
    lines => ['switch'],
    found => sub {
        my @points = @_;
        my @said;
        for my $side (@mpi) {
            my ($kib, $us) = map { $line->($_, $side, @points) } qw(kib connect_us);
            push @said, sprintf 'Computed, %s: %.1f + %.2f (p - 1) KiB, at p = %d: %.0f MiB per process. Measured up to p = %d; not a measurement.',
                $side, @$kib{qw(a b)}, $ranks, ($kib->{a} + $kib->{b} * ($ranks - 1)) / 1024, $kib->{most} if $kib;
            push @said, sprintf 'Computed, %s: the first exchange takes %.0f us more for each peer, at p = %d: %s. Measured with %d processes that share the processors of one host; not a measurement.',
                $side, $us->{b}, $ranks, $text->($us->{b} * ($ranks - 1)), $us->{most} if $us;
        }
        for my $series (sort(do { my %seen; grep { !$seen{$_}++ } map { $_->{series} } grep { $_->{key} eq 'peer_bytes' } @points })) {
            my ($bytes, $slow, $again) = map { $largest->($_, $series, @points) } qw(peer_bytes slowdown again);
            push @said, sprintf 'Computed, %s: %.0f bytes for each of %d peers: %.1f MiB. With %d senders in virtual time %.2f times the ideal time, %.1f %% sent again.',
                $series, $bytes->{median}, $ranks - 1, $bytes->{median} * ($ranks - 1) / 1048576, $bytes->{x} - 1, $slow->{median}, $again->{median};
        }
        return @said;
    },
    departures => 'A line through a few numbers of processes is taken a thousand times further, and no machine of that size was there.',
    draw => {x => 'processes', logx => 1}, rounds => 3, seconds => 60,
}
