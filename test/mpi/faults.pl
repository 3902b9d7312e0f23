#!/usr/bin/env perl
# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# Faults, and what must happen: a rank is killed at each stage of the protocols, or at any time; a rank is
# stopped, for a minute with --full; memory that may be locked, or files that may be open, are few; registrations of memory
# fail, now and then or always; address space is out; receive buffers are; clocks jump. What can be survived must be, with
# right results; else mpirun ends with an error within a minute. Afterwards no process and no file in /dev/shm is left.
# FAULT_SEED, from the environment, for other times and ranks.
use strict;
use warnings;
use FindBin;
use Getopt::Long;
use lib $FindBin::Bin;
use OpenMPI;
use Time::HiRes qw(time sleep);

my ($pml, $full, $programs, $only) = ('spec', 0, $ENV{SPEC_TEST_PROGRAMS} // '.', '');
GetOptions('pml=s' => \$pml, 'full' => \$full, 'programs=s' => \$programs, 'only=s' => \$only) or die;
my ($passed, $failed, $skipped) = (0, 0, 0);
my $seed = $ENV{FAULT_SEED} // 1;
srand $seed;
# Without --full what btl/ibx does, and stages over shared memory.
my %transport = (
    vader => '--mca btl self,vader',
    tcp => '--mca btl self,tcp',
    ibx => '--mca btl self,ibx --mca btl_ibx_iwarp_peer_timeout 1000',
);
my $runs = 0;

# Processes of this run: they carry its mark on their command line. Not mpirun itself.
sub processes {
    my ($mark) = @_;
    my @pids;
    for my $dir (glob '/proc/[0-9]*') {
        open(my $in, '<', "$dir/cmdline") or next;
        local $/;
        my @word = split /\0/, <$in> // '';
        push @pids, $dir =~ s{.*/}{}r if @word && (grep { $_ eq $mark } @word) && $word[0] =~ m{^\Q$programs\E/};
    }
    return sort { $a <=> $b } @pids;
}

# Files of this user in shared memory. vader's own are counted apart: Open MPI's mpirun is to remove them.
sub shared_files { return map { $_ => 1 } grep { -O } glob '/dev/shm/*' }

# Runs a program under mpirun; `during` is called with a sub that gives its processes. Returns exit code, seconds, output.
sub job {
    my ($np, $parameters, $program, $during, $limit) = @_; # limit: words for the shell
    my $mark = "faults-$$-" . ++$runs;
    my $mpirun = mpi_mpirun($np, "--mca mpi_yield_when_idle 1 --mca pml $pml $parameters");
    my %before = shared_files();
    my $start = time;
    my $out_file = "/tmp/$mark.out";
    my $pid = fork // die;
    if (0 == $pid) {
        open(STDIN, '<', '/dev/null');
        open(STDOUT, '>', $out_file) or die;
        open(STDERR, '>&', \*STDOUT);
        exec 'sh', '-c', ($limit ? "$limit; " : '') . "exec timeout -k 5 90 $mpirun $programs/$program --mark $mark";
    }
    $during->(sub { processes($mark) }) if $during;
    waitpid($pid, 0);
    my ($code, $took) = ($? & 127 ? 128 + ($? & 127) : $? >> 8, time - $start);
    my $out = do { local $/; open(my $in, '<', $out_file); <$in> } // '';
    unlink $out_file;
    my $left = '';
    for (1 .. 100) { # mpirun has told them to end; on a busy machine that takes its time
        last if !processes($mark);
        sleep 0.1;
    }
    if (my @pids = processes($mark)) {
        $left .= "process $_ is left: " . state_of($_) . "\n" for @pids;
        kill 'KILL', @pids;
    }
    my %after = shared_files();
    my @new = grep { !$before{$_} } sort keys %after;
    # Others may run jobs too: only what no living process has open counts.
    my @ours = grep { !m{/vader_segment|/sm_segment} && !in_use($_) } @new;
    $left .= "left in shared memory: @ours\n" if @ours;
    return ($code, $took, $out, $left);
}

# What the kernel says of a process: running or asleep, and which signals it was sent, ignores or handles.
sub state_of {
    my ($pid) = @_;
    open(my $in, '<', "/proc/$pid/status") or return 'ended since';
    return join ', ', map { s/\s+/ /gr } grep { /^(State|PPid|Threads|SigPnd|ShdPnd|SigBlk|SigIgn|SigCgt):/ } <$in>;
}

# Until there are n processes, but not for ever.
sub wait_for {
    my ($n, $pids) = @_;
    for (1 .. 200) {
        my @now = $pids->();
        return if @now == $n;
        sleep 0.1;
    }
}

sub in_use {
    my ($file) = @_;
    for my $map (glob '/proc/[0-9]*/maps') {
        open(my $in, '<', $map) or next;
        while (my $line = <$in>) { return 1 if index($line, $file) >= 0 }
    }
    return 0;
}

sub report($$@) {
    my ($good, $what, $code, $took, $out, $left) = @_;
    $good &&= '' eq $left;
    printf "%s faults: %s: mpirun ended with %d after %.1f s\n", $good ? 'ok     ' : 'FAILED ', $what, $code, $took;
    print $left;
    print map { "        | $_\n" } grep { defined } (split /\n/, $out)[0 .. 40] if !$good;
    $good ? ++$passed : ++$failed;
}

sub wanted { return '' eq $only || $_[0] =~ /$only/ }

# True: there is a reason not to run it.
sub skip_if {
    my ($is_so, $what, $why) = @_;
    return '' if !$is_so;
    print "skipped  faults: $what: $why\n";
    ++$skipped;
    return 1;
}
my $sanitizer = $ENV{SPEC_SANITIZER} // '';

# Killed: the job must end, with an error and in time.
for my $name (sort keys %transport) {
    for my $stage (qw(connect rtr put rts get frag cancel eager)) {
        next if !wanted("$name killed $stage");
        next if !$full && 'tcp' eq $name;
        my @r = job(3, $transport{$name}, "dying --stage $stage");
        report($r[0] != 0 && $r[0] != 124 && $r[2] !~ /went on|watchdog/, "$name: killed at '$stage'", @r);
    }
    my $times = $full ? 10 : 'ibx' eq $name ? 1 : 0;
    for (1 .. $times) {
        next if !wanted("$name killed at random");
        my ($when, $which) = (0.5 + rand 3, int rand 3);
        my @r = job(3, $transport{$name}, 'stress --seconds 60', sub {
            my ($pids) = @_;
            wait_for(3, $pids);
            sleep $when;
            my @p = $pids->();
            kill 'KILL', $p[$which % @p] if @p;
        });
        report($r[0] != 0 && $r[0] != 124 && $r[2] !~ /No errors/,
            sprintf('%s: rank killed %.2f s into traffic (seed %d)', $name, $when, $seed), @r);
    }
}

# Killed with a connection half made: it was asked for one and never answered.
if (wanted('ibx killed half')) {
    my @r = job(4, "$transport{ibx} --mca btl_ibx_iwarp_async off", 'dying --stage half');
    my $named = 'spec' ne $pml || $r[2] =~ /^Rank 3 of this job is lost: .*^  Reason: .*does not answer/ms || $r[2] =~ /signal 9/;
    report($r[0] != 0 && $r[0] != 124 && $r[2] !~ /went on|watchdog/ && $named, "ibx: killed at 'half'", @r);
}

# Stopped for a while, over ibx for longer than its first timeout: nothing may be lost. Over ibx the other process says it,
# unless all that it had sent was acknowledged at that moment: then the next run may.
for my $name (sort keys %transport) {
    my $pause = $full ? 60 : 3;
    next if !wanted("$name stopped") || (!$full && 'ibx' ne $name);
    my ($right, $told, @r) = (1, 'ibx' ne $name);
    for my $run (1 .. 5) {
        @r = job(2, $transport{$name}, 'stress --seconds 6', sub {
            my ($pids) = @_;
            wait_for(2, $pids);
            sleep 1 + rand 2;
            my @p = $pids->();
            return if !@p;
            my $one = $p[int rand @p];
            kill 'STOP', $one;
            sleep $pause;
            kill 'CONT', $one;
        });
        $right = 0 == $r[0] && $r[2] =~ /^No errors$/m;
        $told ||= $r[2] =~ /^A process is silent: .*^  Silent for: +\d+ s$/ms;
        last if !$right || $told;
    }
    report($right && $told, "$name: rank stopped for $pause s", @r);
}

# The rank of a process.
sub rank_of {
    my ($pid) = @_;
    open(my $in, '<', "/proc/$pid/environ") or return -1;
    local $/;
    return (<$in> // '') =~ /(?:^|\0)(?:OMPI_COMM_WORLD_RANK|PMIX_RANK)=(\d+)/ ? $1 : -1;
}

# A receiver with two buffers that does not run for seconds while three ranks flood it: they wait, and go on.
for my $pause ($full ? (2, 20) : 2) {
    next if !wanted('ibx receive buffers');
    if ('spec' ne $pml) {
        print "skipped  faults: ibx: receive buffers: test/mpi/flood needs pml/spec\n";
        ++$skipped;
        last;
    }
    my $timeout = 1000 * $pause + 30000;
    my $parameters = "--mca btl self,ibx --mca btl_ibx_iwarp_peer_timeout $timeout --mca btl_ibx_window fixed:2 "
        . '--mca btl_ibx_summary 1 --mca btl_ibx_iwarp_async off --mca pml_spec_unexpected_max 64K';
    my $stopped = 0;
    my @r = job(4, $parameters, 'flood --messages 4000 --behind 500 --size 64', sub {
        my ($pids) = @_;
        wait_for(4, $pids);
        sleep 0.6 + rand 0.4;
        my ($one) = grep { 0 == rank_of($_) } $pids->();
        return if !$one;
        $stopped = kill 'STOP', $one;
        sleep $pause;
        kill 'CONT', $one;
    });
    my $starved = 0;
    $starved += $1 while $r[2] =~ /^ +rnr_in +(\d+)/mg;
    report(0 == $r[0] && $r[2] =~ /^No errors$/m && $stopped && $starved > 0,
        "ibx: no receive buffers for $pause s: senders were told so $starved times", @r);
}

# The time of day jumps by hours, in either direction; then also the clocks that only go forward, by an hour each second.
# A program that reads the clock to know when it is done sees those hours pass.
for my $case (['ibx', '', 4], ['ibx', '-x JUMP_FORWARD=3600', 5 * 3600], ['vader', '-x JUMP_FORWARD=3600', 3 * 3600], ['tcp', '', 2]) {
    my ($name, $jump, $seconds) = @$case;
    my $what = "$name: clocks jump" . ($jump ? ', all of them' : '');
    next if !wanted($what);
    my $shim = "$programs/.libs/jumpclock.so";
    next if skip_if(!-e $shim, $what, "$shim was not built");
    next if skip_if($sanitizer, $what, 'the sanitizer is loaded in the place of the other clock');
    my @r = job(2, "$transport{$name} -x LD_PRELOAD=$shim -x JUMP_SEED=$seed $jump", "stress --seconds $seconds");
    report(0 == $r[0] && $r[2] =~ /^No errors$/m, "$what (seed $seed)", @r);
}

# Address space is out: MPI_Alloc_mem says so, messages go on. With none at all for messages there is an error that says what
# was lacking.
for my $name (sort keys %transport) {
    for my $case (['is out and comes again', ''], ['is out during messages', '--room 16 --messages 20000 --spare 0']) {
        my ($what, $arguments) = ("$name: address space $case->[0]", $case->[1]);
        next if !wanted($what);
        next if skip_if('spec' ne $pml && $arguments, $what, 'ob1 crashes or waits for ever');
        next if skip_if($sanitizer, $what, 'the sanitizer needs address space for itself');
        my @r = job(2, $transport{$name}, "nomem $arguments");
        my $survived = 0 == $r[0] && $r[2] =~ /^No errors$/m;
        report($survived || ($arguments && $r[0] != 0 && $r[0] != 124 && $r[2] =~ /out of memory/ && $r[2] !~ /watchdog|signal 11/),
            "$what: " . ($survived ? 'survived' : 'refused'), @r);
    }
}

# Few resources: right, or an error; never a hang or a crash without a word.
for my $case (
    ['no memory may be locked', 'ibx', 'ulimit -l 0'],
    ['48 open files', 'ibx', 'ulimit -n 48'],
    ['48 open files', 'tcp', 'ulimit -n 48'],
    ['40 MiB of files in shared memory', 'vader', 'ulimit -f 40960'],
) {
    my ($what, $name, $limit) = @$case;
    next if !wanted("$name $what");
    my @r = job(2, $transport{$name}, 'stress --seconds 4', undef, $limit);
    my $survived = 0 == $r[0] && $r[2] =~ /^No errors$/m;
    report($survived || ($r[0] != 0 && $r[0] != 124 && length $r[2] && $r[2] !~ /watchdog/),
        "$name: $what: " . ($survived ? 'survived' : 'refused'), @r);
}

# Registrations fail, drawn by a seed: messages go as fragments, the cache gives something up and asks again, windows are
# refused by Open MPI with an error. Without a cache each use registers, and as many can fail.
# Without --full every third.
my @refused = (
    [0.2, '--mca btl_ibx_rcache none', 'stress --seconds 3'],
    [0.01, '--mca btl_ibx_rcache none', 'stress --seconds 3'],
    [1, '--mca btl_ibx_rcache none', 'stress --seconds 3'],
    [1, '--mca btl_ibx_rcache lazy', 'stress --seconds 3'],
    [0.2, '--mca btl_ibx_rcache lazy', 'stress --seconds 3 --threads 3'],
    [1, '--mca btl_ibx_rcache lazy --mca osc rdma', 'onesided'],
    [1, '', 'allocmem --limit 1'],
    [0.2, '', 'allocmem --limit 1'],
    [0.01, '', 'allocmem --limit 1'],
    [0.2, '--mca btl_ibx_rcache lazy', 'remap'],
    [1, '--mca btl_ibx_rcache lazy', 'remap'],
    [0.2, '--mca btl_ibx_rcache grdma', 'persistent'],
    [1, '--mca btl_ibx_rcache lazy', 'persistent'],
);
for my $case (map { $refused[$_] } grep { $full || $only ne '' || 0 == $_ % 3 } 0 .. $#refused) {
    my ($rate, $parameters, $program) = @$case;
    my $what = "ibx: registrations fail, $rate of them" . ($parameters =~ /rcache (\w+)/ ? ", cache $1" : '') . ": $program";
    next if !wanted($what);
    if ('ob1' eq $pml && $rate > 0.01) {
        print "skipped  faults: $what: ob1 asks for the registration again when something else ends, which may be never\n";
        ++$skipped;
        next;
    }
    my @r = job(2, "$transport{ibx} $parameters --mca btl_ibx_fault_register $rate --mca btl_ibx_fault_seed $seed", $program);
    my $refused = 0;
    $refused += $1 while $r[2] =~ /faults on purpose: (\d+) of \d+ registrations failed/g;
    report(0 == $r[0] && $r[2] =~ /^No errors$/m && $refused > 0, "$what: $refused refused (seed $seed)", @r);
}

print "$passed passed, $failed failed, $skipped skipped\n";
exit($failed > 0);
