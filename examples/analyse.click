// Tells what is in a capture: kinds of packets, who gets most, how long they are, which ports are asked.
//
//   mezzo run examples/analyse.click FILE=examples/captures/demo-traffic.pcap
//
// Aggregates are numbers, as AggregateCounter counts them: an address 10.0.0.1 is 167772161.

define($FILE examples/captures/demo-traffic.pcap);

FromDump($FILE, STOP true)
  -> frames :: Counter
  -> class :: Classifier(12/0800, 12/0806, 12/86dd, -);
class[0] -> Strip(14)
  -> check :: CheckIPHeader
  -> ip :: Counter
  -> AggregateIP(ip dst) -> targets :: AggregateCounter(IP_BYTES true)
  -> AggregateIP(ip len & 0xFF00) -> lengths :: AggregateCounter
  -> kind :: IPClassifier(tcp, udp, icmp, -);
class[1] -> arp :: Counter -> Discard;
class[2] -> ip6 :: Counter -> Discard;
class[3] -> other :: Counter -> Discard;
check[1] -> bad :: Counter -> Discard;

kind[0] -> tcp :: Counter -> opens :: IPClassifier(syn && not ack, -);
opens[0] -> syn :: Counter -> AggregateIP(tcp dport) -> tcp_ports :: AggregateCounter -> Discard;
opens[1] -> Discard;
kind[1] -> udp :: Counter -> port :: AggregateIP(udp dport) -> udp_ports :: AggregateCounter -> Discard;
port[1] -> pieces :: Counter -> Discard;
kind[2] -> icmp :: Counter -> AggregateIP(icmp type) -> icmp_types :: AggregateCounter -> Discard;
kind[3] -> rest :: Counter -> Discard;

DriverManager(
  wait_stop,
  print "frames $(frames.count)  bytes $(frames.byte_count)",
  print "ip $(ip.count)  arp $(arp.count)  ip6 $(ip6.count)  other $(other.count)  bad $(bad.count)",
  print "tcp $(tcp.count)  udp $(udp.count)  icmp $(icmp.count)  rest $(rest.count)",
  print "tcp connections opened $(syn.count), by port:
$(tcp_ports.counts)",
  print "udp packets by port, and $(pieces.count) later fragments:
$(udp_ports.counts)",
  print "icmp packets by type:
$(icmp_types.counts)",
  print "packets by length, in steps of 256:
$(lengths.counts)",
  print "bytes by destination:
$(targets.counts)");
