// A load balancer: clients ask one address, and three servers, each on an interface of its own, share the work.
//
//   mezzo run examples/balancer.click CLIENTS=eth0 A=eth1 B=eth2 C=eth3 SERVICE=10.1.0.100 GATE=10.2.0.1
//
// Packets are passed on as they are: a server has the address SERVICE on its loopback, answers from it, and has GATE for
// its default route.  A client stays with the server that a hash of its address names, for all its connections.
// `to_a.count` and so on tell how the work is shared.

define($CLIENTS eth0, $A eth1, $B eth2, $C eth3, $SERVICE 10.1.0.100, $GATE 10.2.0.1,
       $SERVER_A 10.2.0.11, $SERVER_B 10.2.0.12, $SERVER_C 10.2.0.13, $METHOD AUTO);

// Answers ARP requests for $answers on its wire.  Input: IP packets to the address in their annotation; output: those
// that come from the wire.
elementclass Side { $dev, $ip, $answers |
  input -> arp :: ARPQuerier($ip, $dev:eth) -> out :: Queue(1000) -> ToDevice($dev, METHOD $METHOD);
  FromDevice($dev, METHOD $METHOD, SNIFFER false)
    -> HostEtherFilter($dev:eth)
    -> class :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
  class[0] -> ARPResponder($answers $dev:eth) -> out;
  class[1] -> [1] arp;
  class[2] -> Strip(14) -> CheckIPHeader -> output;
  class[3] -> Discard;
}

clients :: Side($CLIENTS, $SERVICE, $SERVICE);
a :: Side($A, $GATE, $GATE); b :: Side($B, $GATE, $GATE); c :: Side($C, $GATE, $GATE);

clients -> asked :: IPClassifier(dst host $SERVICE)
  -> pick :: HashSwitch(12, 4);  // the source address
pick[0] -> to_a :: Counter -> SetIPAddress($SERVER_A) -> a;
pick[1] -> to_b :: Counter -> SetIPAddress($SERVER_B) -> b;
pick[2] -> to_c :: Counter -> SetIPAddress($SERVER_C) -> c;

a, b, c -> answers :: IPClassifier(src host $SERVICE)
  -> DecIPTTL -> back :: Counter -> GetIPAddress(16) -> clients;
