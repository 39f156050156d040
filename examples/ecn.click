// A slow line between two interfaces that says by ECN when it fills, before it has to drop.
//
//   mezzo run examples/ecn.click NEAR=eth0 FAR=eth1 RATE=10Mbps MARK=9Mbps BURST=20000
//
// What goes beyond MARK, after a burst of BURST bytes, is marked: a phantom queue, which is a little slower than the
// line, is full before the line's own queue is.  Packets of senders that know nothing of ECN are left as they are.
// `to_far/marked.count` tells the marks, `to_far/waiting.drops` the drops; the rates can be changed while it runs.

define($NEAR eth0, $FAR eth1, $RATE 10Mbps, $MARK 9Mbps, $BURST 20000, $METHOD AUTO);

elementclass Line {
  input -> class :: Classifier(12/0800, -);
  class[0] -> MarkIPHeader(14)
    -> phantom :: BandwidthRatedSplitter($MARK, BURST_BYTES $BURST)
    -> waiting :: Queue(500)
    -> line :: BandwidthRatedUnqueue($RATE)
    -> sent :: Counter
    -> Queue(1000)
    -> output;
  phantom[1] -> knows :: IPClassifier(ip ect, -);
  knows[0] -> MarkIPCE -> marked :: Counter -> waiting;
  knows[1] -> waiting;
  class[1] -> waiting;
}

FromDevice($NEAR, METHOD $METHOD, PROMISC true, SNIFFER false) -> to_far :: Line -> ToDevice($FAR, METHOD $METHOD);
FromDevice($FAR, METHOD $METHOD, PROMISC true, SNIFFER false) -> to_near :: Line -> ToDevice($NEAR, METHOD $METHOD);
