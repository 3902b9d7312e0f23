# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# Makes the hosts of a laboratory and the network between them, with ip, nsenter, tc and nft.
#
# Words: lab = the options of 'hosts' as a hash; enclosure = the namespaces that everything lives in, the switch among it;
# keeper = the sleeping process that a host's namespaces belong to; port = the switch's end of an interface.
# Not here: options, time limit and signals (hosts), the switch that is a program (LabWire).
package LabNet;

use strict;
use warnings;
use Cwd ();
use FindBin;
use LabWire;
use POSIX ();

# In the enclosure a file system of its own: what a host is called by, temporary files, hosts and hostfile.
use constant DIR => '/run/spec-lab';

# What keeps everything together. The PID namespace ends when its first process does, that when unshare does, and that when
# whoever started it does.
sub enclosure { return qw(setpriv --pdeathsig KILL unshare --fork --kill-child=KILL --pid --mount-proc --mount --net --uts) }

# ---- before ----

sub is_percent { return $_[0] >= 0 && $_[0] < 100 }

# What is wrong with the options, or nothing.
sub wrong {
    my ($lab) = @_;
    return '--hosts must be 1 to 200' if $lab->{hosts} < 1 || $lab->{hosts} > 200;
    return '--rails must be 1 to 8' if $lab->{rails} < 1 || $lab->{rails} > 8;
    return '--slots begins at 1' if $lab->{slots} < 1;
    my $least = '4' eq $lab->{family} ? 576 : 1280;    # RFC 791, RFC 8200
    return "--mtu must be $least to 65535" if $lab->{mtu} < $least || $lab->{mtu} > 65535;
    return '--timeout begins at 1' if $lab->{timeout} < 1;
    return '--affect must be udp or all' if $lab->{affect} !~ /^(udp|all)$/;
    return '--queue begins at 1' if $lab->{queue} < 1;
    return '--mark goes with --rate and the bridge, and begins at 1'
        if defined $lab->{mark} && ($lab->{mark} < 1 || !defined $lab->{rate} || $lab->{delay} || $lab->{reorder} || ($lab->{wire} // 'bridge') ne 'bridge');
    return '--wire must be bridge, netem or tap' if ($lab->{wire} // 'tap') !~ /^(bridge|netem|tap)$/;
    for (qw(loss duplicate corrupt reorder)) {
        return "--$_ must be a percentage below 100" if !is_percent($lab->{$_});
    }
    return '--delay and --reorder-by are not negative' if $lab->{delay} < 0 || $lab->{'reorder-by'} < 0;
    return '--rate must be a number with kbit, mbit or gbit' if defined $lab->{rate} && !defined rate_of($lab->{rate});
    return 'the kernel\'s bridge cannot delay or reorder; leave --wire out'
        if ($lab->{wire} // '') eq 'bridge' && ($lab->{delay} || $lab->{reorder});
    return;
}

# Bits per second.
sub rate_of {
    my %unit = (kbit => 1e3, mbit => 1e6, gbit => 1e9);
    return $_[0] =~ /^(\d+(?:\.\d+)?)([kmg]bit)$/i && $1 > 0 ? $1 * $unit{lc $2} : undef;
}

sub has { my ($program) = @_; return grep { -x "$_/$program" } split(/:/, $ENV{PATH}), '/usr/sbin', '/sbin' }

sub meddles { my ($lab) = @_; return grep { $lab->{$_} } qw(loss duplicate corrupt reorder delay) }

# Why this machine cannot have the lab, or nothing.
sub impossible {
    my ($lab) = @_;
    return 'only root can make network namespaces' if $> != 0;
    for ([setpriv => 'util-linux'], [unshare => 'util-linux'], [nsenter => 'util-linux'], [ip => 'iproute2'], [tc => 'iproute2']) {
        return "$_->[0] is missing (Debian: $_->[1])" if !has($_->[0]);
    }
    $ENV{PATH} .= ':/usr/sbin:/sbin';
    my $try = join ' ', enclosure(), q(sh -c 'ip link add sw type bridge && ip link add p type veth peer name e'), '2>&1';
    my $said = `$try`;
    return 'namespaces, bridge or veth are not to be had: ' . ($said =~ /(.+)/ ? $1 : "status $?") if $?;
    my $wire = $lab->{wire} // '';
    return 'nft is missing (Debian: nftables)'
        if $wire ne 'tap' && !$lab->{delay} && !$lab->{reorder} && (meddles($lab) || defined $lab->{mark}) && !has('nft');
    return 'this kernel has no netem' if $wire eq 'netem' && !has_netem();
    return '/dev/net/tun is missing' if wire_of($lab) eq 'tap' && !-e '/dev/net/tun';
    return;
}

sub has_netem {
    my $try = join ' ', enclosure(), q(tc qdisc add dev lo root netem delay 1ms 2>&1);
    my $said = `$try`;
    return 0 == $?;
}

# How the hosts are joined.
sub wire_of {
    my ($lab) = @_;
    return $lab->{wire} //= !$lab->{delay} && !$lab->{reorder} ? 'bridge' : has_netem() ? 'netem' : 'tap';
}

# ---- making it; from here on inside the enclosure ----

my $verbose;

sub do_it {
    my @words = @_;
    print STDERR "+ @words\n" if $verbose;
    system(@words) == 0 or die "hosts: '@words' failed\n";
}

# Lets the interface join what arrives (GRO), as adapters do; for other kernels than those that can it is no loss.
my $gro = <<'PERL';
my $value = pack 'L L', 0x2c, 1;    # ETHTOOL_SGRO
socket(S, 2, 2, 0) and ioctl(S, 0x8946, pack "a16 P x16", $ARGV[0], $value);    # SIOCETHTOOL
PERL

# A batch for a program that reads commands from its input.
sub feed {
    my ($text, @program) = @_;
    print STDERR "+ @program <<END\n${text}END\n" if $verbose;
    open my $in, '|-', @program or die "hosts: cannot run $program[0]: $!\n";
    print $in $text;
    close $in or die "hosts: '@program' failed on:\n$text";
}

sub put {
    my ($path, $text) = @_;
    open my $out, '>', $path or die "hosts: $path: $!\n";
    print $out $text;
    close $out or die "hosts: $path: $!\n";
}

# The addresses of host i in network r, with their prefix.
sub addresses {
    my ($lab, $i, $r) = @_;
    return (
        $lab->{family} ne '6' ? "10.77.$r.$i/24" : (),
        $lab->{family} ne '4' ? sprintf('fd77:%x::%x/64', $r, $i) : (),
    );
}

sub files {
    my ($lab) = @_;
    mkdir DIR;
    do_it(qw(mount -t tmpfs -o mode=755 lab), DIR);
    my $names = '';
    $names .= "127.0.0.1 localhost\n" if $lab->{family} ne '6';
    $names .= "::1 localhost ip6-localhost\n" if $lab->{family} ne '4';
    my $hosts = '';
    for my $i (1 .. $lab->{hosts}) {
        for my $r (0 .. $lab->{rails} - 1) {
            $names .= s{/.*}{}r . ($r ? " n$i-$r\n" : " n$i\n") for addresses($lab, $i, $r);
        }
        $hosts .= "n$i slots=$lab->{slots}\n";
        mkdir DIR . "/tmp-n$i";
    }
    put(DIR . '/hosts', $names);
    put(DIR . '/hostfile', $hosts);
    do_it(qw(mount --bind), DIR . '/hosts', '/etc/hosts');
}

my @held; # pipes from the keepers: to close one would be to wait for its end

# Starts the process that holds a host's namespaces; its number.
sub keeper {
    my ($name) = @_;
    my $script = "hostname $name && mount -t sysfs sys /sys && mount -t tmpfs shm /dev/shm && ip link set lo up"
        . ' && echo ready && exec sleep 1000000000';
    my $pid = open my $out, '-|', qw(unshare --net --uts --mount /bin/sh -c), $script
        or die "hosts: cannot run unshare: $!\n";
    my $said = <$out> // '';
    die "hosts: host $name could not be made\n" if $said ne "ready\n";
    put(DIR . "/$name", "$pid\n");
    push @held, $out;
    return $pid;
}

# Bytes that go at once at most: what the timer's grain asks for at high rates, and never less than the largest batch that
# is handed to an interface as one (64 KiB and headers). The kernel cuts what is longer and sets a timer for each piece; in
# a virtual machine that took more of a computing process's processor than all else that a transfer does, and no adapter asks for it.
sub burst { my ($bits) = @_; my $bytes = int($bits / 8 / 2000); return $bytes > 70000 ? $bytes : 70000 }

sub limit {
    my ($lab) = @_;
    my $bits = rate_of($lab->{rate});
    return ('tbf', 'rate', sprintf('%.0fbit', $bits), 'burst', burst($bits), 'latency', "$lab->{queue}ms");
}

# Marks what comes when the port has more to send than it can in so many ms, as its queue would if the kernel had one that
# marks: a bucket that empties almost as fast as the port sends. It counts packets, each as long as the interface takes,
# because nftables lets a bucket of bytes keep a second more than it is told.
sub marks {
    my ($lab) = @_;
    return if !defined $lab->{mark};
    my $rate = 0.99 * rate_of($lab->{rate}) / 8 / ($lab->{mtu} + 14);
    return map {
        sprintf '%s ecn != not-ect limit rate over %.0f/second burst %.0f packets %s ecn set ce', $_, $rate, 1 + $rate * $lab->{mark} / 1000, $_
    } qw(ip ip6);
}

# What a port does to what goes to its host: a chain of nftables.
sub chain {
    my ($lab, $port) = @_;
    my $whom = $lab->{affect} eq 'udp' ? 'udp' : '{ tcp, udp }';
    my $some = sub { sprintf 'numgen random mod 1000000 < %d', 10000 * $_[0] };
    my @rules;
    push @rules, $some->($lab->{loss}) . ' drop' if $lab->{loss};
    push @rules, $some->($lab->{duplicate}) . qq( dup to "$port") if $lab->{duplicate};
    # Early in the payload, in its middle, and as far behind as nftables can reach. TCP has a checksum only.
    push @rules, map { 'meta l4proto udp ' . $some->($lab->{corrupt} / 3) . " \@th,$_,8 set 0xa5" } 72, 480, 1600
        if $lab->{corrupt};
    return join '', "chain $port {\ntype filter hook egress device \"$port\" priority 0; policy accept;\n",
        (map { "$_\n" } marks($lab)), "meta protocol arp accept\n", # what has no l4proto does not match the next
        "meta l4proto != $whom accept\n", (map { "$_\n" } @rules), "}\n";
}

sub netem {
    my ($lab) = @_;
    my @words = ('netem', 'limit', 100000);
    push @words, 'delay', ($lab->{delay} || ($lab->{reorder} ? $lab->{'reorder-by'} : 0)) . 'ms' if $lab->{delay} || $lab->{reorder};
    # netem reorders by sending some at once instead of later.
    push @words, 'reorder', "$lab->{reorder}%" if $lab->{reorder};
    for ([loss => 'loss'], [duplicate => 'duplicate'], [corrupt => 'corrupt']) {
        push @words, $_->[1], "$lab->{$_->[0]}%" if $lab->{$_->[0]};
    }
    return @words;
}

# Interfaces in hosts and ports in the switch. Returns what LabWire needs.
sub network {
    my ($lab, @keeper) = @_;
    my $wire = wire_of($lab);
    # What is damaged goes one packet at a time; else the kernel may pass on many at once, as adapters let it.
    my @single = meddles($lab) || defined $lab->{mark} ? (gso_max_segs => 1) : ();
    my ($chains, @ports) = ('');
    for my $r (0 .. $lab->{rails} - 1) {
        do_it(qw(ip link add), "sw$r", qw(type bridge mcast_snooping 0 forward_delay 0)) if $wire ne 'tap';
        do_it(qw(ip link set), "sw$r", 'up') if $wire ne 'tap';
        for my $i (1 .. $lab->{hosts}) {
            my ($pid, $port) = ($keeper[$i], "n$i.$r");
            if ($wire eq 'tap') {
                push @ports, {rail => $r, host => $i, device => LabWire::tap($port)};
                do_it(qw(ip link set), $port, 'netns', $pid, 'name', "e$r");
            } else {
                do_it(qw(ip link add), $port, qw(mtu), $lab->{mtu}, qw(type veth peer name), "e$r", 'mtu', $lab->{mtu},
                    'netns', $pid);
                do_it(qw(ip link set), $port, @single, 'master', "sw$r", 'up');
                do_it(qw(tc qdisc add dev), $port, 'root', limit($lab)) if defined $lab->{rate} && $wire eq 'bridge';
                do_it(qw(tc qdisc add dev), $port, 'root', netem($lab), defined $lab->{rate} ? ('rate', $lab->{rate}) : ())
                    if $wire eq 'netem' && (meddles($lab) || defined $lab->{rate});
                $chains .= chain($lab, $port) if $wire eq 'bridge' && (meddles($lab) || defined $lab->{mark});
            }
            my @in = ('nsenter', '-t', $pid, '-n');
            do_it(@in, qw(ip link set), "e$r", 'mtu', $lab->{mtu}, @single, 'up');
            do_it(@in, $^X, '-e', $gro, "e$r");
            do_it(@in, '/bin/sh', '-c', 'echo 1 >/proc/sys/net/ipv4/tcp_ecn') if defined $lab->{mark};
            do_it(@in, qw(ip addr add), $_, 'dev', "e$r", /:/ ? 'nodad' : ()) for addresses($lab, $i, $r);
            do_it(@in, qw(tc qdisc add dev), "e$r", 'root', limit($lab)) if defined $lab->{rate} && $wire ne 'tap';
        }
    }
    feed("table netdev lab {\n$chains}\n", qw(nft -f -)) if $chains;
    return @ports;
}

sub decoy {
    my ($lab, @keeper) = @_;
    for my $i (1 .. $lab->{hosts}) {
        my @in = ('nsenter', '-t', $keeper[$i], '-n');
        do_it(@in, qw(ip link add d0 type veth peer name d0-end));
        do_it(@in, qw(ip link set), $_, 'up') for qw(d0-end d0);
        do_it(@in, qw(ip addr add), $_, qw(dev d0), /:/ ? 'nodad' : ())
            for ($lab->{family} ne '6' ? '172.17.0.1/16' : (), $lab->{family} ne '4' ? 'fd17::1/64' : ());
    }
}

# What mpirun and its daemons need to find the hosts, and to be content with them: several releases' names.
sub environment {
    my ($lab) = @_;
    $ENV{SPEC_LAB} = DIR;
    $ENV{SPEC_LAB_CPUS} = $lab->{'split-cpus'} ? cpus() : 0;
    $ENV{"OMPI_MCA_$_->[0]"} = $_->[1]
        for [plm_rsh_agent => "$FindBin::RealBin/agent"], [plm_rsh_num_concurrent => 8],
        [orte_default_hostfile => DIR . '/hostfile'],
        # A daemon that makes a session of its own gets its own share of the processors (autogroup), and Linux 6.18 gives nothing
        # for seconds to what sleeps now and then, where processes of another share call sched_yield all the time. (5.0 has
        # an option of mpirun for this: OpenMPI.pm.)
        [orte_leave_session_attached => 1],
        # Processors are not the hosts' own, so binding to them would put all first processes on one.
        [hwloc_base_binding_policy => 'none'], [rmaps_base_mapping_policy => 'node:OVERSUBSCRIBE'];
    $ENV{"PRTE_MCA_$_->[0]"} = $_->[1]
        for [plm_ssh_agent => "$FindBin::RealBin/agent"], [plm_ssh_num_concurrent => 8],
        [prte_default_hostfile => DIR . '/hostfile'],
        [hwloc_default_binding_policy => 'none'], [rmaps_default_mapping_policy => 'node:OVERSUBSCRIBE'];
    if ($lab->{family} eq '6') {
        $ENV{OMPI_MCA_oob_tcp_disable_ipv4_family} = 1;
    }
    $ENV{$_} = 1 for map { ("$_", "${_}_CONFIRM") } qw(OMPI_ALLOW_RUN_AS_ROOT PRTE_ALLOW_RUN_AS_ROOT);
}

sub cpus { my $n = grep { /^processor/ } do { open my $in, '<', '/proc/cpuinfo'; <$in> }; return $n || 1 }

# Never returns. Not by exit, which would wait for the keepers.
sub inside {
    my ($lab, @command) = @_;
    my $status = eval { live($lab, @command) };
    print STDERR $@ if !defined $status;
    POSIX::_exit($status // 125);
}

# Runs the command in host n1, reaping everything: this is the first process of a PID namespace. Its exit code.
sub live {
    my ($lab, @command) = @_;
    $verbose = $lab->{verbose};
    my @keeper;
    files($lab);
    do_it(qw(ip link set lo up));
    $keeper[$_] = keeper("n$_") for 1 .. $lab->{hosts};
    my @ports = network($lab, @keeper);
    decoy($lab, @keeper) if $lab->{decoy};
    environment($lab);
    my $wire = @ports ? fork // die "hosts: cannot fork: $!\n" : -1;
    if (0 == $wire) { LabWire::run($lab, rate_of($lab->{rate} // ''), @ports); POSIX::_exit(1) }
    my $child = fork // die "hosts: cannot fork: $!\n";
    if (0 == $child) {
        exec "$FindBin::RealBin/agent", '--here', Cwd::getcwd(), 'n1', @command or POSIX::_exit(127);
    }
    for (;;) {
        my $pid = waitpid(-1, 0);
        die "hosts: a host is gone\n" if grep { defined && $_ == $pid } @keeper;
        die "hosts: the switch is gone\n" if $pid == $wire;
        last if $pid == $child || $pid < 0;
    }
    return $? & 127 ? 128 + ($? & 127) : $? >> 8;
}

1;
