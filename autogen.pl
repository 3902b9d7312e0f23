#!/usr/bin/env perl
# Makes configure and the Makefile.in files of a git checkout. A released tarball has them already.
#
# Looks first whether the GNU tools are there, and says for every one that is not which Debian package has it, so that
# one look at the output is enough to mend it all.

use strict;
use warnings;
use File::Basename qw(dirname);

# program => [Debian package, oldest version that will do]
my @tools = (
    ['autoconf',   'autoconf', '2.69'],
    ['autoreconf', 'autoconf', '2.69'],
    ['automake',   'automake', '1.15'],
    ['aclocal',    'automake', '1.15'],
    ['libtoolize', 'libtool',  '2.4.6'],
    ['m4',         'm4',       '1.4.16'],
);

sub say_line { print STDOUT "autogen: @_\n"; }

# 1.16.5 against 1.15: part by part, as numbers.
sub at_least
{
    my ($have, $want) = @_;
    my @h = split /\./, $have;
    my @w = split /\./, $want;
    while (@h || @w) {
        my $a = shift(@h) // 0;
        my $b = shift(@w) // 0;
        return $a > $b if $a != $b;
    }
    return 1;
}

sub version_of
{
    my ($program) = @_;
    open(my $pipe, '-|', "$program --version 2>/dev/null") or return undef;
    my @lines = <$pipe>;
    close($pipe);
    return undef unless @lines && $lines[0] =~ /(\d+(?:\.\d+)+)/;
    return $1;
}

chdir dirname($0) or die "autogen: cannot enter " . dirname($0) . ": $!\n";
-f 'configure.ac' or die "autogen: there is no configure.ac beside autogen.pl\n";

my (@missing, %packages);
for my $tool (@tools) {
    my ($program, $package, $want) = @$tool;
    my $have = version_of($program);
    if (!defined $have) {
        push @missing, "$program is missing: it is in the Debian package $package";
        $packages{$package} = 1;
    } elsif (!at_least($have, $want)) {
        push @missing, "$program is version $have, but $want or later is needed (Debian package $package)";
        $packages{$package} = 1;
    } else {
        say_line("found $program $have");
    }
}
if (@missing) {
    print STDERR "autogen: $_\n" for @missing;
    print STDERR 'autogen: to install what is missing: apt-get install ' . join(' ', sort keys %packages) . "\n";
    exit 1;
}

# Files of the GNU tools go here, so that config/ itself holds only files written for this package.
for my $dir ('config/gnu') {
    -d $dir or mkdir $dir or die "autogen: cannot make $dir: $!\n";
}

my @command = ('autoreconf', '-f', '-i', '-Wall,no-portability,no-override,no-obsolete');
say_line("running @command");
system(@command) == 0 or die "autogen: autoreconf failed, see above\n";
say_line('done; next: ./configure, or ./quickstart to build, install privately and try it');
