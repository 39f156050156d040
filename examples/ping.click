// Ping, as a configuration: asks a host COUNT times, and answers ARP and pings itself meanwhile.
//
//   mezzo run examples/ping.click DEV=eth0 IP=10.0.0.1 TO=10.0.0.2 COUNT=5 INTERVAL=0.2
//
// IP must be an address that nobody has.  Each answer is a line on standard error, the sum is printed at the end.

define($DEV eth0, $IP 10.0.0.1, $TO 10.0.0.2, $COUNT 5, $INTERVAL 0.2, $METHOD AUTO);

ping :: ICMPPingSource($IP, $TO, LIMIT $COUNT, INTERVAL $INTERVAL, IDENTIFIER 77, STOP true)
  -> arp :: ARPQuerier($IP, $DEV:eth)
  -> out :: Queue(200)
  -> ToDevice($DEV, METHOD $METHOD);

FromDevice($DEV, METHOD $METHOD, SNIFFER false)
  -> HostEtherFilter($DEV:eth)
  -> class :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
class[0] -> ARPResponder($IP $DEV:eth) -> out;
class[1] -> [1] arp;
class[2] -> Strip(14) -> CheckIPHeader -> CheckICMPHeader
  -> what :: IPClassifier(dst host $IP && icmp type echo-reply, dst host $IP && icmp type echo, -);
class[3] -> other :: Discard;

what[0] -> [0] ping;
what[1] -> ICMPPingResponder -> answered :: Counter -> arp;
what[2] -> other;

DriverManager(wait_stop, wait 0.3s, printn "$(ping.summary)");
