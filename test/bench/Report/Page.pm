# Copyright (c) 2026 The spec/ibx/freq/lazy authors. BSD-3-Clause, see LICENSE.
# The page: one HTML file with everything in it, no scripts, nothing fetched; also well-formed XML, which is how it is checked.
package Report::Page;

use strict;
use warnings;
use utf8;
use BenchRun;
use POSIX 'ceil';
use Report::Plot;
use Report::Stats;

sub esc { my ($t) = @_; $t //= ''; $t =~ s/&/&amp;/g; $t =~ s/</&lt;/g; $t =~ s/>/&gt;/g; $t =~ s/"/&quot;/g; return $t }

my $style = <<'CSS';
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { font: 16px/1.5 Georgia, 'Noto Serif', 'DejaVu Serif', serif; color: #1c1c1c; background: #fff; max-width: 62rem; margin: 2.5rem auto; padding: 0 1.5rem; }
h1, h2, h3, th, .label, .where, nav, caption { font-family: 'Helvetica Neue', Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .3rem; }
h2 { font-size: 1.3rem; margin: 3rem 0 .6rem; padding-bottom: .2rem; border-bottom: 2px solid #0b4f8a; }
h3 { font-size: 1.08rem; margin: 2.4rem 0 .2rem; }
p { margin: .5rem 0; max-width: 48rem; }
a { color: #0b4f8a; }
p.label { font-size: .85rem; font-weight: 600; color: #333; margin: 1rem 0 0; }
p.label + .scroll table { margin-top: .2rem; }
.where { color: #555; font-size: .85rem; margin: 0 0 .5rem; }
dl.said { display: grid; grid-template-columns: 6.2rem 1fr; gap: .3rem .8rem; margin: .6rem 0; max-width: 54rem; }
dl.said dt { font: 600 .85rem/1.75 'Helvetica Neue', Arial, 'Liberation Sans', sans-serif; color: #444; }
dl.said dd { margin: 0; }
dl.said ul { margin: 0; padding-left: 1.1rem; }
.plots { display: flex; flex-wrap: wrap; gap: .6rem 1rem; margin: .8rem 0; }
figure { margin: 0; flex: 1 1 26rem; max-width: 30rem; break-inside: avoid; }
figure.wide { flex-basis: 100%; max-width: 40rem; }
figcaption { font: 600 .85rem/1.3 'Helvetica Neue', Arial, 'Liberation Sans', sans-serif; color: #333; margin: 0 0 .1rem .4rem; }
svg { width: 100%; height: auto; display: block; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .82rem; line-height: 1.35; margin: .6rem 0; font-variant-numeric: tabular-nums; font-family: 'Helvetica Neue', Arial, 'Liberation Sans', sans-serif; }
th { text-align: left; font-weight: 600; border-bottom: 1.5px solid #555; vertical-align: bottom; padding: .25rem .7rem .25rem 0; }
td { padding: .16rem .7rem .16rem 0; border-bottom: 1px solid #e4e4e4; vertical-align: top; }
th.n, td.n { text-align: right; }
.panels { display: flex; flex-wrap: wrap; gap: 0 2.2rem; }
.panel { max-width: 100%; min-width: 0; break-inside: avoid; }
.q { color: #666; font-size: .92em; }
.better { color: #1d6b40; font-weight: 600; }
.worse { color: #a3341a; font-weight: 600; }
.absent { border-left: 3px solid #b8962e; padding: .1rem 0 .1rem .8rem; }
details > summary { cursor: pointer; font: .85rem 'Helvetica Neue', Arial, sans-serif; color: #0b4f8a; }
code { font-size: .88em; }
@media (max-width: 34rem) { body { margin: 1rem auto; padding: 0 .5rem; } dl.said { grid-template-columns: 1fr; } figure, figure.wide { flex-basis: 100%; max-width: 100%; } }
@media print {
  @page { margin: 16mm 14mm; }
  body { font-size: 10pt; max-width: none; margin: 0; padding: 0; }
  h1 { font-size: 18pt; } h2 { font-size: 13pt; break-after: avoid; } h3 { font-size: 11pt; break-after: avoid; }
  h3 + .where, p.label { break-after: avoid; } dl.said > dd { break-inside: avoid; }
  tr { break-inside: avoid; } thead { display: table-header-group; }
  /* Lines of blocks break between pages where flex boxes would not. */
  .plots, .panels { display: block; }
  figure { display: inline-block; width: 48%; vertical-align: top; } figure.wide { display: block; width: 78%; }
  .panel { display: inline-block; vertical-align: top; margin-right: 1.4rem; }
  h3 { margin-top: 1.6rem; } h2 { margin-top: 1.8rem; }
  a { color: inherit; text-decoration: none; } .scroll { overflow: visible; }
  table { font-size: 7.8pt; }
}
CSS

my %glossary = (
    spec => 'this project\'s message layer (pml/spec)', ob1 => 'Open MPI\'s own message layer', vader => 'shared memory',
    tcp => 'TCP over the loopback interface', ibx => 'this project\'s transport (btl/ibx): datagram iWARP over UDP where there is no adapter',
    mpich => 'MPICH of Debian, the same program compiled for it', ofi => 'Open MPI over libfabric (mtl/ofi)',
);

# Enough digits to tell, not more.
sub number {
    my ($v) = @_;
    return '–' if !Report::Stats::is_number($v);
    my $size = abs $v;
    return $size >= 99.95 ? sprintf('%.0f', $v) : $size >= 9.995 ? sprintf('%.1f', $v) : sprintf '%.2f', $v;
}
sub ratio { my ($v) = @_; return $v >= 9.995 ? sprintf('%.1f', $v) : sprintf '%.2f', $v }

# A figure's place in the papers: what the paper is about first, its code behind.
my %paper = ('000' => 'thesis on message progress and overlap', '001' => 'speculative rendezvous', '002' => 'thesis on DCFA',
    '003' => 'receive window scaling', '004' => 'zero-copy in SCI-MPICH');
sub paper {
    my ($of) = @_;
    return join '; ', map { /^(00\d) (.*)/ && $paper{$1} ? "$paper{$1}, $2 ($1)" : $_ } split /; */, $of;
}

sub x_text { my ($figure, $x) = @_; return $figure->{x} eq 'size' && Report::Stats::is_number($x) ? BenchRun::size_text($x) : $x }

# ---- what was found ----

# One sentence for each series that has a base, over all panels.
sub found {
    my ($figure, @points) = @_;
    my (@order, %of);
    for my $p (grep { $_->{verdict} } @points) {
        my $id = "$p->{series}|$p->{base}|$p->{unit}";
        push @order, $id if !$of{$id};
        push @{$of{$id}}, $p;
    }
    return map {
        my @all = @{$of{$_}};
        my %by;
        push @{$by{$_->{verdict}}}, $_ for @all;
        my $n = @all;
        my $unit = $all[0]{unit};
        my $text = "$all[0]{series} beside $all[0]{base}" . ($unit ne '' ? " ($unit)" : '') . ': ';
        if ($by{few} && @{$by{few}} == $n) {
            my @r = map { $_->{ratio}{median} } @all;
            $text .= sprintf '%s to %s times, of too few rounds to tell it from noise', map { ratio(BenchRun::quantile($_, @r)) } 0, 1;
        } else {
            my @parts;
            for my $v (qw(better worse)) {
                my @those = sort { abs(log $b->{ratio}{median}) <=> abs(log $a->{ratio}{median}) } grep { $_->{ratio}{median} > 0 } @{$by{$v} // []};
                next if !@those;
                my $most = $those[0];
                my $at = join ', ', grep { $_ ne '' } $most->{panel}, x_text($figure, $most->{x});
                push @parts, scalar(@those) . " of $n cases $v (most: " . ratio($most->{ratio}{median}) . " times" . ($at ne '' ? " at $at" : '') . ')';
            }
            push @parts, scalar(@{$by{same}}) . ' within the noise' if $by{same};
            push @parts, scalar(@{$by{few}}) . ' of too few rounds to tell' if $by{few};
            $text .= join '; ', @parts;
        }
        "$text.";
    } @order;
}

# ---- tables ----

# The quartiles, where there is more than one value.
sub quartiles { my ($n, @q) = @_; return $n > 1 ? ' <span class="q">' . join('–', @q) . '</span>' : '' }

sub cell {
    my ($p) = @_;
    return '<td class="n">–</td>' if !$p;
    return '<td class="n">' . number($p->{median}) . quartiles($p->{n}, map { number($_) } @$p{qw(q1 q3)}) . '</td>';
}

sub ratio_cell {
    my ($p) = @_;
    my $r = $p && $p->{ratio};
    return '<td class="n">–</td>' if !$r;
    my %mark = (better => ' +', worse => ' −');
    my $verdict = $p->{verdict} // '';
    my $class = $mark{$verdict} ? " class=\"$verdict\"" : '';
    return "<td class=\"n\"><span$class>" . ratio($r->{median}) . ($mark{$verdict} // '') . '</span>'
        . quartiles($r->{n}, map { ratio($_) } @$r{qw(q1 q3)}) . '</td>';
}

# Values of one panel: a row for each x, a column for each series, and one for each ratio.
sub panel_table {
    my ($figure, @points) = @_;
    my (@xs, %seen, @series, %is, %at);
    for my $p (@points) {
        push @xs, $p->{x} if !$seen{$p->{x}}++;
        push @series, $p->{series} if !$is{$p->{series}}++;
        $at{$p->{series}}{$p->{x}} = $p;
    }
    @xs = sort { $a <=> $b } @xs if !grep { !Report::Stats::is_number($_) } @xs;
    my @with = grep { my $s = $_; grep { $_->{ratio} } values %{$at{$s}} } @series;
    my ($n) = sort { $b <=> $a } map { $_->{n} } @points;
    my $x = $figure->{draw}{x} // $figure->{x};
    my $html = '<div class="scroll"><table><thead><tr><th>' . esc($x) . '</th>';
    $html .= '<th class="n">' . esc($_) . '</th>' for @series;
    for my $s (@with) {
        my ($base) = map { $_->{base} } grep { $_->{ratio} } values %{$at{$s}};
        $html .= '<th class="n">' . esc($s) . ' ÷ ' . esc($base) . '</th>';
    }
    $html .= '<th class="n">rounds</th><th></th></tr></thead><tbody>';
    for my $at_x (@xs) {
        my @here = grep { $_ } map { $at{$_}{$at_x} } @series;
        my %remark = map { $_ => 1 } map { @{$_->{remarks}} } @here;
        $html .= '<tr><td>' . esc(x_text($figure, $at_x)) . '</td>';
        $html .= cell($at{$_}{$at_x}) for @series;
        $html .= ratio_cell($at{$_}{$at_x}) for @with;
        my ($least) = sort { $a <=> $b } map { $_->{n} } @here;
        $html .= "<td class=\"n\">$least</td><td class=\"q\">" . join(', ', sort keys %remark) . "</td></tr>\n";
    }
    return "$html</tbody></table></div>\n";
}

sub tables {
    my ($figure, @points) = @_;
    my (@panels, %in);
    for my $p (@points) {
        my $panel = join ', ', grep { $_ ne '' } $p->{panel}, $p->{main} ? '' : $p->{unit};
        push @panels, $panel if !$in{$panel};
        push @{$in{$panel}}, $p;
    }
    return join '', map {
        my $title = join ' · ', grep { $_ ne '' } $_, $in{$_}[0]{unit} ne '' && $_ !~ /\Q$in{$_}[0]{unit}\E/ ? $in{$_}[0]{unit} : '';
        '<div class="panel"><p class="label">' . esc($title) . '</p>' . panel_table($figure, @{$in{$_}}) . '</div>'
    } @panels;
}

# How long would be enough for a spread: in words that go on after 'too few rounds to tell'. about: total (seconds of all figures).
sub enough {
    my ($about, $figure, $result) = @_;
    my $made = $result->{rounds};
    return '' if $made >= Report::Stats::FEWEST;
    my $said = ": $made of " . Report::Stats::FEWEST;
    # Report::Measure gives the first three rounds twice a figure's share, and one round may take twice as long as another.
    my $round = $result->{longest} // ($made ? $result->{seconds} / $made : $figure->{seconds});
    my $share = Report::Stats::FEWEST * $round / $figure->{seconds};
    my $minutes = ceil($share * ($about->{total} // 0) / 60 + 1);
    return $said . ($about->{mode} eq 'full' ? sprintf '; a round takes %.0f s', $round
        : sprintf '; enough would be: --only %s --minutes %d', $figure->{id}, $minutes < 15 ? 15 : $minutes);
}

# ---- the page ----

sub list { my (@items) = @_; return @items == 1 ? esc($items[0]) : '<ul>' . join('', map { '<li>' . esc($_) . '</li>' } @items) . '</ul>' }

# The first line of an error, without the command.
sub told { my ($error) = @_; return $error =~ s/:?\s*\n.*//sr }

sub figure_html {
    my ($about, $figure, $result, $number, @points) = @_;
    my $html = "<section id=\"$figure->{id}\"><h3>$number. " . esc($figure->{title}) . '</h3>';
    $html .= '<p class="where">Corresponds to ' . esc(paper($figure->{paper})) . '</p>';
    $html .= '<p>' . esc($figure->{shown}) . '</p>' if $figure->{shown};
    $html .= '<dl class="said"><dt>Expected</dt><dd>' . list(ref $figure->{expected} ? @{$figure->{expected}} : $figure->{expected}) . '</dd>';
    if ($result->{state} ne 'measured') {
        return $html . '<dt>Found</dt><dd class="absent">Not measured: ' . esc($result->{reason}) . "</dd></dl></section>\n";
    }
    my @found = ((map { esc($_) } ($figure->{found} ? $figure->{found}->(@points) : ()), found($figure, @points)));
    $html .= '<dt>Found</dt><dd><ul>' . join('', map { "<li>$_</li>" } @found) . '</ul></dd>' if @found;
    my @out = ((map { "$_->[0]: $_->[1]" } @{$result->{left_out}}), (map { "$_->[0] failed: " . told($_->[1]) } @{$result->{failed}}));
    $html .= '<dt>Left out</dt><dd>' . list(@out) . '</dd>' if @out;
    my @again = map { "$_->[0]: " . told($_->[1]) } @{$result->{repeated}};
    $html .= '<dt>Repeated</dt><dd>' . list(@again) . '</dd>' if @again;
    my $few = grep { ($_->{verdict} // '') eq 'few' } @points;
    $html .= '<dt>Rounds</dt><dd>Too few to tell' . esc(enough($about, $figure, $result)) . '.</dd>' if $few;
    $html .= '<dt>Departures</dt><dd>' . esc($figure->{departures}) . '</dd>' if $figure->{departures};
    $html .= '</dl>';
    my @plots = Report::Plot::of_figure($figure, @points);
    my $drawn = '';
    for my $i (0 .. $#plots) {
        my $alone = @plots == 1 || $plots[$i]{wide};
        my $svg = Report::Plot::svg($plots[$i], "$figure->{id}-$i", "$figure->{title} $plots[$i]{panel}", $alone) // next;
        $drawn .= '<figure' . ($alone ? ' class="wide"' : '') . '>' . ($plots[$i]{panel} ne '' ? '<figcaption>' . esc($plots[$i]{panel}) . '</figcaption>' : '') . "$svg</figure>\n";
    }
    $html .= "<div class=\"plots\">$drawn</div>" if $drawn ne '';
    return $html . '<div class="panels">' . tables($figure, @points) . '</div>'
        . sprintf("<p class=\"where\">%d round%s, %.0f s.</p></section>\n", $result->{rounds}, $result->{rounds} == 1 ? '' : 's', $result->{seconds});
}

sub key_values { return '<table><tbody>' . join('', map { '<tr><td>' . esc($_->[0]) . '</td><td>' . esc($_->[1]) . '</td></tr>' } @_) . '</tbody></table>' }

# page({environment => [[key, value]], mode, started, seconds, notes => []}, [[figure, result, points...], ...])
sub page {
    my ($about, @measured) = @_;
    my (@rows, $body, $chapter);
    $body = '';
    my $n = 0;
    for (@measured) {
        my ($figure, $result, @points) = @$_;
        ++$n;
        if (($chapter // '') ne $figure->{chapter}) {
            $chapter = $figure->{chapter};
            $body .= '<h2>' . esc($chapter) . "</h2>\n";
        }
        $body .= figure_html($about, $figure, $result, $n, @points);
        my %count = (better => 0, worse => 0, same => 0, few => 0);
        ++$count{$_->{verdict}} for grep { $_->{verdict} } @points;
        my $all = $count{better} + $count{worse} + $count{same} + $count{few};
        push @rows, [$n, $figure, $result, $all, \%count];
    }
    my $glance = '<table><thead><tr><th class="n">No.</th><th>Figure</th><th>Corresponds to</th>'
        . join('', map { "<th class=\"n\">$_</th>" } 'cases', 'better', 'worse', 'within noise') . '<th>remark</th></tr></thead><tbody>';
    for (@rows) {
        my ($number, $figure, $result, $all, $count) = @$_;
        my $remark = $result->{state} ne 'measured' ? "not measured: $result->{reason}"
            : $count->{few} ? 'too few rounds to tell' . enough($about, $figure, $result) : @{$result->{failed}} ? 'a side failed' : @{$result->{left_out}} ? 'some sides left out' : '';
        $remark =~ s/\s*(\n| \(|;).*//s if $remark =~ /^not/;
        my @numbers = $all ? ($all, @$count{qw(better worse same)}) : ('', '', '', '');
        $glance .= "<tr><td class=\"n\">$number</td><td><a href=\"#$figure->{id}\">" . esc($figure->{title}) . '</a></td><td>' . esc(paper($figure->{paper}))
            . '</td>' . join('', map { "<td class=\"n\">$_</td>" } @numbers) . '<td class="q">' . esc($remark) . "</td></tr>\n";
    }
    $glance .= '</tbody></table>';
    my $measured = grep { $_->[1]{state} eq 'measured' } @measured;
    my $total = @measured;
    my $notes = join '', map { '<p class="absent">' . esc($_) . '</p>' } @{$about->{notes}};
    my $words = key_values(map { [$_, $glossary{$_}] } sort keys %glossary);
    my $environment = key_values(@{$about->{environment}});
    my $rule = esc($Report::Stats::verdict_rule);
    my $took = sprintf '%d min %02d s', int($about->{seconds} / 60), $about->{seconds} % 60;
    return <<"HTML";
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<title>Laboratory report</title>
<style>
/*<![CDATA[*/
$style/*]]>*/
</style>
</head>
<body>
<h1>Laboratory report</h1>
<p class="where">The papers' figures, measured on this machine beside Open MPI's own components and others · @{[esc($about->{started})]} · $about->{mode} set · $took · $measured of $total figures measured</p>
$notes
<h2>At a glance</h2>
<p>Cases are the points of a figure that have a baseline. What is better and worse depends on the machine; what a figure means stands beside it.</p>
<div class="scroll">$glance</div>
<h2>How to read it</h2>
<p>In each round every side of a figure runs once, in fresh processes, right after each other; the order turns round from round to round. A ratio is that of one round, so that what changes slowly on the machine cancels. Shown are medians, with the quartiles beside them (error bars in the plots). $rule In the tables + is better and − worse.</p>
<p>Remarks: <em>noisy</em>: other programs had the processors most of the time, or there were more processes than processors; <em>mixed</em>: the processors were not equally near to each other in the rounds. Papers: M. J. Rashti, thesis (000, 2010); Rashti and Afsahi, speculative rendezvous (001, 2009); M. Si, DCFA thesis (002, 2012); receive window scaling for shared receive queues (003); zero-copy in SCI-MPICH (004).</p>
<p>Sides are called message layer/transport:</p>
$words
<h2>The machine</h2>
$environment
$body
</body>
</html>
HTML
}

# ---- checks ----

# Why a page is not well-formed XML, or nothing.
sub malformed {
    my ($html) = @_;
    $html =~ s/^\s*<!DOCTYPE html>//;
    $html =~ s/<!\[CDATA\[.*?\]\]>//gs;
    $html =~ s/<!--.*?-->//gs;
    my @open;
    my %id;
    while ($html =~ /\G([^<]*)(<[^>]*>)?/gc) {
        my ($text, $tag) = ($1, $2);
        return "'&' that begins no entity: " . substr($1, 0, 40) if $text =~ /(&(?!(?:amp|lt|gt|quot|#39|#\d+);).*)/s;
        return "'>' in text: " . substr($text, 0, 40) if $text =~ />/;
        last if !defined $tag && pos($html) >= length $html;
        return 'a < without >' if !defined $tag;
        if ($tag =~ /^<\/([\w:-]+)\s*>$/) {
            my $last = pop @open // 'nothing';
            return "</$1> ends <$last>" if $last ne $1;
        } elsif ($tag =~ /^<([\w:-]+)((?:\s+[\w:-]+\s*=\s*(?:"[^"<]*"|'[^'<]*'))*)\s*(\/?)>$/) {
            my ($name, $attributes, $empty) = ($1, $2, $3);
            push @open, $name if !$empty;
            while ($attributes =~ /\sid\s*=\s*["']([^"']*)["']/g) {
                return "id '$1' twice" if $id{$1}++;
            }
        } else {
            return "not a tag: $tag";
        }
    }
    return @open ? "<$open[-1]> does not end" : undef;
}

# What a page would fetch from elsewhere, or run.
sub external {
    my ($html) = @_;
    my @found;
    push @found, $1 while $html =~ /\b(?:src|href|data|action|poster)\s*=\s*["']((?!#)[^"']*)["']/g;
    push @found, $1 while $html =~ /(url\(\s*["']?(?!["']?#)[^)]*\))/g;
    push @found, $1 while $html =~ /(<script\b|<link\b|<iframe\b|<object\b|\@import)/gi;
    return @found;
}

1;
