// A traffic generator and counter: sends UDP packets at a rate, and counts those that come back.
//
//   mezzo run examples/traffic.click DEV=eth0 IP=10.0.0.1 TO=10.0.0.2 PORT=7 RATE=10000 COUNT=50000 LENGTH=64
//
// Something at TO must send packets to PORT back, as an echo server does; LENGTH is that of their data.  It begins when
// ARP has found TO, and in the end says how many packets came back, and how fast both ways were.

define($DEV eth0, $IP 10.0.0.1, $TO 10.0.0.2, $PORT 7, $RATE 1000, $COUNT 1000, $LENGTH 64, $METHOD AUTO);

source :: RatedSource(RATE $RATE, LIMIT $COUNT, LENGTH $LENGTH, ACTIVE false, STOP true)
  -> UDPIPEncap($IP, 9000, $TO, $PORT)
  -> sent :: AverageCounter
  -> arp :: ARPQuerier($IP, $DEV:eth)
  -> out :: Queue(1000)
  -> ToDevice($DEV, METHOD $METHOD);

FromDevice($DEV, METHOD $METHOD, SNIFFER false)
  -> HostEtherFilter($DEV:eth)
  -> class :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
class[0] -> ARPResponder($IP $DEV:eth) -> out;
class[1] -> [1] arp;
class[2] -> Strip(14) -> CheckIPHeader -> CheckUDPHeader
  -> mine :: IPClassifier(src host $TO && dst host $IP && src port $PORT && dst port 9000)
  -> back :: AverageCounter -> Discard;
class[3] -> Discard;

// Pings ask for the Ethernet address, so that no packet that counts has to wait for it.
asker :: ICMPPingSource($IP, $TO, INTERVAL 0.1) -> arp;

Script(
  set looks 0,
  label ask,
  wait 20ms,
  set looks $(add $looks 1),
  goto found $(gt $(arp.responses) 0),
  goto ask $(lt $looks 250),
  print "nobody has $TO",
  stop,
  label found,
  write asker.active false,
  write source.active true);

DriverManager(
  wait_stop,
  wait 0.5s,
  print "sent $(sent.count) packets, $(sent.rate) a second",
  print "back $(back.count) packets, $(back.rate) a second",
  print "lost $(sub $(sent.count) $(back.count)) packets");
