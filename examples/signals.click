// A source of packets that is steered by signals while it runs.
//
//   mezzo run examples/signals.click &
//   kill -USR1 PID     says how far it is
//   kill -HUP PID      goes on at twice the rate, and counts anew
//   kill -INT PID      (or Ctrl-C) sends what is in the queue, and stops; a second one stops at once

define($RATE 1000, $LINE 100kBps);

source :: RatedSource(RATE $RATE, LENGTH 200)
  -> queue :: Queue(10000)
  -> BandwidthRatedUnqueue($LINE)
  -> sent :: Counter
  -> Discard;

Script(print "process $$");

Script(TYPE SIGNAL USR1, print "$(sent.count) sent, $(queue.length) waiting");

Script(TYPE SIGNAL HUP,
  write source.rate $(mul $(source.rate) 2),
  write sent.reset,
  print "now $(source.rate) a second");

Script(TYPE SIGNAL INT TERM,
  write source.active false,
  label drain,
  goto drained $(eq $(queue.length) 0),
  wait 10ms,
  goto drain,
  label drained,
  print "all is sent",
  stop);
