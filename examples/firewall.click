// A firewall on a wire: it sits between two interfaces, looks at IP packets, and has no address of its own.
//
//   mezzo run examples/firewall.click INSIDE=eth0 OUTSIDE=eth1
//
// From the inside everything may go out.  From the outside come answers, pings, ssh, and the web server's port; the rest
// is counted by `in/filter.drops`, and `mezzo run --stats` says how many were denied.

define($INSIDE eth0, $OUTSIDE eth1, $METHOD AUTO);

// Frames on input 0 leave on output 0 when $rules let them pass; ARP always does.
elementclass Guard { __REST__ $rules |
  input -> class :: Classifier(12/0806, 12/0800, -);
  class[0] -> output;
  class[1] -> Strip(14) -> check :: CheckIPHeader -> filter :: IPFilter($rules) -> Unstrip(14) -> output;
  class[2] -> other :: Discard;
}

FromDevice($INSIDE, METHOD $METHOD, PROMISC true, SNIFFER false)
  -> out :: Guard(allow all)
  -> Queue(1000) -> ToDevice($OUTSIDE, METHOD $METHOD);

FromDevice($OUTSIDE, METHOD $METHOD, PROMISC true, SNIFFER false)
  -> in :: Guard(deny ip frag,
                 allow icmp type echo or echo-reply or unreachable or timeexceeded,
                 allow tcp and not (syn and not ack),
                 allow tcp dst port ssh or http,
                 allow udp src port dns or ntp,
                 deny all)
  -> Queue(1000) -> ToDevice($INSIDE, METHOD $METHOD);
