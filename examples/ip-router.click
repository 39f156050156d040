// The standard IP router with two interfaces, over capture files.
//
//   mezzo run examples/ip-router.click --virtual --stats
//
// Each interface reads the frames that arrive from IN0 or IN1 at the times they were captured and writes those that
// leave to OUT0 or OUT1.  On a real machine FromDump and ToDump become FromDevice and ToDevice.

define($IN0 examples/captures/eth0-in.pcap, $OUT0 out/eth0-out.pcap,
       $IN1 examples/captures/eth1-in.pcap, $OUT1 out/eth1-out.pcap,
       $MTU 1500, $TIMING true);

AddressInfo(eth0 18.26.4.24/24 00:00:C0:AE:67:EF,
            eth1 18.26.7.1/24  00:00:C0:4F:71:EF);

// Frames in: only those for us or for all; ARP requests, ARP replies, IP, anything else.
elementclass Input { $in, $if, $paint |
  FromDump($in, TIMING $TIMING, STOP true)
    -> HostEtherFilter($if)
    -> class :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
  class[0] -> ARPResponder($if) -> [1] output;
  class[1] -> [2] output;
  class[2] -> Paint($paint) -> Strip(14) -> CheckIPHeader(INTERFACES 18.26.4.24/24 18.26.7.1/24) -> [0] output;
  class[3] -> other :: Discard;
}

// Frames out: packets for the wire on input 0, ARP answers for it on input 1, ARP replies for the querier on input 2.
elementclass Output { $out, $if |
  input[0] -> arpq :: ARPQuerier($if) -> q :: Queue(1000) -> ToDump($out);
  input[1] -> q;
  input[2] -> [1] arpq;
}

// What a packet goes through on its way to an interface; errors about it go back to the routing table.
elementclass Forward { $if, $paint, $mtu |
  input -> DropBroadcasts
    -> redirect :: PaintTee($paint)
    -> options :: IPGWOptions($if)
    -> FixIPSrc($if)
    -> ttl :: DecIPTTL
    -> fragment :: IPFragmenter($mtu)
    -> [0] output;
  redirect[1] -> ICMPError($if, redirect, host) -> [1] output;
  options[1] -> ICMPError($if, parameterproblem) -> [1] output;
  ttl[1] -> ICMPError($if, timeexceeded) -> [1] output;
  fragment[1] -> ICMPError($if, unreachable, needfrag, PMTU $mtu) -> [1] output;
}

in0 :: Input($IN0, eth0, 1);
in1 :: Input($IN1, eth1, 2);
out0 :: Output($OUT0, eth0);
out1 :: Output($OUT1, eth1);
to0 :: Forward(eth0, 1, $MTU);
to1 :: Forward(eth1, 2, $MTU);

rt :: StaticIPLookup(18.26.4.24/32 0, 18.26.4.255/32 0, 18.26.4.0/32 0,
                     18.26.7.1/32 0, 18.26.7.255/32 0, 18.26.7.0/32 0,
                     18.26.4.0/24 1, 18.26.7.0/24 2);

in0[0] -> rt; in0[1] -> [1] out0; in0[2] -> [2] out0;
in1[0] -> rt; in1[1] -> [1] out1; in1[2] -> [2] out1;
rt[1] -> to0; to0[0] -> out0; to0[1] -> rt;
rt[2] -> to1; to1[0] -> out1; to1[1] -> rt;

// For the router itself: pings are answered, other UDP is told that nobody listens, the rest goes to the host.
rt[0] -> local :: Classifier(9/01, 9/11, -);
local[0] -> ping :: ICMPPingResponder -> GetIPAddress(16) -> rt;
ping[1] -> host :: Discard;
local[1] -> ICMPError(eth0, unreachable, port) -> rt;
local[2] -> host;

// Both captures read, then one second for what is still under way.
DriverManager(wait_stop, wait_stop, wait 1s, stop);
