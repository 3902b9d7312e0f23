# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# What a run of the report leaves: data.json (everything that the page is made from), data.csv (one line for each value).
package Report::Data;

use strict;
use warnings;
use JSON::PP;

# The figures, in the order of their file names. Each file's last value is a hash.
sub figures {
    my ($dir) = @_;
    return map {
        my $figure = do $_ or die "$_: " . ($@ || $! || 'no figure') . "\n";
        $figure->{$_} // die "a figure without '$_'\n" for qw(id chapter title paper expected x values sides seconds);
        $figure
    } sort glob "$dir/*.pl";
}

sub typed {
    my ($v) = @_;
    return ref $v eq 'HASH' ? {map { $_ => typed($v->{$_}) } keys %$v} : ref $v eq 'ARRAY' ? [map { typed($_) } @$v]
        : !ref $v && ($v // '') =~ /^-?\d+(\.\d+)?(e[-+]?\d+)?$/i ? $v + 0 : $v;
}

# The file is there as a whole or as it was.
sub write_text {
    my ($name, $text) = @_;
    open my $out, '>:encoding(UTF-8)', "$name.new" or die "cannot write $name: $!\n";
    print $out $text;
    close $out && rename "$name.new", $name or die "cannot write $name: $!\n";
}

sub write_json { my ($name, $data) = @_; write_text($name, JSON::PP->new->canonical->pretty->indent_length(1)->encode({%$data, figures => typed($data->{figures})})) }

sub field { my ($v) = @_; $v //= ''; return $v =~ /[",\n]/ ? '"' . ($v =~ s/"/""/gr) . '"' : $v }

# A line for each key of each record.
sub csv {
    my ($data) = @_;
    my @lines = 'figure,round,who,record,mixed,key,value';
    my $number = 0;
    for my $result (@{$data->{figures}}) {
        for my $record (@{$result->{records}}) {
            my %rest = %$record;
            my ($round, $who, $mixed) = delete @rest{qw(round who mixed)};
            my $at = $number++;
            push @lines, join ',', map { field($_) } $result->{id}, $round, $who, $at, $mixed, $_, $rest{$_} for sort keys %rest;
        }
    }
    return join "\n", @lines, '';
}

# The data of a run: of its folder, or of the file itself.
sub read_json {
    my ($name) = @_;
    $name = "$name/data.json" if -d $name;
    open my $in, '<', $name or die "cannot read $name: $!\n";
    local $/;
    my $data = eval { JSON::PP->new->utf8->decode(scalar <$in>) } or die "$name is no data of a report: $@";
    ref $data eq 'HASH' && ref $data->{figures} eq 'ARRAY' or die "$name is no data of a report\n";
    return $data;
}

1;
