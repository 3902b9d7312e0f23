# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# Plots of a figure, drawn by gnuplot as SVG that stands in the page itself.
package Report::Plot;

use strict;
use warnings;
use BenchRun;
use Report::Stats;

# Colours that differ in brightness too, so that they do on a black and white printer; each has its own mark and dashes.
my @styles = (
    {colour => '#0b4f8a', mark => 7, dash => 1}, {colour => '#c8641e', mark => 5, dash => 2}, {colour => '#2b8a5a', mark => 9, dash => 3},
    {colour => '#8a3b83', mark => 13, dash => 4}, {colour => '#6b6b6b', mark => 11, dash => 5}, {colour => '#b8962e', mark => 4, dash => 1},
    {colour => '#3aa6c4', mark => 6, dash => 2}, {colour => '#a02c2c', mark => 8, dash => 3},
);

# Pixels. On a page of 500 of them a plot is seen as it is drawn, and its text is not made smaller.
use constant {WIDTH => 480, WIDEST => 500, FONT => 14};

sub available { return scalar grep { -x "$_/gnuplot" } split /:/, $ENV{PATH} // '' }

# Text within gnuplot's double quotes, without its own markup (noenhanced).
sub quoted { my ($text) = @_; $text =~ s/["\\\n`]/ /g; return "\"$text\"" }

sub is_x { return Report::Stats::is_number($_[0]) }

# Where sizes and other numbers stand: 0 has a place below the smallest on a logarithmic axis.
sub places {
    my ($log, @x) = @_;
    my %place = map { $_ => $_ + 0 } @x;
    if ($log) {
        my ($least) = sort { $a <=> $b } grep { $_ > 0 } @x;
        $place{$_} = ($least // 1) / 2 for grep { $_ == 0 } @x;
    }
    return \%place;
}

# How many names stand beside each other below the plot: as many as have place.
sub columns {
    my ($plot, $width) = @_;
    my ($longest) = sort { $b <=> $a } map { length $_->{name} } @{$plot->{series}};
    my $columns = int(($width - 60) / (70 + 7.5 * ($longest // 0)));
    return $columns < 1 ? 1 : $columns;
}

# The script for gnuplot. plot: {x, y => axis titles, logx, logy, sizes (x are sizes), zero (y begins at 0),
# series => [{name, style, dash, points => [[x, y, q1, q3], ...]}]}; x that are no numbers stand beside each other.
sub script {
    my ($plot, $width, $height) = @_;
    my $columns = columns($plot, $width);
    my (@all, %seen);
    for my $s (@{$plot->{series}}) {
        push @all, grep { !$seen{$_}++ } map { $_->[0] } @{$s->{points}};
    }
    my $words = grep { !is_x($_) } @all;
    @all = sort { $a <=> $b } @all if !$words;
    my $place = $words ? {map { $all[$_] => $_ } 0 .. $#all} : places($plot->{logx}, @all);
    my $many = @all > 8;
    my @tics = map {
        my $label = $words ? $all[$_] : $plot->{sizes} ? BenchRun::size_text($all[$_]) =~ s/ ?i?B$//r : $all[$_];
        $many && !$words && $_ % 2 ? () : quoted($label) . ' ' . $place->{$all[$_]}
    } 0 .. $#all;
    my @lines = (
        "set terminal svg size $width,$height dynamic noenhanced font 'Helvetica,Arial,sans-serif," . FONT . "' linewidth 1.3 background '#ffffff'",
        'set encoding utf8', 'set border 3 lc rgb "#555555"', 'set tics nomirror out scale 0.6 textcolor rgb "#222222"',
        'set grid ytics lc rgb "#dddddd" lt 1 lw 0.6', 'set key outside below left Left reverse horizontal maxcols '
            . $columns . ' samplen 2.6 spacing 1.1',
        'set bars 0.4', 'set ylabel ' . quoted($plot->{y} // ''), 'set xlabel ' . quoted($plot->{x} // ''),
    );
    push @lines, 'set xtics (' . join(', ', @tics) . ')' . ($words && @all > 4 ? ' rotate by -30' : '') if $words || !$plot->{free_x};
    push @lines, 'set logscale x ' . ($plot->{sizes} ? 2 : 10) if $plot->{logx} && !$words;
    if (@all && !$words) {
        # Room at both ends, so that the outermost marks and their labels are seen.
        my ($from, $to) = map { $place->{$_} } @all[0, -1];
        my $room = ($to - $from) * 0.03 || 1;
        push @lines, 'set xrange [' . ($plot->{logx} ? $from / 1.1 . ':' . $to * 1.1 : $from - $room . ':' . ($to + $room)) . ']';
    }
    push @lines, 'set logscale y', 'set format y "%g"' if $plot->{logy};
    push @lines, 'set yrange [0:*]' if $plot->{zero} && !$plot->{logy};
    push @lines, 'set yrange [' . join(':', @{$plot->{range}}) . ']' if $plot->{range};
    push @lines, 'set xrange [-0.6:' . ($#all + 0.6) . ']' if $words;
    my @drawn;
    my $n = @{$plot->{series}};
    for my $i (0 .. $n - 1) {
        my $s = $plot->{series}[$i];
        my $pen = $styles[($s->{style} // $i) % @styles];
        my $shift = $words ? ($i - ($n - 1) / 2) * 0.6 / ($n || 1) : 0;
        push @lines, "\$S$i << EOD";
        for my $p ($words ? @{$s->{points}} : sort { $a->[0] <=> $b->[0] } @{$s->{points}}) {
            push @lines, join ' ', $place->{$p->[0]} + $shift, map { $_ // 'NaN' } $p->[1], $p->[2] // $p->[1], $p->[3] // $p->[1];
        }
        push @lines, 'EOD';
        my $style = $s->{line_only} ? 'lines' : $words || $s->{marks_only} ? 'yerrorbars' : 'yerrorlines';
        my $marks = $s->{line_only} ? '' : " pt $pen->{mark} ps 0.55";
        my $dash = ' dt ' . ($s->{dash} // ($style eq 'yerrorbars' ? 1 : $pen->{dash}));
        push @drawn, "\$S$i using 1:2" . ($s->{line_only} ? '' : ':3:4') . " with $style lc rgb '$pen->{colour}' lw 1.4$marks$dash title "
            . quoted($s->{name});
    }
    return join "\n", @lines, 'plot ' . join(', ', @drawn), '';
}

# gnuplot's SVG, made part of a page: no declarations, names that are this plot's own, a title for who cannot see it.
sub embedded {
    my ($svg, $prefix, $alt) = @_;
    $svg =~ s/^.*?(?=<svg\b)//s;
    $svg =~ s/<desc>.*?<\/desc>//gs;
    $svg =~ s/<title>.*?<\/title>//gs;
    $svg =~ s/\bid=(['"])/id=$1$prefix-/g;
    $svg =~ s/url\(#/url(#$prefix-/g;
    $svg =~ s/href=(['"])#/href=$1#$prefix-/g;
    $svg =~ s/<svg\b/<svg role="img" aria-label="$alt"/;
    $svg =~ s/\n\s*\n/\n/g;
    return $svg;
}

# The SVG of a plot, or nothing if gnuplot is not there or fails (told on the standard error).
sub svg {
    my ($plot, $prefix, $alt, $wide) = @_;
    return if !available();
    my $width = $wide ? WIDEST : WIDTH;
    my $columns = columns($plot, $width);
    my $rows = int((@{$plot->{series}} + $columns - 1) / $columns);
    require File::Temp;
    my ($out, $name) = File::Temp::tempfile('plot-XXXXXX', TMPDIR => 1, UNLINK => 1);
    print $out script($plot, $width, ($wide ? 300 : 260) + 16 * $rows);
    close $out;
    my ($status, $svg, $errors) = BenchRun::command(30, 'gnuplot', $name);
    unlink $name;
    if ($status ne '0' || $svg !~ /<\/svg>/) {
        print STDERR "report: gnuplot did not draw: $errors\n";
        return;
    }
    $alt =~ s/[<>&"]/ /g;
    return embedded($svg, $prefix, $alt);
}

# The plots of a figure from its points: one for each panel; figure->{draw} may say more.
sub of_figure {
    my ($figure, @points) = @_;
    my $draw = $figure->{draw} // {};
    my (@panels, %in);
    for my $p (grep { $_->{main} } @points) {
        push @panels, $p->{panel} if !$in{$p->{panel}};
        push @{$in{$p->{panel}}}, $p;
    }
    # A series has the same style in all panels.
    my (%style, $next);
    $style{$_->{series}} //= $next++ || 0 for @points;
    my @plots;
    for my $panel (@panels) {
        my (@order, %series);
        for my $p (@{$in{$panel}}) {
            if (!$series{$p->{series}}) {
                $series{$p->{series}} = {name => $p->{series}, style => $style{$p->{series}}, points => []};
                push @order, $series{$p->{series}};
            }
            push @{$series{$p->{series}}{points}}, [@$p{qw(x median q1 q3)}];
        }
        my $unit = $in{$panel}[0]{unit};
        push @plots, {
            panel => $panel, x => $draw->{x} // $figure->{x}, y => $draw->{y} // $unit, sizes => $figure->{x} eq 'size', logx => $draw->{logx},
            logy => $draw->{logy}, zero => !$draw->{logy} && !$draw->{below}, range => $draw->{range}, series => \@order,
        };
    }
    push @plots, $figure->{further}->(@points) if $figure->{further};
    return @plots;
}

1;
