// Gives the hosts that it knows their addresses: a responder for DHCP (RFC 2131), with three reservations.
//
//   mezzo run examples/dhcp.click DEV=eth0 MAC1=020000000001 ADDR1=10.0.0.11
//
// IP is its own address, and that of the router and the name server which it tells; LEASE is the time in seconds, as
// four bytes.  A DISCOVER gets an OFFER and a REQUEST an ACK, with the address that belongs to the client's Ethernet
// address, written without colons; clients that are not known get no answer, and `unknown.count` counts them.  The
// first option must be the message type, as usual clients have it; others do not matter, so let it be the only server.
// It answers ARP and pings, so that a client can try its address.

define($DEV eth0, $IP 10.0.0.1, $MASK 255.255.255.0, $LEASE \<00000e10>, $METHOD AUTO,
       $MAC1 020000000001, $ADDR1 10.0.0.11,
       $MAC2 020000000002, $ADDR2 10.0.0.12,
       $MAC3 020000000003, $ADDR3 10.0.0.13);

FromDevice($DEV, METHOD $METHOD, SNIFFER false)
  -> class :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
class[0] -> ARPResponder($IP $DEV:eth) -> out :: Queue(200) -> ToDevice($DEV, METHOD $METHOD);
class[1] -> [1] arp :: ARPQuerier($IP, $DEV:eth) -> out;
class[2] -> Strip(14) -> CheckIPHeader
  -> what :: IPClassifier(udp src port 68 && dst port 67, dst host $IP && icmp type echo, -);
class[3] -> other :: Discard;
what[1] -> ICMPPingResponder -> arp;
what[2] -> other;

// From here on the packet begins with the BOOTP message: op at 0, transaction at 4, addresses from 12, the client's
// Ethernet address at 28, the options' cookie at 236, the first option at 240.
what[0] -> CheckUDPHeader -> StripIPHeader -> Strip(8)
  -> kind :: Classifier(0/010106 236/63825363 240/350101, 0/010106 236/63825363 240/350103, -);
kind[0] -> discovers :: Counter -> Paint(2) -> who :: Classifier(28/$MAC1, 28/$MAC2, 28/$MAC3, -);
kind[1] -> requests :: Counter -> Paint(5) -> who;
kind[2] -> other;

who[0] -> StoreIPAddress($ADDR1, 16) -> reply :: Null;
who[1] -> StoreIPAddress($ADDR2, 16) -> reply;
who[2] -> StoreIPAddress($ADDR3, 16) -> reply;
who[3] -> unknown :: Counter -> Discard;

// A reply is the request as far as the cookie, with other options behind it, 300 bytes in all (RFC 1542, 2.1).
reply -> Truncate(240)
  -> StoreData(0, \<02>)
  -> StoreIPAddress($IP, 20)
  -> StoreData(240, \<350100 3604 00000000 3304>, GROW true)
  -> StoreIPAddress($IP, 245)
  -> StoreData(251, $LEASE, GROW true)
  -> StoreData(255, \<0104 00000000 0304 00000000 0604 00000000 ff>, GROW true)
  -> StoreData(274, \<0000000000000000000000000000000000000000000000000000>, GROW true)
  -> StoreIPAddress($MASK, 257)
  -> StoreIPAddress($IP, 263)
  -> StoreIPAddress($IP, 269)
  -> type :: PaintSwitch;
type[0] -> Discard; type[1] -> Discard; type[3] -> Discard; type[4] -> Discard;
type[2] -> StoreData(242, \<02>) -> offers :: Counter -> send :: UDPIPEncap($IP, 67, 255.255.255.255, 68);
type[5] -> StoreData(242, \<05>) -> acks :: Counter -> send;
send -> EtherEncap(0x0800, $DEV:eth, ff:ff:ff:ff:ff:ff) -> out;
