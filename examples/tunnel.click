// The end of a VXLAN tunnel (RFC 7348): Ethernet frames of one interface travel in UDP over another.
//
//   mezzo run examples/tunnel.click LAN=eth0 WAN=eth1 HERE=192.0.2.1 THERE=192.0.2.2
//
// Its network is 42, which is 00002a in hexadecimal; for another one change VNI and HEADER, which holds it.  The other
// end may be Linux:
//
//   ip link add vx0 type vxlan id 42 local 192.0.2.2 remote 192.0.2.1 dstport 4789
//
// A tunnel takes 50 bytes of each packet: hosts at both ends should have an MTU of 1450.

define($LAN eth0, $WAN eth1, $HERE 192.0.2.1, $THERE 192.0.2.2, $VNI 00002a, $HEADER \<08000000 00002a00>,
       $METHOD AUTO);

FromDevice($LAN, METHOD $METHOD, PROMISC true, SNIFFER false)
  -> Unstrip(8)
  -> StoreData(0, $HEADER)
  -> into :: Counter
  -> UDPIPEncap($HERE, 4789, $THERE, 4789, CHECKSUM false)
  -> arp :: ARPQuerier($HERE, $WAN:eth)
  -> out :: Queue(1000)
  -> ToDevice($WAN, METHOD $METHOD);

FromDevice($WAN, METHOD $METHOD, SNIFFER false)
  -> HostEtherFilter($WAN:eth)
  -> class :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
class[0] -> ARPResponder($HERE $WAN:eth) -> out;
class[1] -> [1] arp;
class[2] -> Strip(14) -> CheckIPHeader
  -> what :: IPClassifier(src host $THERE && dst host $HERE && udp dst port 4789, dst host $HERE && icmp type echo, -);
class[3] -> other :: Discard;

what[0] -> CheckUDPHeader -> StripIPHeader -> Strip(8)
  -> net :: Classifier(0/08%08 4/$VNI, -)
  -> Strip(8) -> outof :: Counter -> Queue(1000) -> ToDevice($LAN, METHOD $METHOD);
net[1] -> foreign :: Counter -> Discard;
what[1] -> ICMPPingResponder -> arp;
what[2] -> other;
