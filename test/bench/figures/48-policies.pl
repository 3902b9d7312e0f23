# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
use BenchRun;

# Of a run: how long it may take in each mode, and where it is left out.
my %words = (
    pingpong => {quick => [qw(--repetitions 3)], default => [qw(--repetitions 8)], full => []},
    exchange => {quick => [qw(--repetitions 5)], default => [qw(--repetitions 20)], full => []},
    crossing => {quick => [qw(--iterations 30)], default => [qw(--iterations 150)], full => []},
    parity => {quick => [qw(--ms 10)], default => [], full => []},
);
# All sides of an exchange compute the same: as long as ob1 communicates.
my $computes = sub {
    my ($size) = @_;
    return sub {
        my ($sides) = @_;
        my @records = $sides->run(Report::Sides::normal('ob1/ibx'),
            {program => 'exchange', processes => 2, arguments => ['--sizes', $size, qw(--percent 0 --model 1 --repetitions 10)]});
        return ('--comm-us', sprintf '%.0f', BenchRun::median(map { $_->{comm_us} } @records) || 1);
    };
};
# Policy, transport, the parameter without it; then a program and its words each. The first is run in every mode.
my @policies = (
    ['burst', 'ibx', 'pml_spec_gather 1', ['pingpong', qw(--mode rate)]],
    ['patience', 'ibx', 'pml_spec_patience_max 0', map { ['exchange', qw(--sizes 1M --percent 100 --model), $_] } 1, 2],
    ['adaptation', 'ibx', 'pml_spec_speculation on', ['crossing', qw(--sizes 128K,1M)], ['exchange', qw(--sizes 256K --percent 50 --model 2)]],
    ['adaptation', 'vader', 'pml_spec_speculation on', ['crossing', qw(--sizes 16K,256K)]],
    ['costs', 'vader', 'pml_spec_eager_max 4000', ['pingpong', qw(--mode lat --sizes 8K,16K)]],
    ['costs, in parts', 'vader', 'pml_spec_eager_max 32752', ['parity', qw(--rows pingpong --sizes 32K,64K)], ['parity', qw(--rows sendrecv --sizes 64K)]],
    ['costs, in parts', 'vader without single copy', 'pml_spec_eager_max 32752', ['parity', qw(--rows sendrecv --sizes 64K)]],
    ['joint', 'vader', 'pml_spec_pipeline_max 0', map { ['parity', '--rows', $_, qw(--sizes 64K,1M)] } qw(pingpong sendrecv)],
);
my (@sides, @runs, %beside);
for (@policies) {
    my ($policy, $transport, $without, @programs) = @$_;
    my ($with, $less) = map { "$_, $transport" } $policy, "without $policy";
    my %way = $transport =~ /^(\w+) without/ ? (of => "spec/$1", mca => ["btl_$1_single_copy_mechanism none"]) : (of => "spec/$transport", mca => []);
    push @sides, {%way, name => $with}, {%way, name => $less, mca => [@{$way{mca}}, $without]};
    $beside{$with} = $less;
    for my $i (0 .. $#programs) {
        my ($program, @arguments) = @{$programs[$i]};
        my ($size) = "@arguments" =~ /--sizes (\S+)/;
        push @runs, {
            %{$words{$program}}, program => $program, arguments => \@arguments, only => [$with, $less], tags => {policy => $policy},
            $i ? (modes => [qw(default full)]) : (), 'exchange' eq $program ? (prepare => $computes->($size)) : (),
        };
    }
}
{
    id => 'policies', chapter => 'Overlap and progress', title => 'What each policy of pml/spec gains', paper => 'no figure of a paper',
    shown => 'Time with a policy beside the time without it, over the transports where it matters. Without: burst, pml_spec_gather 1; patience, pml_spec_patience_max 0; adaptation, pml_spec_speculation on; costs, pml_spec_eager_max 4000, in parts 32752; joint, pml_spec_pipeline_max 0.',
    expected => 'Each is shorter somewhere and nowhere much longer; adaptation saves packets more than time, and costs time where most receives are too late for it, but not all (exchange).',
    sides => \@sides, runs => \@runs, beside => \%beside, panel => ['policy'], x => 'what',
    reduce => sub {
        my ($r) = @_;
        my $name = join ' ', grep { defined } $r->{bench}, $r->{row}, defined $r->{model} ? "model $r->{model}" : undef;
        $r->{what} = "$name, " . BenchRun::size_text($r->{size});
        $r->{us} //= $r->{iteration_us};
        return $r;
    },
    values => [{key => 'us', unit => 'us', better => 'less'}, {key => 'control_percent', panel => 'packets without data', unit => '% of the data', better => 'less', minor => 1}],
    draw => {x => 'what', logy => 1}, rounds => 9, seconds => 100,
}
