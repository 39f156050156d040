// A slow line between two interfaces: $UP one way, $DOWN the other, $DELAY each way, and a queue of 100 packets.
//
//   mezzo run examples/shaper.click NEAR=eth0 FAR=eth1 UP=2Mbps DOWN=16Mbps DELAY=10ms
//
// Rate and delay can be changed while it runs: write up/line.bandwidth 4Mbps.

define($NEAR eth0, $FAR eth1, $UP 2Mbps, $DOWN 16Mbps, $DELAY 10ms, $METHOD AUTO);

elementclass Line { $delay, $rate |
  input -> waiting :: Queue(100) -> line :: LinkUnqueue($delay, $rate) -> sent :: Counter -> Queue(1000) -> output;
}

FromDevice($NEAR, METHOD $METHOD, PROMISC true, SNIFFER false) -> up :: Line($DELAY, $UP)
  -> ToDevice($FAR, METHOD $METHOD);
FromDevice($FAR, METHOD $METHOD, PROMISC true, SNIFFER false) -> down :: Line($DELAY, $DOWN)
  -> ToDevice($NEAR, METHOD $METHOD);
