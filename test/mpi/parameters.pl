#!/usr/bin/env perl
# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# Every parameter and every counter of our components, as ompi_info shows them: a help text, a unit for what is a number,
# a default that is what the text says and in the range that it gives; and docs/user/parameters.md and the man pages say the
# same. The program tools walks what MPI_T shows of them while a job runs.
# parameters.pl --write FILE writes that document anew, and the two sections in each man page in docs/man.
# What Open MPI registers for each transport has help of its own, without range and default: both stand below, with what it is
# for ibx. The ranges are those that ibx refuses beyond.
use strict;
use warnings;
use FindBin;
use Getopt::Long;

my ($pml, $full, $programs, $write) = ('spec', 0, '.', undef);
GetOptions('pml=s' => \$pml, 'full' => \$full, 'programs=s' => \$programs, 'write=s' => \$write) or die;
my $document = "$FindBin::Bin/../../docs/user/parameters.md";
my $man = "$FindBin::Bin/../../docs/man";
my ($passed, $failed) = (0, 0);
delete @ENV{grep { /^OMPI_MCA_btl_ibx_/ } keys %ENV}; # defaults, and not what the tests begin with

# { name => { value, help, level, type, enum => 1 } } of one component, and of its counters { name => help }.
sub registered {
    my ($framework, $component) = @_;
    my (%parameter, %counter, %synonym);
    for (`timeout 60 ompi_info --param $framework $component --level 9 --parsable 2>/dev/null </dev/null`) {
        s/"(.*)"$/$1/;
        $parameter{$1}{$2} = $3 if /^mca:$framework:$component:param:(\w+):(value|help|level|type):(.*)$/;
        $synonym{$1} = 1 if /^mca:$framework:$component:param:(\w+):synonym_of:/;
        $parameter{$1}{choice} .= " $2" if /^mca:$framework:$component:param:(\w+):enumerator:value:-?\d+:(.*)$/;
        $counter{$1} = $2 if /^mca:$framework:$component:pvar:(\w+):help:(.*)$/;
    }
    delete @parameter{keys %synonym};
    return (\%parameter, \%counter);
}

sub number {
    my ($text) = @_;
    my %times = (K => 1 << 10, M => 1 << 20, G => 1 << 30);
    return $text =~ /^(-?\d+)([KMG]?)$/ ? $1 * ($times{$2} // 1) : undef;
}

# name => [level, what it is for ibx]; another default than a number is a text.
my %standard = (
    eager_limit => [4, 'A message up to this size, its header included, is sent over UDP with its data, without being announced; over adapters btl_ibx_verbs_max_send_size says it. It cannot be larger than btl_ibx_max_send_size. Unit: bytes, range 1 to 1M, default 66048.'],
    rndv_eager_limit => [4, 'The first fragment of a message that is announced has up to this size, its header included; what is larger than btl_ibx_eager_limit has no effect. Used by ob1. Unit: bytes, range 0 to 9223372036854775807, default 66048.'],
    max_send_size => [4, 'A fragment of a message that is copied has up to this size over UDP, and so has a receive buffer; over adapters btl_ibx_verbs_max_send_size says it. It must be the same in the whole job. Unit: bytes, range 1K to 1M, default 66048.'],
    accelerator_max_send_size => [4, 'Since Open MPI 5.0. ibx does not use it. Unit: bytes, range 0 to 9223372036854775807, default 0.'],
    get_limit => [4, 'One RDMA Read fetches up to this much; the largest size means no limit. Unit: bytes, range 0 to 9223372036854775807, default 18446744073709551615 (no limit).'],
    get_alignment => [6, 'The address that an RDMA Read fetches from is a multiple of this. ibx needs none. Unit: bytes, range 0 to 9223372036854775807, default 0.'],
    put_limit => [4, 'One RDMA Write sends up to this much; the largest size means no limit. Unit: bytes, range 0 to 9223372036854775807, default 18446744073709551615 (no limit).'],
    put_alignment => [6, 'The address that an RDMA Write writes to is a multiple of this. ibx needs none. Unit: bytes, range 0 to 9223372036854775807, default 0.'],
    min_rdma_pipeline_size => [4, 'A message below this size is not sent by the pipeline of RDMA Writes of ob1. A value below btl_ibx_eager_limit plus btl_ibx_rdma_pipeline_send_length counts as that. spec does not use it. Unit: bytes, range 0 to 9223372036854775807, default 66048.'],
    rdma_pipeline_send_length => [4, 'So much of a message of the pipeline of ob1 is copied before the first RDMA Write. spec does not use it. Unit: bytes, range 0 to 9223372036854775807, default 0.'],
    rdma_pipeline_frag_size => [4, 'One RDMA Write of the pipeline of ob1 sends up to this much. spec does not use it. Unit: bytes, range 1 to 9223372036854775807, default 4M.'],
    exclusivity => [7, 'Of the transports that reach a process only those of the highest exclusivity are used: that of tcp is 100, that of shared memory 65536. Adapters have one more than UDP, or one less where btl_ibx_transport begins with iwarp_ud. No unit, range 0 to 2147483647, default 512.'],
    latency => [5, 'Open MPI prefers the transport with the lowest latency for short messages. What is given is that of UDP; adapters have 3. Unit: microseconds, range 0 to 2147483647, default 15.'],
    bandwidth => [5, 'Large messages are divided among several interfaces by their bandwidth. 0 means that of the interface, as the system says it. Unit: Mbit/s, range 0 to 2147483647, default 0.'],
    flags => [5, 'What the component may be used for, such as send, put, get and atomics: a list of the words that ompi_info shows, or the sum of their numbers. A flag that ibx cannot serve does not help; one that is missing is not used. No unit, default all that ibx can do.'],
    atomic_flags => [5, 'The atomic operations that the component may be used for: a list of the words that ompi_info shows, or the sum of their numbers. No unit, default all that ibx can do.'],
);

# What is wrong with one of these, or nothing. range: what the component's source says, { name => [least, most] }.
sub standard_fault {
    my ($name, $p, $range) = @_;
    my $text = $standard{$name}[1];
    return undef if $text =~ /default all that ibx can do\.$/;
    my ($least, $most, $default) = $text =~ /Unit: [^,]+, range (\d+[KM]?) to (\d+[KM]?), default (\d+[KM]?)\b|No unit, range (\d+) to (\d+), default (\d+)\./ ? grep({ defined } $1, $2, $3, $4, $5, $6) : ();
    return 'no range and default' unless defined $default;
    return 'the source knows no range' unless $range->{$name};
    return "its range is $range->{$name}[0] to $range->{$name}[1]" if number($least) != $range->{$name}[0] || number($most) != $range->{$name}[1];
    return "its default is $p->{value}" if defined $p && number($default) != $p->{value};
    return undef;
}

# The ranges of the source.
sub standard_ranges {
    open my $in, '<', "$FindBin::Bin/../../opal/mca/btl/ibx/btl_ibx_component.c" or return {};
    my %number = (INT_MAX => 2147483647, LLONG_MAX => 9223372036854775807, '1 << 20' => 1 << 20);
    my %range;
    while (<$in>) {
        $range{$1} = [map { $number{$_} // $_ } $2, $3] if /^    STANDARD\("(\w+)", (\d+), ([^)]+)\)/;
    }
    return \%range;
}

# What is wrong with a parameter, or nothing.
sub fault {
    my ($p) = @_;
    my ($help, $value) = ($p->{help} // '', $p->{value} // '');
    return 'no help text' if length $help < 20;
    return 'no level' if ($p->{level} // 0) < 1;
    return "it speaks of what is elsewhere: '$1'" if $help =~ /\b(of these|see above|see below|the same as above)\b/i;
    return 'it is no sentence' if $help !~ /^[A-Z].*\.$/;
    return 'no unit' if $help !~ /\b(Unit: \w|No unit)/;
    return 'no default' if $help !~ /\bdefault (-?\w[\w,.-]*)\.$/;
    return undef if defined $p->{choice} || $p->{type} eq 'string';
    my $default = number($1);
    return "the text says default $1, it is $value" if !defined $default || $default != $value;
    return 'no range' unless $help =~ /\brange (-?\d+[KMG]?)\b(?: \([^)]*\))? to (\d+[KMG]?)\b/;
    return "default $value is not in $1 to $2" if $value < number($1) || $value > number($2);
    return undef;
}

# Text as roff has it.
sub roff {
    my ($text) = @_;
    return $text =~ s/\\/\\e/gr =~ s/-/\\-/gr =~ s/^([.'])/\\&$1/gmr;
}

# A man page with its sections of parameters and of counters as they should be; nothing if it lacks one.
sub man_page {
    my ($path, $section) = @_;
    open my $in, '<', $path or return undef;
    my $page = do { local $/; <$in> };
    for my $what (qw(parameters counters)) {
        my ($begin, $end) = ('.\" ' . ucfirst($what) . ': made by test/mpi/parameters.pl', ".\\\" End of $what");
        $page =~ s/(\Q$begin\E\n).*?(\Q$end\E\n)/$1$section->{$what}$2/s or return undef;
    }
    return $page;
}

my $tunable = 0;    # below level 9: what others than developers of the components may want to set
my $text = "# Parameters and counters\n\nMade by `test/mpi/parameters.pl --write docs/user/parameters.md` from what the components register. Level: 1 to 3 for users,\n"
    . "4 to 6 for tuning, 7 to 9 for developers. `ompi_info --param pml spec --level 9` shows the same.\n";
my %page;    # of what the man pages should be: path => text
# All that the transports of Open MPI have in common; self has all of it.
my %theirs;
for my $other (qw(tcp self vader sm)) {
    my ($parameter) = registered("btl", $other);
    $theirs{$_ =~ s{_${other}_}{_ibx_}r} = $parameter->{$_}{help} for keys %$parameter;
}
# The version of all four is that of the package, not that of Open MPI.
chomp(my $package = `sh $FindBin::Bin/../../config/version.sh` =~ s/[a-z].*//r);
my $info = `timeout 60 ompi_info --parsable 2>/dev/null </dev/null`;
for (qw(pml:spec btl:ibx rcache:lazy mpool:freq)) {
    my ($version) = $info =~ /^mca:$_:version:"?component:([\d.]+)/m;
    my $good = ($version // 'none') eq $package;
    print $good ? 'ok      ' : 'FAILED  ', "parameters: the version of $_ is " . ($version // 'none') . ", that of the package $package\n";
    $good ? ++$passed : ++$failed;
}
for (['pml', 'spec'], ['btl', 'ibx'], ['rcache', 'lazy'], ['mpool', 'freq']) {
    my ($framework, $component) = @$_;
    my ($parameter, $counter) = registered($framework, $component);
    my %all = %$parameter;
    for my $name (keys %$parameter) {
        my $theirs = $theirs{$name};
        delete $parameter->{$name} if defined $theirs && $theirs eq ($parameter->{$name}{help} // '');
    }
    $text .= "\n## $framework/$component\n\n| parameter | level | default | meaning |\n|---|---|---|---|\n";
    my $section = '';
    $tunable += grep { ($_->{level} // 0) < 9 } values %$parameter;
    for my $name (sort keys %$parameter) {
        my $p = $parameter->{$name};
        my $fault = fault($p);
        print "FAILED  parameters: $name: $fault\n" if $fault;
        $fault ? ++$failed : ++$passed;
        $text .= sprintf "| `%s` | %s | %s | %s |\n", $name, map { s/\|/\\|/gr } $p->{level} // '', length($p->{value} // '') ? $p->{value} : 'none', $p->{help} // '';
        $section .= ".TP\n.BR $name \" (level $p->{level})\"\n" . roff($p->{help} // '') . "\n";
    }
    if ('ibx' eq $component) {
        $text .= "\nOpen MPI registers these for every BTL, with help of its own; for ibx they mean:\n\n| parameter | level | meaning |\n|---|---|---|\n";
        my $range = standard_ranges();
        for my $last (sort keys %standard) {
            my ($level, $meaning) = @{ $standard{$last} };
            my $fault = standard_fault($last, $all{"btl_ibx_$last"}, $range);
            print "FAILED  parameters: btl_ibx_$last: $fault\n" if $fault;
            $fault ? ++$failed : ++$passed;
            $text .= "| `btl_ibx_$last` | $level | $meaning |\n";
            $section .= ".TP\n.BR btl_ibx_$last \" (level $level)\"\n" . roff($meaning) . "\n";
        }
        my @unknown = grep { !$standard{s/^btl_ibx_//r} && !$parameter->{$_} && !/cuda|accelerator_(?:eager|rdma)_limit/ } sort keys %all;
        print "FAILED  parameters: no meaning of @unknown\n" if @unknown;
        @unknown ? ++$failed : ++$passed;
    }
    $text .= "\n| counter | meaning |\n|---|---|\n" if %$counter;
    my $counters = '';
    my %said;    # no two have the same words
    for my $name (sort keys %$counter) {
        my $good = length $counter->{$name} > 5 && !$said{$counter->{$name}}++ && $counter->{$name} !~ /\b(of|as) (these|those)\b|^(bytes )?of them\b|\bsuch\b|\b(did not|said so)$/
            && $counter->{$name} !~ /^\w+: |\bours\b/; # a heading is no subject
        print "FAILED  parameters: $name: no description, or another counter's, or one that needs another counter's: $counter->{$name}\n" if !$good;
        $good ? ++$passed : ++$failed;
        $text .= "| `$name` | " . $counter->{$name} =~ s/\|/\\|/gr . " |\n";
        $counters .= ".TP\n.B $name\n" . roff($counter->{$name}) . "\n";
    }
    $page{"mca_${framework}_$component.7"} = {parameters => $section, counters => $counters};
    # A component of which ompi_info shows no counter has lost them all.
    print %$counter ? '' : "FAILED  parameters: $framework/$component: ompi_info shows no counter\n";
    ++$failed unless %$counter;
    my $some = keys %$parameter;
    print $some ? "ok      " : "FAILED  ", "parameters: $framework/$component: ", scalar(keys %$parameter), ' parameters, ', scalar(keys %$counter), " counters\n";
    $some ? ++$passed : ++$failed;
}
my $few = $tunable <= 40;
print $few ? 'ok      ' : 'FAILED  ', "parameters: $tunable are below level 9, at most 40\n";
$few ? ++$passed : ++$failed;
if (defined $write) {
    open my $out, '>', $write or die "$write: $!\n";
    print $out $text;
    close $out or die "$write: $!\n";
    for my $name (sort keys %page) {
        my $path = "$man/$name";
        my $now = man_page($path, $page{$name}) // die "$path lacks a section of parameters or of counters\n";
        open my $page, '>', $path or die "$path: $!\n";
        print $page $now;
        close $page or die "$path: $!\n";
    }
} else {
    open my $in, '<', $document or die "$document: $!\n";
    my $same = join('', <$in>) eq $text;
    print $same ? "ok      parameters: docs/user/parameters.md is of today\n"
        : "FAILED  parameters: docs/user/parameters.md is not of today: test/mpi/parameters.pl --write docs/user/parameters.md\n";
    $same ? ++$passed : ++$failed;
    for my $name (sort keys %page) {
        my $path = "$man/$name";
        my $is = do { local $/; open my $page, '<', $path; $page ? <$page> : '' } // '';
        my $good = $is eq (man_page($path, $page{$name}) // 'no page');
        print $good ? "ok      parameters: docs/man/$name is of today\n"
            : "FAILED  parameters: docs/man/$name is not of today: test/mpi/parameters.pl --write docs/user/parameters.md\n";
        $good ? ++$passed : ++$failed;
    }
}
print "$passed passed, $failed failed, 0 skipped\n";
exit($failed > 0);
