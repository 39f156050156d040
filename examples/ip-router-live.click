// The standard IP router between two network interfaces of this machine.
//
//   mezzo run examples/ip-router-live.click DEV0=eth0 IP0=18.26.4.24/24 DEV1=eth1 IP1=18.26.7.1/24
//
// It has the interfaces to itself: give them no addresses in Linux.  METHOD is how frames come and go: XDP, PACKET, TAP or
// AUTO.  Its Ethernet addresses are those of the interfaces; a tap has the host at its other end, so there choose
// others: METHOD=TAP MAC0=02:00:00:00:00:01 MAC1=02:00:00:00:00:02.
// `examples/ip-router.click` is the same router over capture files.

define($DEV0 eth0, $IP0 18.26.4.24/24, $MTU0 1500, $MAC0 $DEV0:eth,
       $DEV1 eth1, $IP1 18.26.7.1/24, $MTU1 1500, $MAC1 $DEV1:eth, $METHOD AUTO);

AddressInfo(if0 $IP0, if1 $IP1);

elementclass Input { $dev, $mac, $if, $paint |
  FromDevice($dev, METHOD $METHOD, SNIFFER false)
    -> HostEtherFilter($mac)
    -> class :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
  class[0] -> ARPResponder($if $mac) -> [1] output;
  class[1] -> [2] output;
  class[2] -> Paint($paint) -> Strip(14) -> check :: CheckIPHeader(INTERFACES $IP0 $IP1) -> [0] output;
  class[3] -> other :: Discard;
}

elementclass Output { $dev, $mac, $if |
  input[0] -> arpq :: ARPQuerier($if:ip, $mac) -> q :: Queue(1000) -> ToDevice($dev, METHOD $METHOD);
  input[1] -> q;
  input[2] -> [1] arpq;
}

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

in0 :: Input($DEV0, $MAC0, if0, 1);
in1 :: Input($DEV1, $MAC1, if1, 2);
out0 :: Output($DEV0, $MAC0, if0);
out1 :: Output($DEV1, $MAC1, if1);
to0 :: Forward(if0, 1, $MTU0);
to1 :: Forward(if1, 2, $MTU1);

rt :: StaticIPLookup(if0:ip/32 0, if1:ip/32 0, if0:ipnet 1, if1:ipnet 2);

in0[0] -> rt; in0[1] -> [1] out0; in0[2] -> [2] out0;
in1[0] -> rt; in1[1] -> [1] out1; in1[2] -> [2] out1;
rt[1] -> to0; to0[0] -> out0; to0[1] -> rt;
rt[2] -> to1; to1[0] -> out1; to1[1] -> rt;

rt[0] -> local :: Classifier(9/01, 9/11, -);
local[0] -> ping :: ICMPPingResponder -> GetIPAddress(16) -> rt;
ping[1] -> host :: Discard;
local[1] -> ICMPError(if0, unreachable, port) -> rt;
local[2] -> host;
