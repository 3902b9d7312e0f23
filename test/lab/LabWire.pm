# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# A switch that is a program: takes Ethernet frames from tap devices and passes them on late, in another order, twice,
# damaged or not at all. For what the kernel's own bridge cannot do.
package LabWire;

use strict;
use warnings;
use Fcntl;
use Time::HiRes qw(time);

use constant TUNSETIFF => 0x400454ca;
use constant { IFF_TAP => 2, IFF_NO_PI => 0x1000 };
use constant { FRAME => 70000, AT_ONCE => 64 };
use constant QUEUE => 0.05;    # seconds that may wait before a link of limited rate; what is more is lost

# Makes a tap device; it lives as long as the handle that is returned.
sub tap {
    my ($name) = @_;
    sysopen my $device, '/dev/net/tun', O_RDWR | O_NONBLOCK or die "hosts: /dev/net/tun: $!\n";
    ioctl $device, TUNSETIFF, pack('a16 s x22', $name, IFF_TAP | IFF_NO_PI) or die "hosts: tap device $name: $!\n";
    return $device;
}

# Is the frame one that --affect means?
sub is_affected {
    my ($frame, $all) = @_;
    my $type = unpack 'n', substr $frame, 12, 2;
    my $protocol = $type == 0x0800 ? ord substr $frame, 23, 1 : $type == 0x86dd ? ord substr $frame, 20, 1 : 0;
    return $protocol == 17 || ($all && $protocol == 6);
}

# One bit, behind the headers that the kernel reads. With the checksum left as it was, UDP would notice; so it is
# taken away from IPv4's UDP, as a bad adapter would that checks before it damages.
sub damage {
    my ($frame) = @_;
    my $is4 = 0x0800 == unpack 'n', substr $frame, 12, 2;
    my $start = $is4 ? 14 + 20 + 8 : 14 + 40 + 8;
    return $frame if length $frame <= $start;
    substr($frame, 14 + 20 + 6, 2) = "\0\0" if $is4 && 17 == ord substr $frame, 23, 1;
    my $at = $start + int rand(length($frame) - $start);
    substr($frame, $at, 1) = chr(ord(substr $frame, $at, 1) ^ 1 << int rand 8);
    return $frame;
}

# Does not return. Each port: {rail, host, device}; rate in bits per second or undef.
sub run {
    my ($lab, $rate, @ports) = @_;
    my ($loss, $twice, $bad, $late) = map { $lab->{$_} / 100 } qw(loss duplicate corrupt reorder);
    my ($delay, $later) = map { $lab->{$_} / 1000 } qw(delay reorder-by);
    my $all = $lab->{affect} eq 'all';
    my $meddles = $loss || $twice || $bad || $late;
    my (%place, @due);    # port of an address in a rail; [time, port, frame], sorted
    my $watched = '';
    vec($watched, fileno $_->{device}, 1) = 1 for @ports;
    my $free_at = sub {
        my ($port, $now, $bytes) = @_;
        return $now if !defined $rate;
        my $from = ($port->{free} //= 0) > $now ? $port->{free} : $now;
        return if $from - $now > QUEUE;
        return $port->{free} = $from + 8 * $bytes / $rate;
    };
    my $pass = sub {
        my ($port, $now, $frame, $extra) = @_;
        my $at = $free_at->($port, $now, length $frame);
        return if !defined $at;
        $at += $delay + $extra;
        my $i = @due;
        --$i while $i > 0 && $due[$i - 1][0] > $at;
        splice @due, $i, 0, [$at, $port, $frame];
    };
    for (;;) {
        my $now = time;
        while (@due && $due[0][0] <= $now) {
            my $one = shift @due;
            syswrite $one->[1]{device}, $one->[2];    # what does not fit is lost
        }
        my $wait = @due ? $due[0][0] - time : 10;
        my $ready = $watched;
        next if select($ready, undef, undef, $wait > 0 ? $wait : 0) <= 0;
        for my $port (@ports) {
            next if !vec $ready, fileno $port->{device}, 1;
            for (1 .. AT_ONCE) {
                sysread $port->{device}, my $frame, FRAME or last;
                next if length $frame < 14;
                my ($to, $from) = unpack 'a6 a6', $frame;
                $place{"$port->{rail}$from"} = $port;
                my $known = $place{"$port->{rail}$to"};
                my @where = $known ? $known : grep { $_ != $port && $_->{rail} == $port->{rail} } @ports;
                $now = time;
                my ($extra, $copies) = (0, 1);
                if ($meddles && is_affected($frame, $all)) {
                    next if rand() < $loss;
                    $frame = damage($frame) if rand() < $bad;
                    $extra = $later if rand() < $late;
                    $copies = 2 if rand() < $twice;
                }
                for (1 .. $copies) { $pass->($_, $now, $frame, $extra) for @where }
            }
        }
    }
}

1;
