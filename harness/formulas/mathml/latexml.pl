
use strict;
use warnings;
use JSON::PP;
use LaTeXML;
use LaTeXML::Core;
use LaTeXML::Common::Error;
use LaTeXML::Package;
use LaTeXML::Post;
use LaTeXML::Post::MathML::Presentation;
use LaTeXML::Post::MathML::Content;

my $json = JSON::PP->new->ascii;
my $work = $json->decode(do { local $/; <STDIN> });
$| = 1;
SetVerbosity(-9);
my $core = LaTeXML::Core->new(preload => $$work{preload}, verbosity => -9, includecomments => 0, searchpaths => []);

sub once {    # The grammar of formulas takes longer to make than most formulas to parse.
  my ($name) = @_;
  no strict 'refs';
  no warnings 'redefine';
  my $make = \&{$name};
  my $made;
  *{$name} = sub { $made ||= $make->(@_) };
  return; }

sub together {    # The lines of an alignment are formulas of their own.
  my ($kind, @math) = @_;
  my @lines = map { join('', map { $_->toString(0) } $_->childNodes) } @math;
  return '<m:math><m:mtable>' . join('', map { "<m:mtr><m:mtd>$_</m:mtd></m:mtr>" } @lines) . '</m:mtable></m:math>'
    if $kind eq 'Presentation';
  return '<m:math><m:apply><m:csymbol cd="ambiguous">formulae-sequence</m:csymbol>' . join('', @lines)
    . '</m:apply></m:math>'; }

sub convert {
  my ($latex) = @_;
  my $log = '';
  UseLog(\$log);
  my ($document, @markup);
  my $done = eval {
    my $digested = $core->digestFile("literal:$latex", noinitialize => 1, mode => 'TeX',
      preamble  => 'literal:\begin{document}\ensuremathfollows ',
      postamble => 'literal:\ensuremathpreceeds\end{document}');
    $document = LaTeXML::Post::Document->new($core->convertDocument($digested), nocache => 1);
    for my $kind ('Presentation', 'Content') {
      my $copy = $document->new($document->getDocumentElement->cloneNode(1));
      my ($made) = LaTeXML::Post->new(verbosity => -9)->ProcessChain($copy, "LaTeXML::Post::MathML::$kind"->new());
      my @math = $made->findnodes('//m:math[not(ancestor::m:math) and not(ancestor::ltx:MathBranch)]');
      die "no formula\n" unless @math;
      push(@markup, @math == 1 ? $math[0]->toString(0) : together($kind, @math)); }
    1; };
  my $why = $@;
  UseLog(undef);
  my ($reason) = $log =~ /^\W*(?:Fatal|Error):(\w+)/m;
  $reason ||= $core->getStatusCode > 1 ? 'error' : '';
  return [$done ? @markup : ('', ''), $reason || ($done ? '' : $why =~ /^no formula/ ? 'no formula' : 'fault')]; }

sub apart {
  my ($latex) = @_;
  $core->withState(sub { $_[0]{status} = {}; $_[0]->pushDaemonFrame; });
  my $made = convert($latex);
  $core->withState(sub { $_[0]->popDaemonFrame; });
  return $made; }

# What all formulas share is made once: the parser's grammar, the document's model, modules loaded when first needed.
once('LaTeXML::MathGrammar::new');
once('LaTeXML::Core::Document::computeIndirectModel');
$core->withState(sub { $core->initializeState('TeX.pool', @{ $$work{preload} }); });
apart('\frac{x^2}{y}');
$core->withState(sub { Let(T_CS("\\$_"), T_CS('\lx@refused'), 'global') for @{ $$work{refused} }; });
# Formulas may load LaTeXML's own definitions of packages, and no other file.
my $home = $INC{'LaTeXML.pm'} =~ s/\.pm$/\//r;
for my $package ('LaTeXML::Package', 'LaTeXML::Package::Pool', 'main') {
  no strict 'refs';
  no warnings 'redefine';
  my $find = \&{"${package}::FindFile"};
  *{"${package}::FindFile"} = sub {
    return $_[0] if $_[0] =~ /^literal:/;
    my $path = $find->(@_);
    return defined $path && index($path, $home) == 0 && index($path, '..') < 0 ? $path : undef; }; }
print "ready\n";

# A process converts formulas until one has an error, which may have spoilt its state; then another one takes over.
my $number = 0;
my $last   = $#{ $$work{latex} };
while ($number <= $last) {
  pipe(my $receive, my $send) or die "no pipe: $!\n";
  my $child = fork;
  die "no process: $!\n" unless defined $child;
  if (!$child) {
    close $receive;
    $send->autoflush(1);
    for my $at ($number .. $last) {
      my $made = apart($$work{latex}[$at]);
      print $send $json->encode($made) . "\n";
      last if $$made[2]; }
    exec 'true'; }    # without taking the process apart
  close $send;
  my ($line, $why, $before) = ('', '', $number);
  while (!$why && $number <= $last) {
    $why = 'timeout' unless eval {
      local $SIG{ALRM} = sub { die "late\n" };
      alarm $$work{seconds};
      $line = <$receive>;
      alarm 0;
      1; };
    last if !$why && !defined $line && $number > $before;
    $why ||= defined $line && $line =~ /\]$/ ? '' : 'crash';
    chomp($line = $why ? $json->encode(['', '', $why]) : $line);
    print "[$number,$line]\n";
    $number++; }
  kill 'KILL', $child;
  waitpid $child, 0; }
