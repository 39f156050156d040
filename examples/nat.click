// A NAT box: the hosts on the inside share the one address that it has on the outside.
//
//   mezzo run examples/nat.click INSIDE=eth0 INSIDE_IP=192.168.1.1/24 OUTSIDE=eth1 OUTSIDE_IP=1.0.0.1/24 GATEWAY=1.0.0.254
//
// It has the interfaces to itself: give them no addresses in Linux.  TCP, UDP and pings go out, and answers find their way
// in; so do ICMP errors, hence traceroute and path MTU discovery work.  The host SERVER on the inside answers on port 80
// of the outside address, also to hosts on the inside: what leaves for ourselves turns round.
// `mezzo read HOST:PORT nat.mappings` shows the flows of a box started with `-p PORT`.

define($INSIDE eth0, $INSIDE_IP 192.168.1.1/24, $INSIDE_MAC $INSIDE:eth,
       $OUTSIDE eth1, $OUTSIDE_IP 1.0.0.1/24, $OUTSIDE_MAC $OUTSIDE:eth, $GATEWAY 1.0.0.254,
       $SERVER 192.168.1.2, $METHOD AUTO);

AddressInfo(inside $INSIDE_IP, outside $OUTSIDE_IP);

// Output 0: IP packets for this box or through it.
elementclass Input { $dev, $mac, $if |
  FromDevice($dev, METHOD $METHOD, SNIFFER false)
    -> HostEtherFilter($mac)
    -> class :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
  class[0] -> ARPResponder($if:ip $mac) -> [1] output;
  class[1] -> [2] output;
  class[2] -> Strip(14) -> check :: CheckIPHeader(INTERFACES $INSIDE_IP $OUTSIDE_IP) -> [0] output;
  class[3] -> other :: Discard;
}

elementclass Output { $dev, $mac, $if |
  input[0] -> DropBroadcasts -> arpq :: ARPQuerier($if:ip, $mac) -> q :: Queue(1000) -> ToDevice($dev, METHOD $METHOD);
  input[1] -> q;
  input[2] -> [1] arpq;
}

in :: Input($INSIDE, $INSIDE_MAC, inside);
out :: Input($OUTSIDE, $OUTSIDE_MAC, outside);
to_in :: Output($INSIDE, $INSIDE_MAC, inside);
to_out :: Output($OUTSIDE, $OUTSIDE_MAC, outside);
in[1] -> [1] to_in; in[2] -> [2] to_in;
out[1] -> [1] to_out; out[2] -> [2] to_out;

// The rewriters: output 0 leads out, output 1 in.
nat :: IPRewriter(pattern outside:ip 1024-65535 - - 0 1, drop, pattern - - $SERVER - 1 0);
pings :: ICMPPingRewriter(pattern outside:ip 1024-65535 - - 0 1, drop);
errors :: ICMPRewriter(nat pings);

// From the inside.
in[0] -> from_in :: IPClassifier(dst host inside:ip and icmp type echo, dst net inside:ipnet, -);
from_in[0] -> ICMPPingResponder -> to_in;
from_in[1] -> ignored :: Discard;
from_in[2] -> ttl_out :: DecIPTTL -> kind :: IPClassifier(tcp or udp, icmp type echo or (icmp and ip frag), icmp, -);
ttl_out[1] -> ICMPError(inside:ip, timeexceeded) -> to_in;
kind[0] -> [0] nat;
kind[1] -> [0] pings;
kind[2] -> errors;
kind[3] -> ignored;

// From the outside, and from the inside for the outside address.
out[0] -> back :: IPClassifier(not dst host outside:ip,
                               icmp type echo,
                               icmp type echo-reply or (icmp and ip frag),
                               icmp,
                               dst tcp port 80,
                               tcp or udp,
                               -);
back[0] -> ignored;
back[1] -> ICMPPingResponder -> leaving :: Null;
back[2] -> [1] pings;
back[3] -> errors;
back[4] -> [2] nat;
back[5] -> [1] nat;
back[6] -> ignored;

// Out.
nat[0] -> leaving;
pings[0] -> leaving;
leaving -> where :: IPClassifier(dst host outside:ip, dst net outside:ipnet, -);
where[0] -> back;
where[1] -> to_out;
where[2] -> SetIPAddress($GATEWAY) -> to_out;

// In.  An error about a packet that does not get in shows the addresses that are known outside.
nat[1] -> ttl_in :: DecIPTTL -> to_in;
pings[1] -> ttl_in;
ttl_in[1] -> ICMPError(outside:ip, timeexceeded) -> errors;
errors[0] -> whither :: IPClassifier(dst net inside:ipnet, -);
errors[1] -> unknown :: Discard;
whither[0] -> to_in;
whither[1] -> leaving;
