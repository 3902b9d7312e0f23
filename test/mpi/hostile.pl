#!/usr/bin/env perl
# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# Datagrams that do not belong there against running jobs over btl/ibx: random, forged, replayed, changed, of an earlier job,
# at a rate that the ranks can take ('paced') and at the highest ('line'). Results must be right, no connection may end,
# nothing may be answered, memory must not grow, nothing may be said on the standard error, and the counters must be right:
#
#   came in + dropped by the kernel at the socket = sent by the other rank + sent by the attacker
#   refused as KIND <= sent of KIND, and what is missing was dropped; refused as anything else: nothing
#
# for each rank, exactly, as long as the kernel counts what it drops: it does at sockets (/proc/net/udp), and as one what was
# joined (so at line rate trains are off), and for all namespaces together before (softnet_stat), which widens the bounds.
#
# Throughput without and with the attack is printed, the ratio is the median of alternating runs. It is not judged.
#
# In a network namespace of its own if it may make one. What is recorded needs root: a skip otherwise.
#   --full   longer, all kinds    --pairs N   of runs    --only REGEX   of the names of the parts
#   --table   for docs/user/access-control.md
use strict;
use warnings;
use Cwd 'abs_path';
use FindBin;
use File::Temp 'tempdir';
use Getopt::Long;
use IPC::Open2;
use POSIX ();
use Socket qw(AF_INET SOCK_DGRAM);
use lib $FindBin::Bin;
use OpenMPI;
use Time::HiRes qw(time sleep);

$| = 1;
my @again = @ARGV;
my ($pml, $full, $programs, $only, $table, $wanted_pairs) = ('spec', 0, $ENV{SPEC_TEST_PROGRAMS} // '.', '', 0, 0);
GetOptions('pml=s' => \$pml, 'full' => \$full, 'programs=s' => \$programs, 'only=s' => \$only, 'table' => \$table,
    'pairs=i' => \$wanted_pairs) or die;
$programs = abs_path($programs);
# A network of its own, so that no other job's datagrams are recorded and nothing leaves the machine.
if (0 == $> && !$ENV{HOSTILE_NETWORK} && 0 == system('unshare -n true 2>/dev/null')) {
    $ENV{HOSTILE_NETWORK} = 1;
    exec 'unshare', '-n', abs_path($0), @again;
}
if ($ENV{HOSTILE_NETWORK}) { # whose loopback interface is down: SIOCSIFFLAGS, IFF_UP
    socket(my $any, AF_INET, SOCK_DGRAM, 0) or die;
    my $request = pack('a16 s x22', 'lo', 1);
    ioctl($any, 0x8914, $request) or die "hostile: no loopback interface: $!\n";
}
my $root = 0 == $>;
my $scratch = tempdir(CLEANUP => 1);
my ($passed, $failed, $skipped) = (0, 0, 0);
# Pairs of runs, seconds of each, datagrams a second that two ranks can take however busy the machine is, seconds for a job.
my ($pairs, $seconds, $paced, $limit) = $full ? (3, 1, 10000, 1200) : (1, 0.4, 10000, 300);
$pairs = $wanted_pairs if $wanted_pairs > 0;
$ENV{TEST_SECONDS} = $limit;
my $jobs = 0;
my @rows;
my %running; # processes that must not stay behind

sub result($$@) {
    my ($good, $what, @why) = @_;
    printf "%s hostile: %s\n", $good ? 'ok     ' : 'FAILED ', $what;
    print map { "        | $_\n" } @why if !$good;
    $good ? ++$passed : ++$failed;
}

sub skip {
    my ($what, $reason) = @_;
    print "skipped hostile: $what: $reason\n";
    ++$skipped;
}

sub median { my @s = sort { $a <=> $b } @_; return @s ? $s[@s / 2] : 0 }

# ---- a job ----

sub job_start {
    my ($np, $parameters, $program) = @_;
    my $mark = "hostile-$$-" . ++$jobs;
    my $mpirun = mpi_mpirun($np, "--mca mpi_yield_when_idle 1 --mca pml $pml --mca btl self,ibx --mca btl_ibx_if_include lo $parameters");
    my $job = { mark => $mark, np => $np, errors => "$scratch/$mark.err", lines => [] };
    $job->{pid} = open2($job->{out}, $job->{in},
        "exec timeout -k 5 $limit $mpirun $programs/$program --mark $mark 2>$job->{errors}");
    $running{ $job->{pid} } = 1;
    return $job;
}

# The processes with the job's mark that MPI started: [rank, pid].
sub ranks_of {
    my ($job) = @_;
    my @found;
    for my $dir (glob '/proc/[0-9]*') {
        local $/;
        open(my $in, '<', "$dir/cmdline") or next;
        my @word = split /\0/, <$in> // '';
        next if !@word || $word[0] !~ m{^\Q$programs\E/} || !grep { $_ eq $job->{mark} } @word;
        open(my $env, '<', "$dir/environ") or next;
        my ($rank) = (<$env> // '') =~ /(?:^|\0)(?:OMPI_COMM_WORLD_RANK|PMIX_RANK)=(\d+)/ or next;
        push @found, [$rank, $dir =~ s{.*/}{}r];
    }
    return @found;
}

# All UDP sockets: inode => { port, remote, waiting, drops }.
sub udp_sockets {
    my %socket;
    open(my $in, '<', '/proc/self/net/udp') or die;
    while (my $line = <$in>) {
        my @c = split ' ', $line;
        next if $c[0] !~ /^\d+:$/;
        $socket{$c[9]} = { port => hex($c[1] =~ s/.*://r), remote => hex($c[2] =~ s/.*://r), waiting => hex($c[4] =~ s/.*://r),
            drops => $c[12] };
    }
    return %socket;
}

# Waits for the socket of every rank; rank => { pid, inode, port }.
sub sockets_of {
    my ($job) = @_;
    for (1 .. 600) {
        my %all = udp_sockets();
        my @rank;
        for my $r (ranks_of($job)) {
            for my $fd (glob "/proc/$r->[1]/fd/*") {
                my ($inode) = (readlink($fd) // '') =~ /^socket:\[(\d+)\]$/ or next;
                next if !$all{$inode} || 0 != $all{$inode}{remote} || 0 == $all{$inode}{port};
                $rank[$r->[0]] = { pid => $r->[1], inode => $inode, port => $all{$inode}{port} };
            }
        }
        if ($job->{np} == grep { defined } @rank) {
            $job->{rank} = \@rank;
            return 1;
        }
        sleep 0.02;
    }
    return 0;
}

sub ports_of { return map { $_->{port} } @{ $_[0]{rank} } }

# The next line that matches, undef if the job has ended or says nothing for a minute.
sub hear {
    my ($job, $wanted) = @_;
    while (1) {
        my $line = eval {
            local $SIG{ALRM} = sub { die "silent\n" };
            alarm 60;
            my $l = readline $job->{out};
            alarm 0;
            $l;
        };
        alarm 0;
        return undef if !defined $line;
        push @{ $job->{lines} }, $line;
        return $line if $line =~ $wanted;
    }
}

sub order {
    my ($job, $text) = @_;
    local $SIG{PIPE} = 'IGNORE';
    print { $job->{in} } "$text\n";
    $job->{in}->flush;
}

# A line for each rank, asked for until none was late: rank => { name => value }.
sub ask_all {
    my ($job, $command, $what) = @_;
    for (1 .. 5) {
        my (@value, $late);
        order($job, $command);
        for (1 .. $job->{np}) {
            my %v = (hear($job, qr/^$what /) // return) =~ /(\w+)=(-?\d+)/g;
            $value[$v{rank}] = \%v;
            $late ||= $v{late};
        }
        return \@value if !$late;
    }
    return;
}

# Messages a second in one run; undef if anything was wrong.
sub traffic {
    my ($job, $what) = @_;
    order($job, "$what $seconds");
    my $line = hear($job, qr/^traffic /) // return;
    my ($n, $s, $errors) = $line =~ /messages=(\d+) seconds=([\d.]+) errors=(\d+)/;
    return 0 == $errors ? $n / $s : undef;
}

# Counters of every rank, drops at its socket and its memory, and drops before any socket.
sub read_counters {
    my ($job) = @_;
    for (1 .. 200) { # what the sender has sent must have been taken
        my %all = udp_sockets();
        last if !grep { ($all{ $_->{inode} } // { waiting => 0 })->{waiting} > 0 } @{ $job->{rank} };
        sleep 0.02;
    }
    my $counts = ask_all($job, 'counts', 'counts') // return;
    my %all = udp_sockets();
    my $softnet = 0;
    open(my $in, '<', '/proc/net/softnet_stat') or die;
    while (my $line = <$in>) { $softnet += hex((split ' ', $line)[1]) }
    for my $r (0 .. $job->{np} - 1) {
        my $rank = $job->{rank}[$r];
        $counts->[$r]{drops} = ($all{ $rank->{inode} } // return)->{drops};
        open(my $status, '<', "/proc/$rank->{pid}/status") or return;
        ($counts->[$r]{rss}) = map { /^VmRSS:\s+(\d+)/ ? $1 : () } <$status>;
    }
    return $job->{seen} = { softnet => $softnet, rank => $counts };
}

# Ends it; what was wrong, in words.
sub job_end {
    my ($job) = @_;
    close $job->{in};
    while (defined hear($job, qr/./)) { }
    close $job->{out};
    waitpid($job->{pid}, 0);
    delete $running{ $job->{pid} };
    my $code = $? & 127 ? 128 + ($? & 127) : $? >> 8;
    my @why;
    my @heard = @{ $job->{lines} };
    push @why, "mpirun ended with $code", @heard[(@heard < 8 ? 0 : @heard - 8) .. $#heard] if 0 != $code || !grep { /^No errors$/ } @{ $job->{lines} };
    open(my $in, '<', $job->{errors}) or die;
    my @said = grep { !/^\s*$/ && !/^btl\/ibx: summary|^  [a-z_]+ +\d+  / } <$in>;
    push @why, 'said on the standard error:', @said[0 .. ($#said < 10 ? $#said : 10)] if @said;
    chomp @why;
    return @why;
}

# ---- the attacker ----

sub sender_start {
    my (@words) = @_;
    my $out = "$scratch/sent";
    my $pid = fork // die;
    if (0 == $pid) {
        open(STDIN, '<', '/dev/null');
        open(STDOUT, '>', $out) or die;
        exec "$programs/hostile_sender", @words or POSIX::_exit(127);
    }
    $running{$pid} = 1;
    return $pid;
}

# Ends it. port => { name => number }.
sub sender_stop {
    my ($pid) = @_;
    kill 'TERM', $pid;
    waitpid($pid, 0);
    delete $running{$pid};
    my %sent;
    open(my $in, '<', "$scratch/sent") or die;
    while (my $line = <$in>) {
        my ($port) = $line =~ /^sent (\d+)/ or next;
        $sent{$port} = { $line =~ /(\w+)=(\d+)/g };
    }
    return 0 == $? ? \%sent : undef;
}

$SIG{INT} = $SIG{TERM} = sub { exit 130 };
END {
    my $code = $?;
    for my $pid (keys %running) { # timeout passes it on to mpirun
        kill 'TERM', $pid;
        waitpid($pid, 0);
    }
    $? = $code;
}

sub record {
    my ($file, @ports) = @_;
    my $pid = fork // die;
    if (0 == $pid) {
        open(STDOUT, '>', '/dev/null');
        exec "$programs/hostile_sender", 'record', $file, 2000, 60, @ports or POSIX::_exit(127);
    }
    sleep 0.1;
    $running{$pid} = 1;
    return $pid;
}

sub record_stop {
    kill 'TERM', $_[0];
    waitpid($_[0], 0);
    delete $running{ $_[0] };
}

# ---- the balance ----

my @verdicts = qw(length version connection tag twice);
my @refusals = (@verdicts, qw(unknown stale far ack header access memory down));

# What was wrong with the counters between two readings, with what was sent in between. joined: so many datagrams may be one drop.
sub balance {
    my ($job, $before, $after, $sent, $joined) = @_;
    my (@why, %sum);
    my $before_sockets = $after->{softnet} - $before->{softnet};
    my @d;
    for my $r (0 .. $job->{np} - 1) {
        $d[$r]{$_} = $after->{rank}[$r]{$_} - $before->{rank}[$r]{$_} for keys %{ $after->{rank}[$r] };
    }
    for my $r (0 .. $job->{np} - 1) {
        my ($d, $o) = ($d[$r], $d[$job->{np} - 1 - $r]);
        my $s = $sent->{ $job->{rank}[$r]{port} } // {};
        my $hostile = ($s->{datagrams} // 0) - ($s->{nothing} // 0);
        my $own = $o->{packets_out} - $o->{unsent} - $o->{port_errors};
        my ($least, $most) = ($d->{drops}, ($joined ? 64 : 1) * $d->{drops} + $before_sockets);
        my $missing = $own + $hostile - $d->{packets_in};
        push @why, "rank $r: $own + $hostile sent, $d->{packets_in} came in, the kernel dropped $d->{drops}"
            . ($most > $least ? " to $most" : '') if $missing < $least || $missing > $most;
        my $refused = 0;
        for my $v (@refusals) {
            my ($wanted, $is) = ($s->{$v} // 0, $d->{"refused_$v"});
            # What is lent is read when the datagram is taken. If it was sent twice and the first arrived after all, the
            # application may have changed it by then.
            my $lent = 'tag' eq $v && !$job->{exact} ? $o->{segments_resent} : 0;
            $refused += $is;
            $sum{$v} += $is;
            push @why, "rank $r: refused_$v is $is, sent were $wanted"
                . ($wanted > 0 ? " and $d->{drops} dropped" : '') if $is > $wanted + $lent || $is < $wanted - $most;
        }
        push @why, "rank $r: $refused refused of $hostile, but only $d->{drops} dropped" if $refused < $hostile - $most;
        push @why, "rank $r: $d->{peers_down} connections ended" if 0 != $d->{peers_down};
        $sum{sent} += $s->{datagrams} // 0;
        $sum{bytes} += $s->{bytes} // 0;
        $sum{drops} += $d->{drops};
        $sum{resent} += $d->{segments_resent};
        $sum{errors} += $d->{port_errors};
    }
    push @why, 'nothing was sent' if %$sent && 0 == ($sum{sent} // 0);
    return (\%sum, @why);
}

sub counted_as {
    my ($sum) = @_;
    return join(', ', map { "$_ $sum->{$_}" } grep { $sum->{$_} } @refusals) || 'nothing';
}

# Pairs of runs without and with the attack, then the balance.
sub attack {
    my ($job, $name, $text, $rate, $joined, @words) = @_;
    return if '' ne $only && $name !~ /$only/;
    my $before = $job->{seen} // read_counters($job);
    my (%ratio, %sent, @why);
    my ($from, $attacked) = (time, 0);
    for my $pair (1 .. $pairs) {
        last if !$before;
        for my $what (qw(small large)) {
            my $calm = traffic($job, $what);
            # It ends by itself, or a job that gets nothing through would never end.
            my $pid = sender_start($words[0], $rate, 3 * $seconds, @words[1 .. $#words], '--seed', $pair, ports_of($job));
            my $start = time;
            sleep 0.05; # it makes its datagrams first
            my $loud = traffic($job, $what);
            my $part = sender_stop($pid) // push @why, "hostile_sender ended with $?";
            $attacked += time - $start < 3 * $seconds ? time - $start : 3 * $seconds;
            if (!ref $part || !$calm || !$loud) {
                push @why, "$what: no result, or a wrong one";
                last;
            }
            push @{ $ratio{$what} }, $loud / $calm;
            for my $p (keys %$part) { $sent{$p}{$_} += $part->{$p}{$_} for keys %{ $part->{$p} } }
        }
        last if @why;
    }
    my $after = $before && !@why ? read_counters($job) : undef;
    if (!$after) {
        result(0, $name, @why, 'the job does not answer');
        return;
    }
    my ($sum, @wrong) = balance($job, $before, $after, \%sent, $joined);
    my ($small, $large) = map { median(@{ $ratio{$_} }) } qw(small large);
    my $per_second = $sum->{sent} / $attacked;
    result(!@wrong, sprintf('%s: %d sent (%.0f/s, %.0f MB/s), refused: %s; dropped %d; throughput x %.2f small, x %.2f large',
        $name, $sum->{sent}, $per_second, $sum->{bytes} / $attacked / 1e6, counted_as($sum), $sum->{drops}, $small, $large), @wrong);
    push @rows, [$name, $text, $sum, $per_second, $small, $large];
    return $after;
}

# Nobody sends, one rank does not even call MPI: nothing must be answered.
sub unanswered {
    my ($job, $name, @words) = @_;
    return if '' ne $only && $name !~ /$only/;
    my $before = $job->{seen} // return result(0, $name, 'the job does not answer');
    my $pid = sender_start($words[0], $paced, 60, @words[1 .. $#words], ports_of($job));
    my $still = ask_all($job, "still $seconds", 'still');
    my $sent = sender_stop($pid);
    my $after = read_counters($job);
    return result(0, $name, 'the job does not answer') if !$still || !$sent || !$after;
    my ($sum, @why) = balance($job, $before, $after, $sent, 0);
    my ($in, $out) = (0, 0);
    $in += $_->{packets_in}, $out += $_->{packets_out} for @$still;
    push @why, "$out datagrams sent for $in received" if 0 != $out;
    push @why, 'nothing came' if 0 == $in;
    result(!@why, "$name: $in came, $out answered; refused: " . counted_as($sum), @why);
}

# ---- what is sent ----

my ($tape, $earlier) = ("$scratch/tape", "$scratch/earlier");
my @with_tape = $root ? ('--tape', $tape) : ();
# name, what is sent, words
my @kinds = (
    ['random', 'random bytes, 0 to 65507 of them', 'random'],
    ['forged', 'right headers of every type, connections and packet numbers, wrong tag', 'forged', @with_tape],
    ['joined', 'the same in trains (UDP_SEGMENT)', 'joined', @with_tape],
    ['hello', 'what begins a connection, of known and unknown processes, wrong tag', 'hello', @with_tape],
);
my @taped = (
    ['replay', 'datagrams of this job, again', 'replay', '--tape', $tape],
    ['replay spoofed', 'the same, from the address of the peer', 'replay', '--tape', $tape, '--spoof'],
    ['cut', 'datagrams of this job, cut short', 'cut', '--tape', $tape],
    ['flipped', 'datagrams of this job with one bit changed', 'flipped', '--tape', $tape],
    ['earlier', 'datagrams of an earlier job, every second one with a connection of this one', 'earlier', '--tape', $tape,
        '--earlier', $earlier],
    ['unreachable', 'ICMP "port unreachable" for what the ranks send each other', 'icmp', '--tape', $tape],
);

# Begins a job with what it says first on tape.
sub recorded_job {
    my ($parameters, $file) = @_;
    my $job = job_start(2, $parameters, 'hostile');
    my $good = sockets_of($job);
    my $pid = $root && $good ? record($file, ports_of($job)) : undef;
    $good &&= traffic($job, $_) for qw(small large);
    if (defined $pid) {
        sleep 0.2;
        record_stop($pid);
    }
    return $job if $good;
    result(0, 'a job', 'it does not begin', job_end($job));
    return;
}

sub attacked_job {
    my ($title, $parameters, $rate, @what) = @_;
    my $job = recorded_job($parameters, $tape) // return;
    $job->{exact} = $parameters =~ /lend off/;
    my $calm = read_counters($job);
    my @good = grep { defined traffic($job, $_) } qw(small large);
    if (!$calm || 2 != @good || !read_counters($job)) {
        result(0, "$title: without an attack", 'the job does not answer', job_end($job));
        return;
    }
    my ($sum, @why) = balance($job, $calm, $job->{seen}, {}, $rate > 0);
    result(!@why, "$title: without an attack, refused: " . counted_as($sum), @why);
    my $first;
    for my $k (@what) {
        my ($name, $text, @words) = @$k;
        my $after = attack($job, "$name $title", $text, $rate, $rate > 0, @words);
        $first //= $after;
    }
    if ($rate > 0) {
        my @each = grep { $full ? 'unreachable' ne $_->[0] : $_->[0] =~ /^(random|forged|replay)$/ } @what;
        unanswered($job, "$_->[0] unanswered $title", @$_[2 .. $#$_]) for @each;
    }
    if ($first && $first != $job->{seen}) {
        my @growth = map { $job->{seen}{rank}[$_]{rss} - $first->{rank}[$_]{rss} } 0 .. 1;
        # What the ports keep while there is much to receive comes and goes.
        result(4096 > $growth[0] && 4096 > $growth[1], "$title: memory of the ranks grew by @growth KiB since the first attack");
    }
    @why = job_end($job);
    result(!@why, "$title: the end of the job", @why);
}

# Before the first message and during it: nothing has been said yet, so nothing is known of connections.
sub early {
    my ($name, @words) = @_;
    return if '' ne $only && $name !~ /$only/;
    my $job = job_start(2, '--mca btl_ibx_summary 1', 'hostile');
    return result(0, $name, 'it does not begin', job_end($job)) if !sockets_of($job);
    my $pid = sender_start($words[0], 3000, 60, @words[1 .. $#words], ports_of($job));
    sleep 1;
    my $good = traffic($job, 'small');
    my $sent = sender_stop($pid);
    my $after = read_counters($job);
    my @why = job_end($job);
    push @why, 'no result' if !$good || !$after || !$sent;
    my (%is, %wanted);
    open(my $in, '<', $job->{errors}) or die;
    while (my $line = <$in>) { $is{$1} += $2 if $line =~ /^  refused_(\w+) +(\d+)/ }
    for my $p (values %{ $sent // {} }) { $wanted{$_} += $p->{$_} for keys %$p }
    my $drops = 0;
    $drops += $_->{drops} for @{ ($after // { rank => [] })->{rank} };
    for my $v (@refusals) {
        my ($n, $w) = ($is{$v} // 0, $wanted{$v} // 0);
        # The summary is of the very end, when what one rank says last can find that the other has gone.
        my $late = 'connection' eq $v || 'down' eq $v ? 16 : 0;
        push @why, "refused_$v is $n, sent were $w, dropped $drops" if $n > $w + $late || $n < $w - $drops;
    }
    result(!@why, "$name: " . ($wanted{datagrams} // 0) . ' sent, refused: ' . counted_as(\%is) . "; dropped $drops", @why);
}

# All bytes of all sorts of messages are verified while everything comes in turn.
sub verified {
    my ($name, $rate, @what) = @_;
    return if '' ne $only && $name !~ /$only/;
    my $time = $full ? 60 : 5;
    my $job = job_start($full ? 4 : 2, '', "stress --seconds $time");
    return result(0, $name, 'it does not begin', job_end($job)) if !sockets_of($job);
    my $sent = 0;
    for (my $end = time + $time, my $i = 0; time < $end; ++$i) {
        my ($kind, undef, @words) = @{ $what[$i % @what] };
        my $pid = sender_start($words[0], $rate, 60, @words[1 .. $#words], '--seed', $i + 1, ports_of($job));
        sleep 0.5;
        $sent += $_->{datagrams} for values %{ sender_stop($pid) // {} };
    }
    my @why = job_end($job);
    result(!@why, "$name: $sent datagrams of all kinds", @why);
}

my @known = @kinds;
if ($root) {
    my $job = recorded_job('', $earlier);
    if ($job) {
        my @why = job_end($job);
        result(!@why, 'an earlier job', @why);
    }
    push @known, @taped;
} else {
    skip($_->[0], 'recording, and other source addresses, need root') for @taped;
}
early('before the first message, random', 'random');
early('before the first message, hello', 'hello');
early('before the first message, earlier', 'hello', '--tape', $earlier) if $root;
attacked_job('paced', '', $paced, @known);
# Trains are off: a train that is dropped counts as one. So is lending, and every number exact.
my @line = grep { $full ? 'joined' ne $_->[0] : $_->[0] =~ /^(random|forged|replay|flipped)$/ } @known;
attacked_job('line', '--mca btl_ibx_iwarp_segment 0', 0, @line);
attacked_job('agent', '--mca btl_ibx_iwarp_async on', $paced, @known) if $full;
verified('stress paced', $paced, grep { "@$_" !~ /tape/ } @known);
verified('stress line', 0, grep { "@$_" !~ /tape/ } @known);

# One row for each kind: at the bearable rate and at the highest.
if ($table) {
    my (%at, @order);
    for my $row (@rows) {
        my ($kind, $how) = $row->[0] =~ /^(.*) (\w+)$/;
        push @order, $kind if !$at{$kind};
        $at{$kind}{$how} = $row;
    }
    print "\n| sent | counted as | a second | small | large | a second | dropped | small | large |\n|---|---|---|---|---|---|---|---|---|\n";
    for my $kind (@order) {
        my ($any) = map { $at{$kind}{$_} // () } qw(paced line agent);
        print "| $kind: $any->[1] | ", join(', ', grep { $any->[2]{$_} } @refusals) || 'nothing', ' |';
        for my $how (qw(paced line)) {
            my $row = $at{$kind}{$how};
            my (undef, undef, $sum, $per_second, $small, $large) = $row ? @$row : ();
            my $dropped = $row ? sprintf(' %.0f %% |', 100 * $sum->{drops} / $sum->{sent}) : ' |';
            print $row ? sprintf(' %.0f |', $per_second) : ' |', 'line' eq $how ? $dropped : '',
                $row ? sprintf(' %.2f | %.2f |', $small, $large) : ' | |';
        }
        print "\n";
    }
}
print "$passed passed, $failed failed, $skipped skipped\n";
exit($failed > 0);
